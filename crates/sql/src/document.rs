//! Documents, and the operations on jobs that go with their changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use backstop_core::job::Operation;
use backstop_core::outbox::OutboxKey;
use backstop_core::{JobId, Timestamp};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Documents, Drawer, Edit, Expect, OutboxBacklog, check_names,
    show,
};

use crate::columns::Columns;
use crate::failure::SqlFailure;
use crate::operate::{self, Change, ChangeAnswer};
use crate::row::{Row, moment_of, no_moment};
use crate::session::Session as _;
use crate::statement::{Request, Statement};
use crate::term;
use crate::transaction::Transaction;
use crate::value::Value;

/// Documents of a drawer, in the order of the bytes of their keys or the other way round.
pub(crate) async fn documents(tx: &mut Transaction, range: &DocumentRange) -> Result<Documents, SqlFailure> {
    show::page_limit(range.limit)?;
    let page = if range.last_first { Statement::LastDocuments } else { Statement::DocumentPage };
    let page = page.with(vec![
        tx.shared.moment(),
        Value::text(range.drawer.as_str()),
        Value::text(&range.prefix),
        Value::maybe_text(range.after.as_ref()),
        Value::Text(range.end()),
        Value::count(range.limit.saturating_add(1)),
    ]);
    let (mut now, mut items) = (None, Vec::new());
    for mut row in tx.one_alone(page).await? {
        now = Some(row.moment()?);
        if let Some(key) = row.maybe_text()? {
            items.push(Document { key, revision: row.int()?, body: Arc::from(row.text()?) });
        }
    }
    let now = now.ok_or_else(no_moment)?;
    // A join promises no order.
    items.sort_by(|one, other| one.key.cmp(&other.key));
    if range.last_first {
        items.reverse();
    }
    let page = show::cut(items, range.limit, |_| ());
    Ok(Documents { now, items: page.items, more: page.next.is_some() })
}

/// Documents by name, in the order of their names; none for one that is not there.
pub(crate) async fn named_documents(
    tx: &mut Transaction,
    names: &[(Drawer, String)],
) -> Result<Vec<Option<Document>>, SqlFailure> {
    check_names(names.len())?;
    let mut columns = Columns::default();
    for (drawer, key) in names.iter().collect::<BTreeSet<_>>() {
        columns.row().text(drawer.as_str()).text(key);
    }
    let mut found: HashMap<(String, String), Document> = HashMap::new();
    if columns.rows() > 0 {
        for mut row in tx.one_alone(Statement::ReadDocuments.rows(columns)).await? {
            let (drawer, key) = (row.text()?, row.text()?);
            let document = Document { key: key.clone(), revision: row.int()?, body: Arc::from(row.text()?) };
            found.insert((drawer, key), document);
        }
    }
    let place = |(drawer, key): &(Drawer, String)| (drawer.as_str().to_owned(), key.clone());
    Ok(names.iter().map(|name| found.get(&place(name)).cloned()).collect())
}

/// What waits for a sink.
pub(crate) async fn outbox_backlog(tx: &mut Transaction, sink: &str) -> Result<OutboxBacklog, SqlFailure> {
    let range = DocumentRange::first(Drawer::Outbox, 1).under(OutboxKey::prefix(sink));
    let (messages, bytes) = (OutboxKey::messages_at(sink), OutboxKey::bytes_at(sink));
    let places = [messages.0, messages.1, bytes.0, bytes.1].map(Value::count);
    let mut values = vec![
        tx.shared.moment(),
        Value::text(range.drawer.as_str()),
        Value::text(&range.prefix),
        Value::Text(range.end()),
    ];
    values.extend(places);
    let rows = tx.one_alone(Statement::OutboxBacklog.with(values)).await?;
    let mut row = rows.into_iter().next().ok_or_else(no_moment)?;
    let now = row.moment()?;
    let sums = [row.int()?, row.int()?, row.int()?];
    Ok(OutboxBacklog::summed(now, sums, row.maybe_text()?.as_deref()))
}

/// Where a document is: drawer and key, in the order in which they are locked.
type Spot<'a> = (&'a str, &'a str);

fn spot(edit: &Edit) -> Spot<'_> {
    (edit.drawer.as_str(), &edit.key)
}

/// The revisions of the documents that are there, by drawer and key.
type Revisions = HashMap<(String, String), i64>;

fn revision(found: &Revisions, (drawer, key): Spot<'_>) -> Option<i64> {
    found.get(&(drawer.to_owned(), key.to_owned())).copied()
}

/// Changes documents and operates on jobs, or does nothing when a document is not as expected.
///
/// A document that somebody else writes for the first time between our look and our write is met as a duplicate; the
/// transaction then begins again, and sees it.
pub(crate) async fn amend(tx: &mut Transaction, amend: &Amend) -> Result<Amended, SqlFailure> {
    amend.check_size()?;
    // One edit for each document: the last one that names it.
    let edits: BTreeMap<Spot<'_>, &Edit> = amend.edits.iter().map(|edit| (spot(edit), edit)).collect();
    let (now, found) = lock(tx, amend, &edits).await?;
    if let Some(edit) = amend.edits.iter().find(|edit| !is_expected(edit, revision(&found, spot(edit)))) {
        return Ok(Amended::Conflict { drawer: edit.drawer, key: edit.key.clone() });
    }
    let operations: Vec<(JobId, &Operation)> =
        amend.operations.iter().map(|(id, what)| (*id, what)).collect();
    let now_is_enough = operations.is_empty() && amend.jobs.is_empty();
    let change = Change {
        now: now_is_enough.then_some(now),
        jobs: &amend.jobs,
        operations: &operations,
        first: write(&edits, &found),
        strict: Some(amend),
    };
    Ok(match operate::apply(tx, change).await? {
        ChangeAnswer::Done { operated, submitted } => Amended::Done { now, operated, submitted },
        ChangeAnswer::Refused { index, refusal } => Amended::Refused { index, refusal },
    })
}

/// Asks for the moment, checks the term, and locks the documents that are there.
async fn lock(
    tx: &mut Transaction,
    amend: &Amend,
    edits: &BTreeMap<Spot<'_>, &Edit>,
) -> Result<(Timestamp, Revisions), SqlFailure> {
    let mut names = Columns::default();
    for (drawer, key) in edits.keys() {
        names.row().text(drawer).text(key);
    }
    let requests = [tx.clock(), Statement::LockDocuments.rows(names)];
    let requests = requests.into_iter().chain(amend.term.as_ref().map(term::ask)).collect();
    let mut answers = tx.ask_all(requests).await?.into_iter();
    let now = moment_of(answers.next().unwrap_or_default())?;
    let rows = answers.next().unwrap_or_default();
    if let Some(term) = &amend.term {
        term::expect(term, term.duty, answers.next().unwrap_or_default(), now)?;
    }
    let read = |mut row: Row| Ok(((row.text()?, row.text()?), row.int()?));
    Ok((now, rows.into_iter().map(read).collect::<Result<_, SqlFailure>>()?))
}

fn is_expected(edit: &Edit, found: Option<i64>) -> bool {
    match edit.expect {
        Expect::Any => true,
        Expect::Absent => found.is_none(),
        Expect::Revision(revision) => found == Some(revision),
    }
}

/// Makes the edits of documents which are locked as far as they are there.
fn write(edits: &BTreeMap<Spot<'_>, &Edit>, found: &Revisions) -> Vec<Request> {
    let (mut new, mut changed, mut gone) = (Columns::default(), Columns::default(), Columns::default());
    for (spot, edit) in edits {
        match (revision(found, *spot), &edit.body) {
            (None, None) => {}
            (Some(_), None) => {
                gone.row().text(spot.0).text(spot.1);
            }
            (before, Some(body)) => {
                let rows = if before.is_some() { &mut changed } else { &mut new };
                rows.row().text(spot.0).text(spot.1).int(before.unwrap_or_default() + 1).text(body);
            }
        }
    }
    vec![
        Statement::InsertDocuments.rows(new),
        Statement::SaveDocuments.rows(changed),
        Statement::DeleteDocuments.rows(gone),
    ]
}

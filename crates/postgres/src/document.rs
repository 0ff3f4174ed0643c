//! Documents, and the operations on jobs that go with their changes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use backstop_core::alert::Notice;
use backstop_core::job::Operation;
use backstop_core::{JobId, Limits};
use backstop_store::{Amend, Amended, Document, DocumentRange, Documents, Drawer, Edit, Error, Expect, show};

use crate::duty;
use crate::error::Failure;
use crate::flush::add;
use crate::operate;
use crate::session::{Query, Session};
use crate::sql::document as sql;
use crate::unit::Unit;
use crate::values::Value;

/// The revisions that were found, by drawer and key.
type Revisions = HashMap<(String, String), i64>;

/// Documents of a shelf, in the order of the bytes of their keys.
pub(crate) async fn documents(unit: &mut Unit, shelf: &DocumentRange) -> Result<Documents, Failure> {
    show::page_limit(shelf.limit)?;
    let params = vec![
        Value::text(shelf.drawer.as_str()),
        Value::text(&shelf.prefix),
        shelf.after.as_ref().map_or(Value::Text(None), Value::text),
        Value::count(shelf.limit + 1),
        unit.shared.moment(),
        end_of(&shelf.prefix).map_or(Value::Text(None), Value::text),
    ];
    let rows = unit.alone(Query::new(sql::PAGE, params)).await?;
    let (mut now, mut items) = (None, Vec::with_capacity(rows.len()));
    for mut row in rows {
        now = Some(row.moment()?);
        if let Some(key) = row.maybe_text()? {
            items.push(Document { key, revision: row.int()?, body: Arc::from(row.text()?) });
        }
    }
    let now = now.ok_or_else(|| Failure::Unreadable("the clock gave no answer".to_owned()))?;
    let more = items.len() > shelf.limit && shelf.limit > 0;
    items.truncate(shelf.limit);
    Ok(Documents { now, items, more })
}

/// What is above every key that begins with `prefix`: its last character raised by one. None when nothing is.
fn end_of(prefix: &str) -> Option<String> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end.into_iter().collect());
        }
    }
    None
}

/// Changes documents and operates on jobs, all or nothing.
pub(crate) async fn amend(unit: &mut Unit, amend: &Amend) -> Result<Amended, Failure> {
    let (limit, actual) = (Limits::default().batch, amend.edits.len().max(amend.operations.len()));
    if actual > limit {
        return Err(Error::TooMany { what: "the amendment", actual, limit }.into());
    }
    let now = match &amend.term {
        Some(term) => duty::lead_on(unit, term, term.duty).await?,
        None => unit.now().await?,
    };
    let found = lock(unit, &amend.edits).await?;
    let conflict = |edit: &Edit| Amended::Conflict { drawer: edit.drawer, key: edit.key.clone() };
    if let Some(edit) = amend.edits.iter().find(|edit| !is_expected(edit, &found)) {
        return Ok(conflict(edit));
    }
    let operations: Vec<(JobId, &Operation)> =
        amend.operations.iter().map(|(job, what)| (*job, what)).collect();
    let operating = operate::perform(unit, &operations, now).await?;
    // Last, because whoever waits for the same document waits from here to the commit.
    if let Some(edit) = insert(unit, &amend.edits, &found).await? {
        return Ok(conflict(edit));
    }
    let operated = operating.save(unit, rewrite(&amend.edits, &found), now).await?;
    Ok(Amended::Done { now, operated })
}

/// Locks the documents that are there, in one order.
async fn lock(unit: &mut Unit, edits: &[Edit]) -> Result<Revisions, Failure> {
    if edits.is_empty() {
        return Ok(Revisions::new());
    }
    let names = vec![drawers(edits), Value::texts(edits.iter().map(|edit| &edit.key))];
    let rows = unit.one(Query::new(sql::LOCK, names)).await?;
    rows.into_iter().map(|mut row| Ok(((row.text()?, row.text()?), row.int()?))).collect()
}

fn drawers(edits: &[Edit]) -> Value {
    Value::texts(edits.iter().map(|edit| edit.drawer.as_str()))
}

fn name(edit: &Edit) -> (String, String) {
    (edit.drawer.as_str().to_owned(), edit.key.clone())
}

fn is_expected(edit: &Edit, found: &Revisions) -> bool {
    let found = found.get(&name(edit)).copied();
    match edit.expect {
        Expect::Any => true,
        Expect::Absent => found.is_none(),
        Expect::Revision(revision) => found == Some(revision),
    }
}

/// Writes the documents that must be new; answers the first one that somebody else has written meanwhile.
async fn insert<'e>(
    unit: &mut Unit,
    edits: &'e [Edit],
    found: &Revisions,
) -> Result<Option<&'e Edit>, Failure> {
    let new: Vec<&Edit> = edits.iter().filter(|edit| is_new(edit, found)).collect();
    let mut queries = Vec::new();
    add(&mut queries, sql::INSERT, written(new.iter().copied()));
    let Some(query) = queries.pop() else { return Ok(None) };
    let mut stored = BTreeSet::new();
    for mut row in unit.one(query).await? {
        stored.insert((row.text()?, row.text()?));
    }
    Ok(new.into_iter().find(|edit| !stored.contains(&name(edit))))
}

fn is_new(edit: &Edit, found: &Revisions) -> bool {
    edit.expect == Expect::Absent && edit.body.is_some() && !found.contains_key(&name(edit))
}

/// The statements for all other changes.
fn rewrite(edits: &[Edit], found: &Revisions) -> Vec<Query> {
    let mut queries = Vec::new();
    let (kept, gone): (Vec<&Edit>, Vec<&Edit>) = edits.iter().partition(|edit| edit.body.is_some());
    add(&mut queries, sql::SAVE, written(kept.into_iter().filter(|edit| !is_new(edit, found))));
    let gone = gone.into_iter().filter(|edit| edit.expect != Expect::Absent);
    let gone = gone.map(|edit| vec![Value::text(edit.drawer.as_str()), Value::text(&edit.key)]);
    add(&mut queries, sql::DELETE, gone.collect());
    queries
}

/// The rows of documents that get a new body, in the order in which everybody writes them.
fn written<'e>(edits: impl Iterator<Item = &'e Edit>) -> Vec<Vec<Value>> {
    let mut edits: Vec<&Edit> = edits.collect();
    edits.sort_by_key(|edit| (edit.drawer.as_str(), &edit.key));
    let row = |edit: &Edit| {
        let body = Value::maybe_text(edit.body.as_deref());
        vec![Value::text(edit.drawer.as_str()), Value::text(&edit.key), body]
    };
    edits.into_iter().map(row).collect()
}

/// Adds the statement that puts raised alerts into their drawer (D3).
pub(crate) fn write_alerts(out: &mut Vec<Query>, alerts: &[Notice]) -> Result<(), Failure> {
    let row = |notice: &Notice| {
        let body = serde_json::to_string(notice)?;
        Ok(vec![Value::text(Drawer::Alerts.as_str()), Value::text(notice.key()), Value::text(body)])
    };
    add(out, sql::ALERTS, alerts.iter().map(row).collect::<Result<_, Failure>>()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn the_end_of_a_prefix_is_above_all_that_begins_with_it() {
        assert_eq!(end_of("plan/open/").as_deref(), Some("plan/open0"));
        assert_eq!(end_of("a\u{d7ff}").as_deref(), Some("a\u{e000}"), "there are no characters in between");
        assert_eq!(end_of("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(end_of(""), None);
    }
}

//! Documents, and the operations on jobs that go with their changes.

use std::sync::Arc;

use backstop_core::outbox::OutboxKey;
use backstop_store::show;
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Documents, Drawer, Edit, Expect, OutboxBacklog, check_names,
};
use rusqlite::{Connection, params};

use crate::duty::expect_term;
use crate::error::SqliteFailure;
use crate::operate;
use crate::query::Snapshot;
use crate::rows;
use crate::sql;
use crate::submit;
use crate::transaction::WriteTransaction;

/// Reads documents, in the order of the bytes of their keys.
pub(crate) fn documents(snapshot: &Snapshot<'_>, range: &DocumentRange) -> Result<Documents, SqliteFailure> {
    show::page_limit(range.limit)?;
    // A page begins where its prefix begins, unless an earlier one has gone further.
    let end = range.end();
    let (select, begin) = match &range.after {
        Some(after) if range.last_first && end.as_ref().is_none_or(|end| after < end) => {
            (sql::DOCUMENTS_BEFORE, Some(after))
        }
        _ if range.last_first => (sql::DOCUMENTS_BEFORE, end.as_ref()),
        Some(after) if *after >= range.prefix => (sql::DOCUMENTS_AFTER, Some(after)),
        _ => (sql::DOCUMENTS_FROM, Some(&range.prefix)),
    };
    let mut select = snapshot.conn.prepare_cached(select)?;
    let limit = rows::limit(range.limit).saturating_add(1);
    let mut found = select.query(params![range.drawer.as_str(), begin, limit])?;
    let mut items = Vec::new();
    while let Some(row) = found.next()? {
        let key: String = row.get(0)?;
        if !key.starts_with(&range.prefix) {
            break;
        }
        items.push(Document { key, revision: row.get(1)?, body: row.get::<_, Arc<str>>(2)? });
    }
    let page = show::cut(items, range.limit, |_| ());
    Ok(Documents { now: snapshot.now, items: page.items, more: page.next.is_some() })
}

/// Documents by name, in the order of their names; none for one that is not there.
pub(crate) fn named_documents(
    snapshot: &Snapshot<'_>,
    names: &[(Drawer, String)],
) -> Result<Vec<Option<Document>>, SqliteFailure> {
    check_names(names.len()).map_err(SqliteFailure::Refused)?;
    let mut select = snapshot.conn.prepare_cached(sql::DOCUMENT)?;
    let read = |(drawer, key): &(Drawer, String)| {
        rows::first(&mut select, [drawer.as_str(), key], |row| {
            Ok(Document { key: key.clone(), revision: row.get(0)?, body: row.get::<_, Arc<str>>(1)? })
        })
    };
    names.iter().map(read).collect()
}

/// What waits for a sink.
pub(crate) fn outbox_backlog(snapshot: &Snapshot<'_>, sink: &str) -> Result<OutboxBacklog, SqliteFailure> {
    let range = DocumentRange::first(Drawer::Outbox, 1).under(OutboxKey::prefix(sink));
    let (messages, bytes) = (OutboxKey::messages_at(sink), OutboxKey::bytes_at(sink));
    let places = [messages.0, messages.1, bytes.0, bytes.1].map(rows::limit);
    let mut select = snapshot.conn.prepare_cached(sql::OUTBOX_BACKLOG)?;
    let values =
        params![range.drawer.as_str(), range.prefix, range.end(), places[0], places[1], places[2], places[3]];
    let backlog = rows::first(&mut select, values, |row| {
        let first: Option<String> = row.get(3)?;
        let sums = [row.get(0)?, row.get(1)?, row.get(2)?];
        Ok(OutboxBacklog::summed(snapshot.now, sums, first.as_deref()))
    })?;
    Ok(backlog.unwrap_or(OutboxBacklog::empty(snapshot.now)))
}

/// Changes documents and operates on jobs, or does nothing when a document is not as expected.
pub(crate) fn amend(tx: &mut WriteTransaction<'_>, amend: &Amend) -> Result<Amended, SqliteFailure> {
    amend.check_size().map_err(SqliteFailure::Refused)?;
    if let Some(term) = &amend.term {
        expect_term(tx, term, term.duty)?;
    }
    for edit in &amend.edits {
        if !is_expected(tx.conn, edit)? {
            return Ok(Amended::Conflict { drawer: edit.drawer, key: edit.key.clone() });
        }
    }
    if amend.jobs.is_empty() && !amend.strict {
        return apply(tx, amend);
    }
    tx.with_savepoint(|tx| apply(tx, amend), |amended| matches!(amended, Amended::Done { .. }))
}

/// Stores jobs, up to the first one that is refused; then makes the changes and operates on others.
fn apply(tx: &mut WriteTransaction<'_>, amend: &Amend) -> Result<Amended, SqliteFailure> {
    let mut submitted = Vec::with_capacity(amend.jobs.len());
    for (index, new) in amend.jobs.iter().enumerate() {
        match submit::one(tx, new)? {
            Ok(answer) => submitted.push(answer),
            Err(refusal) => return Ok(Amended::Refused { index, refusal }),
        }
    }
    for edit in &amend.edits {
        write(tx.conn, edit)?;
    }
    let operate = |(job, what): &_| operate::one(tx, *job, what);
    let operated = amend.operations.iter().map(operate).collect::<Result<Vec<_>, _>>()?;
    if let Some((index, refusal)) = amend.first_unchanged(operated.iter().cloned()) {
        return Ok(Amended::Refused { index, refusal });
    }
    Ok(Amended::Done { now: tx.now, operated, submitted })
}

fn is_expected(conn: &Connection, edit: &Edit) -> Result<bool, SqliteFailure> {
    if edit.expect == Expect::Any {
        return Ok(true);
    }
    let mut select = conn.prepare_cached(sql::DOCUMENT_REVISION)?;
    let found: Option<i64> = rows::value(&mut select, [edit.drawer.as_str(), &edit.key])?;
    Ok(match edit.expect {
        Expect::Any => true,
        Expect::Absent => found.is_none(),
        Expect::Revision(revision) => found == Some(revision),
    })
}

fn write(conn: &Connection, edit: &Edit) -> Result<(), SqliteFailure> {
    let (drawer, key) = (edit.drawer.as_str(), &edit.key);
    match &edit.body {
        Some(body) => conn.prepare_cached(sql::DOCUMENT_SAVE)?.execute(params![drawer, key, &**body])?,
        None => conn.prepare_cached(sql::DOCUMENT_DELETE)?.execute(params![drawer, key])?,
    };
    Ok(())
}

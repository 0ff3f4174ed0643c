//! Documents, and the operations on jobs that go with their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use backstop_core::alert::Notice;
use backstop_core::job::Operation;
use backstop_core::{JobId, Limits, Timestamp};
use backstop_store::show;
use backstop_store::{Amend, Amended, Document, DocumentRange, Documents, Drawer, Edit, Error, Expect};

use crate::error::Failure;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::{Row, Value};
use crate::{duty, operate};

/// Reads documents, in the order of the bytes of their keys.
pub(crate) async fn documents(unit: &mut Unit, shelf: &DocumentRange) -> Result<Documents, Failure> {
    show::page_limit(shelf.limit)?;
    let limit = Value::count(shelf.limit.saturating_add(1));
    let (moment, drawer) = (unit.shared.moment(), Value::text(shelf.drawer.as_str()));
    let (first, end) = (Value::bytes(first_key(shelf)), Value::bytes(end_of(&shelf.prefix)));
    let page = Query::new(sql::document::PAGE, vec![moment, drawer, first, end, limit]);
    let (mut now, mut items) = (None, Vec::new());
    for mut row in unit.alone(vec![page]).await?.into_iter().flatten() {
        now = Some(row.moment()?);
        if let Some(key) = row.maybe_text()? {
            items.push(Document { key, revision: row.int()?, body: Arc::from(row.text()?) });
        }
    }
    let now = now.ok_or_else(|| Failure::Unreadable("the clock gave no answer".to_owned()))?;
    // A join promises no order.
    items.sort_by(|a, b| a.key.cmp(&b.key));
    let page = show::cut(items, shelf.limit, |_| ());
    Ok(Documents { now, items: page.items, more: page.next.is_some() })
}

/// The lowest key that a page may begin with: its prefix, unless an earlier page has gone further.
fn first_key(shelf: &DocumentRange) -> Vec<u8> {
    let next = shelf.after.as_ref().map(|after| [after.as_bytes(), &[0]].concat());
    next.unwrap_or_default().max(shelf.prefix.as_bytes().to_vec())
}

/// What is above every key that begins with `prefix`. No text has a byte of 255, so the last one can be raised.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(u8::MAX),
    }
    end
}

/// Where a document is: drawer and key, in the order in which they are locked.
type Spot<'a> = (&'a str, &'a str);

fn spot(edit: &Edit) -> Spot<'_> {
    (edit.drawer.as_str(), &edit.key)
}

/// The revisions of the documents that are there.
type Revisions = BTreeMap<(String, String), i64>;

fn revision(found: &Revisions, (drawer, key): Spot<'_>) -> Option<i64> {
    found.get(&(drawer.to_owned(), key.to_owned())).copied()
}

/// Changes documents and operates on jobs, or does nothing when a document is not as expected.
///
/// A document that somebody else writes for the first time between our look and our write is met as a duplicate; the
/// transaction then begins again, and sees it.
pub(crate) async fn amend(unit: &mut Unit, amend: &Amend) -> Result<Amended, Failure> {
    let (limit, actual) = (Limits::default().batch, amend.edits.len().max(amend.operations.len()));
    if actual > limit {
        return Err(Error::TooMany { what: "the amendment", actual, limit }.into());
    }
    let (now, found) = lock(unit, amend).await?;
    if let Some(edit) = amend.edits.iter().find(|edit| !is_expected(edit, revision(&found, spot(edit)))) {
        return Ok(Amended::Conflict { drawer: edit.drawer, key: edit.key.clone() });
    }
    let operations: Vec<(JobId, &Operation)> =
        amend.operations.iter().map(|(id, what)| (*id, what)).collect();
    let operated = operate::apply(unit, now, &operations, write(&amend.edits, &found)).await?;
    Ok(Amended::Done { now, operated })
}

/// Asks for the moment, checks the term, and locks the documents that are there.
async fn lock(unit: &mut Unit, amend: &Amend) -> Result<(Timestamp, Revisions), Failure> {
    let mut batch = vec![unit.clock()];
    batch.extend(amend.term.as_ref().map(duty::ask));
    let asked = batch.len();
    let spots: BTreeSet<Spot<'_>> = amend.edits.iter().map(spot).collect();
    let keys = spots.into_iter().map(|(drawer, key)| vec![Value::text(drawer), Value::text(key)]);
    sql::document::LOCK.add(&mut batch, keys.collect());
    let mut answers = unit.run(batch).await?;
    let rows: Vec<Row> = answers.split_off(asked).into_iter().flatten().collect();
    let current = if amend.term.is_some() { answers.pop() } else { None };
    let now = crate::shared::moment_of(answers.pop().unwrap_or_default())?;
    if let Some(term) = &amend.term {
        duty::expect_term(term, term.duty, current.unwrap_or_default(), now)?;
    }
    let read = |mut row: Row| Ok(((row.text()?, row.text()?), row.int()?));
    Ok((now, rows.into_iter().map(read).collect::<Result<_, Failure>>()?))
}

fn is_expected(edit: &Edit, found: Option<i64>) -> bool {
    match edit.expect {
        Expect::Any => true,
        Expect::Absent => found.is_none(),
        Expect::Revision(revision) => found == Some(revision),
    }
}

/// The statements that make the edits of documents which are locked as far as they are there.
fn write(edits: &[Edit], found: &Revisions) -> Vec<Query> {
    let (mut new, mut changed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let edits: BTreeMap<Spot<'_>, &Edit> = edits.iter().map(|edit| (spot(edit), edit)).collect();
    for (place, edit) in edits {
        let key = vec![Value::text(place.0), Value::text(place.1)];
        match (revision(found, place), &edit.body) {
            (None, None) => {}
            (Some(_), None) => gone.push(key),
            (before, Some(body)) => {
                let values = [Value::int(before.unwrap_or_default() + 1), Value::text(body)];
                let list = if before.is_some() { &mut changed } else { &mut new };
                list.push(key.into_iter().chain(values).collect());
            }
        }
    }
    let mut out = Vec::new();
    sql::document::INSERT.add(&mut out, new);
    sql::document::SAVE.add(&mut out, changed);
    sql::document::DELETE.add(&mut out, gone);
    out
}

/// Adds the statements that put raised alerts into their drawer (D3).
pub(crate) fn put_alerts(out: &mut Vec<Query>, alerts: &[Notice]) -> Result<(), Failure> {
    let put = |notice: &Notice| {
        let body = serde_json::to_string(notice)?;
        let drawer = Value::text(Drawer::Alerts.as_str());
        Ok::<_, Failure>(vec![drawer, Value::text(notice.key()), Value::int(1), Value::text(body)])
    };
    sql::document::SAVE.add(out, alerts.iter().map(put).collect::<Result<_, _>>()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_at_its_prefix_or_behind_the_page_before() {
        let shelf = DocumentRange::first(Drawer::Rules, 10).under("rd-1/");
        assert_eq!((first_key(&shelf), end_of("rd-1/")), (b"rd-1/".to_vec(), b"rd-10".to_vec()));
        assert_eq!(first_key(&shelf.clone().after("rd-1/7")), b"rd-1/7\0");
        assert_eq!(first_key(&shelf.after("a")), b"rd-1/", "a key before the prefix says nothing");
        assert_eq!(end_of(""), [255]);
    }

    #[test]
    fn keys_of_any_text_lie_below_the_end_of_their_prefix() {
        for prefix in ["", "a", "é", "\u{10ffff}", "z\u{7f}"] {
            let highest = format!("{prefix}\u{10ffff}\u{10ffff}");
            assert!(highest.as_bytes() < end_of(prefix).as_slice(), "{prefix:?}");
        }
    }
}

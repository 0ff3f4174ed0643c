//! Marks of plans: one small document for each plan that wants steps, or that has ended, and none for the others.
//!
//! What is to be done is found without reading what was done: a round reads the marks under `open`, and the retirement
//! those under `end`, oldest end first. A mark is written with its plan in one transaction. Programs of earlier
//! versions know nothing of marks, so they are compared with the plans whenever a term begins, and now and then.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::job::PlanId;
use backstop_core::redrive::Plan;
use backstop_store::{
    Amend, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Term, WorkStore,
};

const OPEN: &str = "open/";
const ENDED: &str = "end/";

/// Documents of a page.
pub(crate) const PAGE: usize = 1_000;

/// How often marks are compared with the plans while one node leads: a plan that a program of an earlier version has
/// started waits no longer. Seldom enough to cost nothing with thousands of plans.
const COMPARE: Duration = Duration::from_secs(600);

/// The key of the one mark that a plan has.
pub(crate) fn key(plan: &Plan) -> Option<String> {
    if plan.wants_steps() {
        return Some(format!("{OPEN}{}", plan.id));
    }
    // Moments before 1970 do not come about; they would only go first.
    plan.ended_at().map(|end| format!("{ENDED}{:019}-{}", end.as_micros().max(0), plan.id))
}

pub(crate) fn written(key: String) -> Edit {
    Edit { drawer: Drawer::PlanMarks, key, expect: Expect::Any, body: Some("{}".into()) }
}

/// The changes of the mark of a plan that has become another.
pub(crate) fn edits(before: Option<&Plan>, plan: &Plan) -> Vec<Edit> {
    let (was, is) = (before.and_then(key), key(plan));
    if was == is {
        return Vec::new();
    }
    let gone = was.map(|key| Edit { drawer: Drawer::PlanMarks, key, expect: Expect::Any, body: None });
    gone.into_iter().chain(is.map(written)).collect()
}

/// A mark that was read.
#[derive(Debug, Clone)]
pub(crate) struct PlanMark {
    pub(crate) key: String,
    pub(crate) revision: i64,
    pub(crate) plan: PlanId,
    /// When its plan came to its end; none for one that wants steps.
    pub(crate) ended_at: Option<Timestamp>,
}

/// Marks that were read.
#[derive(Debug)]
pub(crate) struct PlanMarks {
    pub(crate) now: Timestamp,
    pub(crate) plans: Vec<PlanMark>,
}

/// Every mark of a plan that wants steps.
pub(crate) async fn open(store: &dyn WorkStore) -> Result<PlanMarks, StoreError> {
    let mut range = DocumentRange::first(Drawer::PlanMarks, PAGE).under(OPEN);
    let mut plans = Vec::new();
    loop {
        let found = store.documents(range.clone()).await?;
        plans.extend(found.items.iter().filter_map(read));
        match found.items.last() {
            Some(last) if found.more => range = range.after(last.key.clone()),
            _ => return Ok(PlanMarks { now: found.now, plans }),
        }
    }
}

/// The marks of the plans that ended first.
pub(crate) async fn ended(store: &dyn WorkStore, limit: usize) -> Result<PlanMarks, StoreError> {
    let found = store.documents(DocumentRange::first(Drawer::PlanMarks, limit).under(ENDED)).await?;
    Ok(PlanMarks { now: found.now, plans: found.items.iter().filter_map(read).collect() })
}

fn read(document: &Document) -> Option<PlanMark> {
    let (ended_at, plan) = match document.key.strip_prefix(ENDED) {
        Some(rest) => {
            let (moment, plan) = rest.split_once('-')?;
            (Some(Timestamp::from_micros(moment.parse().ok()?)), plan)
        }
        None => (None, document.key.strip_prefix(OPEN)?),
    };
    let plan = plan.parse().ok()?;
    Some(PlanMark { key: document.key.clone(), revision: document.revision, plan, ended_at })
}

/// The change that removes a mark, unless it was written again since it was read.
pub(crate) fn removal(mark: &PlanMark) -> Edit {
    let expect = Expect::Revision(mark.revision);
    Edit { drawer: Drawer::PlanMarks, key: mark.key.clone(), expect, body: None }
}

/// Removes a mark that is not true.
pub(crate) async fn remove(store: &dyn WorkStore, term: Term, mark: PlanMark) -> Result<(), StoreError> {
    let edits = vec![removal(&mark)];
    // One that was written again meanwhile is true.
    store.amend(Amend { term: Some(term), edits, ..Amend::default() }).await.map(drop)
}

/// In which term, and when, this process last compared the marks with the plans.
#[derive(Debug, Default)]
pub(crate) struct MarksCompared(Mutex<Option<(i64, Timestamp)>>);

impl MarksCompared {
    pub(crate) fn is_due(&self, term: Term, now: Timestamp) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_none_or(|(number, at)| number != term.number || now.since(at) >= COMPARE)
    }

    pub(crate) fn done(&self, term: Term, now: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((term.number, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_mark_tells_its_plan_and_when_that_ended() {
        // D4
        let document = |key: &str| Document { key: key.to_owned(), revision: 3, body: "{}".into() };
        let plan = PlanId::from_number(77);
        let open = read(&document(&format!("open/{plan}"))).expect("a mark");
        assert_eq!((&open.plan, open.ended_at, open.revision), (&plan, None, 3));
        let ended = read(&document(&format!("end/0001800000000000000-{plan}"))).expect("a mark");
        assert_eq!(ended.plan, plan);
        assert_eq!(ended.ended_at, Some(Timestamp::from_micros(1_800_000_000_000_000)));
        for foreign in ["open", "end/", "end/x-y", "else/1"] {
            assert!(read(&document(foreign)).is_none(), "{foreign}");
        }
    }
}

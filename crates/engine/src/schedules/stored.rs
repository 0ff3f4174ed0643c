//! Schedules as documents: one for each, and one mark for all of them.
//!
//! Whoever changes a schedule writes the mark in the same transaction, so whoever fires reads nothing but the mark to
//! learn that all is as it was; and the mark holds their number. What fires writes a schedule and leaves the mark
//! alone.

use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_core::schedule::{Schedule, ScheduleOwner, ScheduleState};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, WorkStore,
};
use serde::{Deserialize, Serialize};

/// Documents that are read at once.
const PAGE: usize = 500;

/// The key of the mark.
const MARK: &str = "changed";

/// A schedule as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScheduleBody {
    pub(crate) schedule: Schedule,
    pub(crate) owner: ScheduleOwner,
    pub(crate) state: ScheduleState,
}

/// A schedule as it was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredSchedule {
    pub(crate) name: String,
    pub(crate) revision: i64,
    pub(crate) body: ScheduleBody,
}

impl StoredSchedule {
    /// The change that writes it over what was read.
    pub(crate) fn edit(&self) -> Edit {
        edit(&self.name, Some(self.revision), Some(&self.body))
    }
}

/// The change of one schedule; a revision of none says that there was none.
pub(crate) fn edit(name: &str, revision: Option<i64>, body: Option<&ScheduleBody>) -> Edit {
    let body = body.map(|body| serde_json::to_string(body).unwrap_or_default().into());
    let expect = revision.map_or(Expect::Absent, Expect::Revision);
    Edit { drawer: Drawer::Schedules, key: name.to_owned(), expect, body }
}

/// One that cannot be read is told and left as it is: a later program may have written it.
fn read(document: Document) -> Option<StoredSchedule> {
    let Document { key: name, revision, body } = document;
    match serde_json::from_str(&body) {
        Ok(body) => Some(StoredSchedule { name, revision, body }),
        Err(error) => {
            tracing::error!(schedule = name, %error, "cannot read a schedule; it does not fire: set it again");
            None
        }
    }
}

/// Every schedule, by name, with the store's clock.
pub(crate) async fn all(store: &dyn WorkStore) -> Result<(Timestamp, Vec<StoredSchedule>), StoreError> {
    let (mut schedules, mut range) = (Vec::new(), DocumentRange::first(Drawer::Schedules, PAGE));
    loop {
        let found = store.documents(range).await?;
        let last = found.items.last().map(|document| document.key.clone());
        schedules.extend(found.items.into_iter().filter_map(read));
        let Some(last) = last.filter(|_| found.more) else { return Ok((found.now, schedules)) };
        range = DocumentRange::first(Drawer::Schedules, PAGE).after(last);
    }
}

/// The schedule of this name, with the store's clock. The revision is told also of one that cannot be read.
pub(crate) async fn one(store: &dyn WorkStore, name: &str) -> Result<FoundSchedule, StoreError> {
    // The name itself comes before all that begin with it.
    let found = store.documents(DocumentRange::first(Drawer::Schedules, 1).under(name)).await?;
    let document = found.items.into_iter().next().filter(|document| document.key == name);
    let revision = document.as_ref().map(|document| document.revision);
    Ok(FoundSchedule { now: found.now, revision, stored: document.and_then(read) })
}

/// What was found under a name.
pub(crate) struct FoundSchedule {
    pub(crate) now: Timestamp,
    pub(crate) revision: Option<i64>,
    pub(crate) stored: Option<StoredSchedule>,
}

/// The mark of all schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScheduleMark {
    pub(crate) now: Timestamp,
    /// Grows with every change that somebody makes; 0 when there was never a schedule.
    pub(crate) revision: i64,
    /// How many there are.
    pub(crate) count: usize,
}

pub(crate) async fn mark(store: &dyn WorkStore) -> Result<ScheduleMark, StoreError> {
    let mut found = store.documents(DocumentRange::first(Drawer::ScheduleMarks, 1)).await?;
    let document = found.items.pop();
    let count = |body: Arc<str>| body.parse().unwrap_or_default();
    let (revision, count) = document.map_or((0, 0), |document| (document.revision, count(document.body)));
    Ok(ScheduleMark { now: found.now, revision, count })
}

/// Makes changes of schedules, and writes the mark; false when something is not as it was read.
pub(crate) async fn change(
    store: &dyn WorkStore,
    mark: ScheduleMark,
    mut edits: Vec<Edit>,
) -> Result<bool, StoreError> {
    let new = edits.iter().filter(|edit| edit.expect == Expect::Absent).count();
    let gone = edits.iter().filter(|edit| edit.body.is_none()).count();
    let count = (mark.count + new).saturating_sub(gone).to_string();
    let expect = if mark.revision == 0 { Expect::Absent } else { Expect::Revision(mark.revision) };
    let (drawer, key, body) = (Drawer::ScheduleMarks, MARK.to_owned(), Some(count.into()));
    edits.push(Edit { drawer, key, expect, body });
    let amended = store.amend(Amend { edits, ..Amend::default() }).await?;
    Ok(matches!(amended, Amended::Done { .. }))
}

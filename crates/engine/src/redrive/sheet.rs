//! Sheets: what became of the jobs of a plan, up to some hundred of them in one document.
//!
//! A sheet is `PLAN/open/NAME` while one of its jobs is in flight, and then `PLAN/end/NAME`. Its name begins with the
//! round and the revision of the plan that drove its jobs, so the oldest sheet comes first and no two have one name.
//! Earlier versions kept a document for each job, named by its id: they are read as sheets of one.

use backstop_core::JobId;
use backstop_core::job::PlanId;
use backstop_core::redrive::PlanJob;
use backstop_store::{Document, DocumentRange, Drawer, Error as StoreError, Page, PageRequest, Store, show};

use super::filed;

/// Jobs of one sheet at most: it is written as a whole each time that one of them ends.
pub(crate) const JOBS: usize = 250;

/// Jobs that are read at once, about: few at first, because the first are often all that is wanted.
const AT_FIRST: usize = 250;
const AT_ONCE: usize = 1_000;

/// Between the key of a sheet and the place in it, in a cursor.
const PLACE: char = '.';

const OPEN: &str = "/open/";
const ENDED: &str = "/end/";

/// One sheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sheet {
    /// Its whole key.
    pub(crate) key: String,
    pub(crate) items: Vec<PlanJob>,
}

/// The name of the sheet `number` of the step that leads to `revision` of its plan.
pub(crate) fn name(round: u32, revision: i64, number: usize) -> String {
    format!("{}-{revision:012}-{number:03}", of_round(round))
}

/// How the names of the sheets of a round begin. A letter goes first, so that no id of a job is among them.
fn of_round(round: u32) -> String {
    format!("r{round:06}")
}

/// The key of a sheet with jobs in flight, or of a document of one such job.
pub(crate) fn open_key(plan: &PlanId, name: &str) -> String {
    format!("{plan}{OPEN}{name}")
}

/// The key of a sheet whose jobs have ended, or of a document of one such job.
pub(crate) fn ended_key(plan: &PlanId, name: impl std::fmt::Display) -> String {
    format!("{plan}{ENDED}{name}")
}

impl Sheet {
    /// What a document holds: a list of items, or the one item of an earlier version.
    fn read(store: &dyn Store, document: Document) -> Result<Self, StoreError> {
        let items = if document.body.starts_with('[') {
            filed::read(store, "jobs of a plan", &document)?
        } else {
            vec![filed::read(store, "job of a plan", &document)?]
        };
        Ok(Self { key: document.key, items })
    }

    /// Its jobs that are in flight.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = JobId> {
        self.items.iter().filter(|item| item.outcome.is_none()).map(|item| item.job)
    }

    /// Its key once all of its jobs have ended; none while one is in flight.
    pub(crate) fn key_at_end(&self) -> Option<String> {
        self.in_flight().next().is_none().then(|| self.key.replacen(OPEN, ENDED, 1))
    }
}

/// Reads the sheets of a plan, oldest first, up to about a thousand jobs at a time.
pub(crate) struct Sheets<'a> {
    store: &'a dyn Store,
    shelf: DocumentRange,
    /// Only keys below this one.
    below: Option<String>,
    /// How many jobs to read at once.
    jobs: usize,
    over: bool,
}

impl<'a> Sheets<'a> {
    /// All of them: those whose jobs have ended, then those with jobs in flight.
    pub(crate) fn all(store: &'a dyn Store, plan: &PlanId) -> Self {
        Self::under(store, filed::items(plan), None)
    }

    /// Those with jobs in flight.
    pub(crate) fn open(store: &'a dyn Store, plan: &PlanId) -> Self {
        Self::under(store, open_key(plan, ""), None)
    }

    /// Those of the rounds before this one, with jobs in flight and without.
    pub(crate) fn before_round(store: &'a dyn Store, plan: &PlanId, round: u32) -> [Self; 2] {
        let names = (of_round(round), "r");
        [ended_key(plan, ""), open_key(plan, "")].map(|shelf| {
            Self::under(store, format!("{shelf}{}", names.1), Some(format!("{shelf}{}", names.0)))
        })
    }

    fn under(store: &'a dyn Store, prefix: String, below: Option<String>) -> Self {
        let shelf = DocumentRange::first(Drawer::PlanJobs, AT_FIRST / JOBS).under(prefix);
        Self { store, shelf, below, jobs: AT_FIRST, over: false }
    }

    /// Those that follow this key.
    fn after(mut self, key: &str) -> Self {
        self.shelf.after = Some(key.to_owned());
        self
    }

    /// The next of them; none when there are no more.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Sheet>>, StoreError> {
        if self.over {
            return Ok(None);
        }
        let mut found = self.store.documents(self.shelf.clone()).await?;
        let read = found.items.len();
        if let Some(below) = &self.below {
            found.items.retain(|document| document.key < *below);
        }
        self.over = !found.more || found.items.len() < read;
        self.shelf.after = found.items.last().map(|last| last.key.clone());
        let sheets = found.items.into_iter().map(|document| Sheet::read(self.store, document));
        let sheets: Vec<Sheet> = sheets.collect::<Result<_, _>>()?;
        // The sheets of a plan that drives few jobs at a time are small, and more of them are read at once.
        let jobs: usize = sheets.iter().map(|sheet| sheet.items.len()).sum();
        self.jobs = (self.jobs * 2).min(AT_ONCE);
        self.shelf.limit = (self.jobs * sheets.len() / jobs.max(1)).clamp(1, AT_ONCE);
        Ok((!sheets.is_empty()).then_some(sheets))
    }

    /// True when none follow.
    pub(crate) const fn are_over(&self) -> bool {
        self.over
    }
}

/// A page of a plan's items. Its cursor names a sheet and how many items of it were read; without a number, all were.
pub(crate) async fn page(
    store: &dyn Store,
    plan: &PlanId,
    page: PageRequest<String>,
) -> Result<Page<PlanJob, String>, StoreError> {
    show::page_limit(page.limit)?;
    let mut sheets = Sheets::all(store, plan);
    let mut taken = Taken { limit: page.limit, items: Vec::new(), next: None };
    if let Some(cursor) = &page.after {
        let (key, place) = parted(cursor);
        if let Some(place) = place {
            let begun = store.documents(DocumentRange::first(Drawer::PlanJobs, 1).under(key)).await?;
            // A sheet that has moved meanwhile is passed by, as a document of one job always was.
            let found = begun.items.into_iter().find(|document| document.key == key);
            if let Some(document) = found.filter(|_| key.starts_with(&filed::items(plan))) {
                taken.take(Sheet::read(store, document)?, place);
            }
        }
        sheets = sheets.after(key);
    }
    while taken.has_room() {
        let Some(found) = sheets.next().await? else { break };
        found.into_iter().for_each(|sheet| taken.take(sheet, 0));
    }
    let over = sheets.are_over();
    Ok(taken.page(over))
}

/// The key in a cursor, and the place if it names one.
fn parted(cursor: &str) -> (&str, Option<usize>) {
    let parts = cursor.rsplit_once(PLACE).and_then(|(key, place)| Some((key, place.parse().ok()?)));
    parts.map_or((cursor, None), |(key, place)| (key, Some(place)))
}

/// A page that fills.
struct Taken {
    limit: usize,
    items: Vec<PlanJob>,
    /// Where the next page begins, and whether it is known that there is something.
    next: Option<(String, bool)>,
}

impl Taken {
    const fn has_room(&self) -> bool {
        self.items.len() < self.limit
    }

    /// Takes what there is room for of a sheet, from a place on.
    fn take(&mut self, sheet: Sheet, place: usize) {
        let room = self.limit - self.items.len();
        let left = sheet.items.len().saturating_sub(place);
        if room == 0 {
            self.next = self.next.take().map(|(cursor, _)| (cursor, true));
        } else {
            let place_after = place + room;
            let rest = left > room;
            let cursor = if rest { format!("{}{PLACE}{place_after}", sheet.key) } else { sheet.key };
            self.next = Some((cursor, rest));
        }
        self.items.extend(sheet.items.into_iter().skip(place).take(room));
    }

    fn page(self, over: bool) -> Page<PlanJob, String> {
        let next = self.next.filter(|(_, more)| self.items.len() == self.limit && (*more || !over));
        Page { items: self.items, next: next.map(|(cursor, _)| cursor) }
    }
}

//! Job lists: what became of the jobs of a plan, up to some hundred of them in one document.
//!
//! A list is `PLAN/open/NAME` while one of its jobs is in flight, and then `PLAN/end/NAME`. Its name begins with the
//! round and the revision of the plan that drove its jobs, so the oldest list comes first and no two have one name.
//! Earlier versions kept a document for each job, named by its id: they are read as lists of one.

use backstop_core::JobId;
use backstop_core::job::PlanId;
use backstop_core::redrive::PlanJob;
use backstop_store::{
    Document, DocumentRange, Drawer, Error as StoreError, Page, PageRequest, WorkStore, show,
};

use super::stored;

/// Jobs of one list at most: it is written as a whole each time that one of them ends.
pub(crate) const JOBS: usize = 250;

/// Jobs that are read at once, about: few at first, because the first are often all that is wanted.
const AT_FIRST: usize = 250;
const AT_ONCE: usize = 1_000;

/// Between the key of a list and the place in it, in a cursor.
const PLACE: char = '.';

const OPEN: &str = "/open/";
const ENDED: &str = "/end/";

/// One list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanJobList {
    /// Its whole key.
    pub(crate) key: String,
    pub(crate) items: Vec<PlanJob>,
}

/// The name of the list `number` of the step that leads to `revision` of its plan.
pub(crate) fn name(round: u32, revision: i64, number: usize) -> String {
    format!("{}-{revision:012}-{number:03}", of_round(round))
}

/// How the names of the lists of a round begin. A letter goes first, so that no id of a job is among them.
fn of_round(round: u32) -> String {
    format!("r{round:06}")
}

/// The key of a list with jobs in flight, or of a document of one such job.
pub(crate) fn open_key(plan: &PlanId, name: &str) -> String {
    format!("{plan}{OPEN}{name}")
}

/// The key of a list whose jobs have ended, or of a document of one such job.
pub(crate) fn ended_key(plan: &PlanId, name: impl std::fmt::Display) -> String {
    format!("{plan}{ENDED}{name}")
}

impl PlanJobList {
    /// What a document holds: a list of items, or the one item of an earlier version.
    fn read(store: &dyn WorkStore, document: Document) -> Result<Self, StoreError> {
        let items = if document.body.starts_with('[') {
            stored::read(store, "jobs of a plan", &document)?
        } else {
            vec![stored::read(store, "job of a plan", &document)?]
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

/// Reads the lists of a plan, oldest first, up to about a thousand jobs at a time.
pub(crate) struct PlanJobLists<'a> {
    store: &'a dyn WorkStore,
    range: DocumentRange,
    /// Only keys below this one.
    below: Option<String>,
    /// How many jobs to read at once.
    jobs: usize,
    over: bool,
}

impl<'a> PlanJobLists<'a> {
    /// All of them: those whose jobs have ended, then those with jobs in flight.
    pub(crate) fn all(store: &'a dyn WorkStore, plan: &PlanId) -> Self {
        Self::under(store, stored::jobs_prefix(plan), None)
    }

    /// Those with jobs in flight.
    pub(crate) fn open(store: &'a dyn WorkStore, plan: &PlanId) -> Self {
        Self::under(store, open_key(plan, ""), None)
    }

    /// Those of the rounds before this one, with jobs in flight and without.
    pub(crate) fn before_round(store: &'a dyn WorkStore, plan: &PlanId, round: u32) -> [Self; 2] {
        let round = of_round(round);
        [ended_key(plan, ""), open_key(plan, "")]
            .map(|keys| Self::under(store, format!("{keys}r"), Some(format!("{keys}{round}"))))
    }

    fn under(store: &'a dyn WorkStore, prefix: String, below: Option<String>) -> Self {
        let range = DocumentRange::first(Drawer::PlanJobs, AT_FIRST / JOBS).under(prefix);
        Self { store, range, below, jobs: AT_FIRST, over: false }
    }

    /// Those that follow this key.
    fn after(mut self, key: &str) -> Self {
        self.range.after = Some(key.to_owned());
        self
    }

    /// The next of them; none when there are no more.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<PlanJobList>>, StoreError> {
        if self.over {
            return Ok(None);
        }
        let mut found = self.store.documents(self.range.clone()).await?;
        let read = found.items.len();
        if let Some(below) = &self.below {
            found.items.retain(|document| document.key < *below);
        }
        self.over = !found.more || found.items.len() < read;
        self.range.after = found.items.last().map(|last| last.key.clone());
        let lists = found.items.into_iter().map(|document| PlanJobList::read(self.store, document));
        let lists: Vec<PlanJobList> = lists.collect::<Result<_, _>>()?;
        // The lists of a plan that drives few jobs at a time are small, and more of them are read at once.
        let jobs: usize = lists.iter().map(|list| list.items.len()).sum();
        self.jobs = (self.jobs * 2).min(AT_ONCE);
        self.range.limit = (self.jobs * lists.len() / jobs.max(1)).clamp(1, AT_ONCE);
        Ok((!lists.is_empty()).then_some(lists))
    }

    /// True when none follow.
    pub(crate) const fn are_over(&self) -> bool {
        self.over
    }
}

/// A page of a plan's items. Its cursor names a list and how many items of it were read; without a number, all were.
pub(crate) async fn page(
    store: &dyn WorkStore,
    plan: &PlanId,
    page: PageRequest<String>,
) -> Result<Page<PlanJob, String>, StoreError> {
    show::page_limit(page.limit)?;
    let mut lists = PlanJobLists::all(store, plan);
    let mut taken = Taken { limit: page.limit, items: Vec::new(), next: None };
    if let Some(cursor) = &page.after {
        let (key, place) = parted(cursor);
        if let Some(place) = place {
            let begun = store.documents(DocumentRange::first(Drawer::PlanJobs, 1).under(key)).await?;
            // A list that has moved meanwhile is passed by, as a document of one job always was.
            let found = begun.items.into_iter().find(|document| document.key == key);
            if let Some(document) = found.filter(|_| key.starts_with(&stored::jobs_prefix(plan))) {
                taken.take(PlanJobList::read(store, document)?, place);
            }
        }
        lists = lists.after(key);
    }
    while taken.has_room() {
        let Some(found) = lists.next().await? else { break };
        found.into_iter().for_each(|list| taken.take(list, 0));
    }
    let over = lists.are_over();
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

    /// Takes what there is room for of a list, from a place on.
    fn take(&mut self, list: PlanJobList, place: usize) {
        let room = self.limit - self.items.len();
        let left = list.items.len().saturating_sub(place);
        if room == 0 {
            self.next = self.next.take().map(|(cursor, _)| (cursor, true));
        } else {
            let place_after = place + room;
            let rest = left > room;
            let cursor = if rest { format!("{}{PLACE}{place_after}", list.key) } else { list.key };
            self.next = Some((cursor, rest));
        }
        self.items.extend(list.items.into_iter().skip(place).take(room));
    }

    fn page(self, over: bool) -> Page<PlanJob, String> {
        let next = self.next.filter(|(_, more)| self.items.len() == self.limit && (*more || !over));
        Page { items: self.items, next: next.map(|(cursor, _)| cursor) }
    }
}

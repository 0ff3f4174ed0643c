//! One step of a plan: what it sees, what it takes, and what is written with it. Writes nothing itself.

use std::collections::{BTreeMap, HashMap, HashSet};

use backstop_core::job::{JobSummary, Operation, State};
use backstop_core::redrive::{DrivenJob, Plan, PlanJob, PlanStep};
use backstop_core::version::at_least;
use backstop_core::{JobId, Timestamp};
use backstop_store::{Drawer, Edit, Error as StoreError, Expect, PageRequest, Store};

use crate::redrive::job_list::{self, PlanJobList, PlanJobLists};
use crate::redrive::stored::{self, StoredPlan};

/// Rows of a page, and jobs that are asked about at once.
const PAGE: usize = 1_000;

/// Pages of candidates that one step looks through at most before it writes how far it came.
const PAGES: usize = 10;

/// Items in the lists that one step writes again at most.
const WRITTEN: usize = 10_000;

/// Documents that one step changes at most for what has ended: less than half of what one transaction may.
const CHANGES: usize = 4_000;

/// The part of the jobs in flight that is much, when it has ended between two looks: one of so many.
const MUCH: u32 = 8;

/// How much of what is in flight a step looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Nothing,
    /// So much that several batches have room, or until no more have ended.
    Enough,
    Everything,
}

impl Look {
    /// What a plan cannot go on without.
    pub(super) const fn needed(plan: &Plan) -> Self {
        if plan.must_look() { Self::Enough } else { Self::Nothing }
    }
}

/// One step on its way: the plan as it will be, and what is written with it.
pub(super) struct StepDraft<'a> {
    store: &'a dyn Store,
    pub(super) plan: Plan,
    now: Timestamp,
    /// The one that the plan will have.
    revision: i64,
    /// The items of lists by key; none removes one.
    changes: BTreeMap<String, Option<Vec<PlanJob>>>,
    pub(super) operations: Vec<(JobId, Operation)>,
    /// Lists that were begun.
    begun: usize,
    /// Jobs whose end was seen.
    ended: usize,
    /// Items of lists that are written again.
    written: usize,
    /// False when more jobs had ended than one step writes.
    pub(super) all_seen: bool,
}

/// What was seen of jobs in flight.
struct Seen {
    hot: HashMap<JobId, JobSummary>,
    archived: HashMap<JobId, State>,
}

impl Seen {
    fn sight(&self, job: JobId) -> DrivenJob<'_> {
        match (self.hot.get(&job), self.archived.get(&job)) {
            (Some(summary), _) => DrivenJob::Job(summary),
            (None, Some(state)) => DrivenJob::Archived(*state),
            (None, None) => DrivenJob::Missing,
        }
    }
}

impl<'a> StepDraft<'a> {
    pub(super) fn new(store: &'a dyn Store, stored: &StoredPlan) -> Self {
        Self {
            store,
            plan: stored.plan.clone(),
            now: stored.now,
            revision: stored.revision + 1,
            changes: BTreeMap::new(),
            operations: Vec::new(),
            begun: 0,
            ended: 0,
            written: 0,
            all_seen: true,
        }
    }

    /// True when something is to be written beside the plan itself.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// True when so many had ended that another look soon is worth its while.
    pub(super) fn has_seen_much(&self) -> bool {
        let ended = u32::try_from(self.ended).unwrap_or(u32::MAX);
        !self.plan.looks_by_age() || ended.saturating_mul(MUCH) >= self.plan.open
    }

    /// The plan, the changes of its lists, and what is done to jobs.
    pub(super) fn into_parts(self) -> (Plan, Vec<Edit>, Vec<(JobId, Operation)>) {
        let edit = |(key, items): (String, Option<Vec<PlanJob>>)| {
            let body = items.map(|items| stored::text(&items));
            Edit { drawer: Drawer::PlanJobs, key, expect: Expect::Any, body }
        };
        (self.plan, self.changes.into_iter().map(edit).collect(), self.operations)
    }

    /// Sees what became of the jobs in flight, those that were driven first before the others. False when there are
    /// more endings than one step writes; then nothing is driven before they are written too.
    pub(super) async fn observe(&mut self, look: Look) -> Result<bool, StoreError> {
        if look == Look::Nothing || self.plan.open == 0 {
            return Ok(true);
        }
        let mut lists = PlanJobLists::open(self.store, &self.plan.id);
        while let Some(page) = lists.next().await? {
            let is_beyond = self.observe_lists(page).await? && self.plan.looks_by_age();
            if look == Look::Enough && (is_beyond || self.plan.has_room()) {
                break;
            }
            if !lists.are_over() && (self.written >= WRITTEN || self.changes.len() >= CHANGES) {
                self.all_seen = false;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sees what became of the jobs of some lists. True when none of the last one has ever ended.
    async fn observe_lists(&mut self, lists: Vec<PlanJobList>) -> Result<bool, StoreError> {
        let in_flight: Vec<JobId> = lists.iter().flat_map(PlanJobList::in_flight).collect();
        let seen = self.look_at(&in_flight).await?;
        let mut untouched = false;
        for mut list in lists {
            let mut ended = 0;
            for item in list.items.iter_mut().filter(|item| item.outcome.is_none()) {
                ended += usize::from(self.plan.observe(item, seen.sight(item.job), self.now).is_some());
            }
            untouched = list.items.iter().all(|item| item.outcome.is_none());
            self.ended += ended;
            if ended > 0 {
                self.file_again(list);
            }
        }
        Ok(untouched)
    }

    async fn look_at(&self, ids: &[JobId]) -> Result<Seen, StoreError> {
        let mut seen = Seen { hot: HashMap::with_capacity(ids.len()), archived: HashMap::new() };
        for ids in ids.chunks(PAGE) {
            let found = self.store.job_summaries(ids.to_vec()).await?;
            seen.hot.extend(ids.iter().zip(found).filter_map(|(id, summary)| Some((*id, summary?))));
            let missing: Vec<JobId> = ids.iter().copied().filter(|id| !seen.hot.contains_key(id)).collect();
            if !missing.is_empty() {
                let found = self.store.archived(missing.clone()).await?;
                let found = missing.into_iter().zip(found);
                seen.archived.extend(found.filter_map(|(id, archived)| Some((id, archived?.state))));
            }
        }
        Ok(seen)
    }

    pub(super) async fn advance(&mut self) -> Result<PlanStep, StoreError> {
        let code_is_live = self.code_is_live().await?;
        let want = self.plan.advance(code_is_live, self.now);
        if let PlanStep::Candidates(most) = want {
            self.take(most).await?;
        }
        Ok(want)
    }

    /// True when a live worker that serves these jobs has the code that the plan needs (D7).
    async fn code_is_live(&self) -> Result<bool, StoreError> {
        let Some(needs) = &self.plan.needs else { return Ok(true) };
        let selector = &self.plan.selector;
        let kind = self.kind().await?;
        let workers = self.store.workers().await?;
        Ok(workers.iter().filter(|worker| worker.live).any(|worker| {
            worker.code_version.as_deref().is_some_and(|have| at_least(have, needs))
                && selector.queue.as_ref().is_none_or(|queue| worker.queues.contains(queue))
                && kind.as_deref().is_none_or(|kind| worker.kinds.iter().any(|known| &*known.kind == kind))
        }))
    }

    /// The kind of the jobs it drives, if they have one: a plan for an incident has that of the incident.
    async fn kind(&self) -> Result<Option<String>, StoreError> {
        let selector = &self.plan.selector;
        let Some(fingerprint) = selector.incident.clone().filter(|_| selector.kind.is_none()) else {
            return Ok(selector.kind.clone());
        };
        let incident = self.store.incidents_of(vec![fingerprint]).await?.pop().flatten();
        Ok(incident.map(|incident| incident.kind))
    }

    async fn take(&mut self, most: u32) -> Result<(), StoreError> {
        let filter = crate::redrive::filter(&self.plan.selector, self.plan.round.began_at);
        let limit = usize::try_from(most).unwrap_or(PAGE).clamp(100, PAGE);
        let (mut driven, mut left_out) = (Vec::new(), Vec::new());
        for _ in 0..PAGES {
            let request = PageRequest { limit, after: self.plan.cursor };
            let page = self.store.list(filter.clone(), request).await?;
            let taken = self.plan.take(&page.items, page.next.is_some(), self.now);
            left_out.extend(taken.left_out);
            for drive in taken.drives {
                self.operations.push((drive.item.job, drive.operation));
                driven.push(drive.item);
            }
            if !driven.is_empty() || self.plan.round.exhausted {
                break;
            }
        }
        self.take_back(&driven).await?;
        self.file(left_out);
        self.file(driven);
        Ok(())
    }

    /// Takes jobs that are driven once more out of the lists of earlier rounds: what is said of them there is no
    /// longer the last word. Only jobs that an earlier round has met can be in one.
    async fn take_back(&mut self, driven: &[PlanJob]) -> Result<(), StoreError> {
        let Some(reached) = self.plan.reached else { return Ok(()) };
        let again: HashSet<JobId> =
            driven.iter().map(|item| item.job).filter(|job| *job >= reached).collect();
        if again.is_empty() {
            return Ok(());
        }
        let is_over = |item: &PlanJob| item.outcome.is_some() && again.contains(&item.job);
        for mut lists in PlanJobLists::before_round(self.store, &self.plan.id, self.plan.round.number) {
            while let Some(page) = lists.next().await? {
                for list in page.into_iter().filter(|list| list.items.iter().any(is_over)) {
                    // What this step has seen already counts more than what is stored.
                    self.changes.entry(list.key).or_insert(Some(list.items));
                }
            }
        }
        for job in &again {
            // An earlier version kept a document for each.
            self.changes.entry(job_list::ended_key(&self.plan.id, job)).or_insert(None);
        }
        for change in self.changes.values_mut() {
            if let Some(items) = change {
                items.retain(|item| !is_over(item));
            }
            if change.as_ref().is_some_and(Vec::is_empty) {
                *change = None;
            }
        }
        Ok(())
    }

    /// Begins lists with items that are all in flight, or all not.
    fn file(&mut self, items: Vec<PlanJob>) {
        for items in items.chunks(job_list::JOBS) {
            let name = job_list::name(self.plan.round.number, self.revision, self.begun);
            self.begun += 1;
            let key = job_list::open_key(&self.plan.id, &name);
            let list = PlanJobList { key, items: items.to_vec() };
            let key = list.key_at_end().unwrap_or(list.key);
            self.changes.insert(key, Some(list.items));
        }
    }

    /// Writes a list again in which jobs have ended.
    fn file_again(&mut self, list: PlanJobList) {
        self.written += list.items.len();
        match list.key_at_end() {
            Some(ended) => {
                self.changes.insert(list.key, None);
                self.changes.insert(ended, Some(list.items));
            }
            None => {
                self.changes.insert(list.key, Some(list.items));
            }
        }
    }
}

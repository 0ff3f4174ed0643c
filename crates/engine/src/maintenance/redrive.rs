//! Steps re-drive plans (D4, D7): each step is one transaction, written only if the plan is as it was read.
//!
//! A node that dies anywhere leaves the plan as its last step wrote it, and the next node goes on from there; a node
//! that was overtaken changes nothing. What a step may do is the core's decision.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{JobDetail, Operation};
use backstop_core::redrive::{Item, Phase, Plan, Sight, Want};
use backstop_core::version::at_least;
use backstop_core::{JobId, Timestamp, WorkerId};
use backstop_store::{
    Amend, Amended, Archived, Drawer, Duty, Edit, Error as StoreError, Expect, PageRequest, Shelf, Store,
    Term,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::Backstop;
use crate::loops::Pulse;
use crate::redrive::filed::{self, Filed};

/// Steps of one plan in one round at most: the other plans and duties want their turn.
const STEPS: usize = 20;

/// Rows of a page.
const PAGE: usize = 1_000;

/// Pages of candidates that one step looks through at most before it writes how far it came.
const PAGES: usize = 10;

/// Endings that one step writes at most.
const ENDED: usize = 2_000;

/// How soon to look again whether jobs in flight have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How soon to look again for plans that people started in other processes, or that wait for something slow.
const LOOK_LATER: Duration = Duration::from_secs(3);

/// No pause between two looks is shorter.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Nothing to do, or not for us.
const IDLE: Stepping = Stepping { pause: LOOK_LATER, moved: false };

/// What a round of steps came to.
pub(super) struct Stepping {
    /// Until one of the plans may want another step.
    pause: Duration,
    /// True when a step changed something.
    moved: bool,
}

/// Steps every plan that is on its way.
pub(super) async fn redrive(engine: &Backstop, term: Term) -> Result<Stepping, StoreError> {
    let mut stepping = Stepping { pause: LOOK_LATER, moved: false };
    for filed in active(engine).await? {
        let mut next = Some((filed, true));
        for _ in 0..STEPS {
            let Some((filed, looks)) = next.take() else { break };
            match step(engine, term, filed, looks).await? {
                Stepped::On(filed) => {
                    stepping.moved = true;
                    let looks = filed.plan.must_look();
                    next = Some((*filed, looks));
                }
                Stepped::Unseen(filed) => next = Some((*filed, true)),
                Stepped::Wait(span) => stepping.pause = stepping.pause.min(span),
            }
        }
        if next.is_some() {
            stepping.pause = Duration::ZERO;
        }
    }
    Ok(stepping)
}

/// Steps plans until the next round of maintenance is due: a round every few seconds is too slow for their rates.
pub(super) async fn between_rounds(
    engine: &Backstop,
    node: WorkerId,
    lease: Duration,
    interval: Duration,
    pulse: &Pulse,
    quit: &CancellationToken,
) {
    let over = Instant::now() + interval;
    let mut patience = SHORTEST_PAUSE;
    while !quit.is_cancelled() {
        pulse.beat();
        let wanted = engine.inner.plans_changed.notified();
        let stepping = look(engine, node, lease).await.unwrap_or_else(|error| {
            pulse.warn(&error, || tracing::warn!(%error, "re-drive plans wait for the store"));
            IDLE
        });
        // Jobs in flight that end quickly are looked at often, and others ever more seldom.
        patience = if stepping.moved { SHORTEST_PAUSE } else { (patience * 2).min(LOOK_AGAIN) };
        let pause = if stepping.pause == LOOK_AGAIN { patience } else { stepping.pause };
        let until = over.min(Instant::now() + pause.max(SHORTEST_PAUSE));
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = wanted => {}
            () = quit.cancelled() => {}
        }
        if Instant::now() >= over {
            return;
        }
    }
}

async fn look(engine: &Backstop, node: WorkerId, lease: Duration) -> Result<Stepping, StoreError> {
    // Asking for leadership writes; without a plan on its way there is nothing to lead.
    if active(engine).await?.is_empty() {
        return Ok(IDLE);
    }
    let term = engine.inner.store.lead(node, vec![Duty::Redrive], lease).await?.pop().flatten();
    match term {
        Some(term) => match redrive(engine, term).await {
            Err(StoreError::Deposed { .. }) => Ok(IDLE),
            answer => answer,
        },
        None => Ok(IDLE),
    }
}

/// The plans that a step could do something for. One that cannot be read is told and must not hold up the others.
async fn active(engine: &Backstop) -> Result<Vec<Filed>, StoreError> {
    let mut active = Vec::new();
    for filed in filed::all(&*engine.inner.store).await? {
        match filed {
            Ok(filed) if filed.plan.wants_steps() => active.push(filed),
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "a re-drive plan cannot be read and is left alone"),
        }
    }
    Ok(active)
}

enum Stepped {
    /// Something was done, and more may be possible at once.
    On(Box<Filed>),
    /// Nothing was possible without seeing what became of the jobs in flight.
    Unseen(Box<Filed>),
    /// Nothing more for this long.
    Wait(Duration),
}

/// Does one step of a plan, in one transaction; `looks` says whether it sees what became of the jobs in flight.
async fn step(engine: &Backstop, term: Term, filed: Filed, looks: bool) -> Result<Stepped, StoreError> {
    let store = &*engine.inner.store;
    let mut step = Step::new(store, &filed);
    let goes_on = !looks || step.observe().await?;
    let want = if goes_on { step.advance().await? } else { Want::Nothing };
    let Step { plan, changes, operations, all_seen, .. } = step;
    let now = filed.now;
    if plan == filed.plan && changes.is_empty() {
        if !looks {
            return Ok(Stepped::Unseen(Box::new(filed)));
        }
        return Ok(Stepped::Wait(pause(&plan, want, now)));
    }
    tell(&filed.plan, &plan);
    let driven = !operations.is_empty();
    let mut edits = vec![filed::edit(&plan, Expect::Revision(filed.revision))];
    edits.extend(changes.into_iter().map(|(key, body)| Edit {
        drawer: Drawer::PlanJobs,
        key,
        expect: Expect::Any,
        body,
    }));
    match store.amend(Amend { term: Some(term), edits, operations }).await? {
        Amended::Done { now, .. } => {
            let held_back = plan.next_batch_at.is_some_and(|moment| moment > now);
            if driven && held_back && all_seen {
                return Ok(Stepped::Wait(pause(&plan, Want::Nothing, now)));
            }
            let revision = filed.revision + 1;
            Ok(Stepped::On(Box::new(Filed { plan, revision, now })))
        }
        // A person, or a node that took over, was faster: this step never was.
        Amended::Conflict { .. } => Ok(Stepped::Wait(Duration::ZERO)),
    }
}

/// How long a plan that did what it could now can be left alone.
fn pause(plan: &Plan, want: Want, now: Timestamp) -> Duration {
    let until = match (want, plan.next_batch_at) {
        (Want::Wait(moment), _) | (_, Some(moment)) if moment > now => now.until(moment),
        _ => LOOK_LATER,
    };
    let in_flight = if plan.open > 0 && plan.phase.is_moving() { LOOK_AGAIN } else { LOOK_LATER };
    until.min(in_flight)
}

/// Logs what a person should know of without asking.
fn tell(before: &Plan, after: &Plan) {
    if before.phase == after.phase {
        return;
    }
    let plan = &after.id;
    match after.phase {
        Phase::Halted => tracing::warn!(%plan, "re-drive {}", after.describe()),
        Phase::Done => tracing::info!(%plan, "re-drive {}", after.describe()),
        phase => tracing::debug!(%plan, %phase, "a re-drive plan goes on"),
    }
}

/// One step on its way: the plan as it will be, and what is written with it.
struct Step<'a> {
    store: &'a dyn Store,
    plan: Plan,
    now: Timestamp,
    /// The texts of items by key; none removes one. A key that is written twice keeps the later text.
    changes: BTreeMap<String, Option<Arc<str>>>,
    operations: Vec<(JobId, Operation)>,
    /// False when more jobs had ended than one step writes.
    all_seen: bool,
}

impl<'a> Step<'a> {
    fn new(store: &'a dyn Store, filed: &Filed) -> Self {
        let (plan, now) = (filed.plan.clone(), filed.now);
        Self { store, plan, now, changes: BTreeMap::new(), operations: Vec::new(), all_seen: true }
    }

    /// Sees what became of the jobs in flight. False when there are more endings than one step writes; then nothing
    /// is driven before they are written too.
    async fn observe(&mut self) -> Result<bool, StoreError> {
        if self.plan.open == 0 {
            return Ok(true);
        }
        let mut shelf = Shelf::first(Drawer::PlanJobs, PAGE).under(filed::open_items(&self.plan.id));
        let mut ended = 0;
        loop {
            let found = self.store.documents(shelf.clone()).await?;
            let items = found.items.iter().map(|document| filed::read_item(self.store, document));
            ended += self.observe_items(items.collect::<Result<_, _>>()?).await?;
            match found.items.last() {
                Some(_) if found.more && ended >= ENDED => {
                    self.all_seen = false;
                    return Ok(false);
                }
                Some(last) if found.more => shelf = shelf.after(last.key.clone()),
                _ => return Ok(true),
            }
        }
    }

    async fn observe_items(&mut self, items: Vec<Item>) -> Result<usize, StoreError> {
        let ids: Vec<JobId> = items.iter().map(|item| item.job).collect();
        let hot = self.store.jobs(ids.clone()).await?;
        let archived = self.archived(&ids, &hot).await?;
        let mut ended = 0;
        for (mut item, detail) in items.into_iter().zip(&hot) {
            let sight = match (detail, archived.get(&item.job)) {
                (Some(detail), _) => Sight::Job(&detail.view),
                (None, Some(archived)) => Sight::Archived(archived.state),
                (None, None) => Sight::Missing,
            };
            if self.plan.observe(&mut item, sight, self.now).is_some() {
                ended += 1;
                self.changes.insert(filed::open_key(&self.plan.id, item.job), None);
                self.file_ended(&item);
            }
        }
        Ok(ended)
    }

    async fn archived(
        &self,
        ids: &[JobId],
        hot: &[Option<JobDetail>],
    ) -> Result<HashMap<JobId, Archived>, StoreError> {
        let missing: Vec<JobId> =
            ids.iter().zip(hot).filter(|(_, detail)| detail.is_none()).map(|(id, _)| *id).collect();
        if missing.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.store.archived(missing.clone()).await?;
        Ok(missing.into_iter().zip(found).filter_map(|(id, archived)| Some((id, archived?))).collect())
    }

    async fn advance(&mut self) -> Result<Want, StoreError> {
        let code_is_live = self.code_is_live().await?;
        let want = self.plan.advance(code_is_live, self.now);
        if let Want::Candidates(most) = want {
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
        for _ in 0..PAGES {
            let request = PageRequest { limit, after: self.plan.cursor };
            let page = self.store.list(filter.clone(), request).await?;
            let taken = self.plan.take(&page.items, page.next.is_some(), self.now);
            taken.left_out.iter().for_each(|item| self.file_ended(item));
            for drive in taken.drives {
                self.file_open(&drive.item);
                self.operations.push((drive.item.job, drive.operation));
            }
            if !self.operations.is_empty() || self.plan.round.exhausted {
                break;
            }
        }
        Ok(())
    }

    fn file_ended(&mut self, item: &Item) {
        self.changes.insert(filed::ended_key(&self.plan.id, item.job), Some(filed::text(item)));
    }

    fn file_open(&mut self, item: &Item) {
        if item.round > 1 {
            // It may be driven once more after it failed: then its last outcome is no longer the last word.
            self.changes.insert(filed::ended_key(&self.plan.id, item.job), None);
        }
        self.changes.insert(filed::open_key(&self.plan.id, item.job), Some(filed::text(item)));
    }
}

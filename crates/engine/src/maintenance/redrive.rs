//! Steps re-drive plans (D4, D7): each step is one transaction, written only if the plan is as it was read.
//!
//! A node that dies anywhere leaves the plan as its last step wrote it, and the next node goes on from there; a node
//! that was overtaken changes nothing. What a step may do is the core's decision.

mod missing_marks;
mod step;

use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::redrive::{Plan, PlanPhase, PlanStep};
use backstop_store::{Amend, Amended, Duty, Error as StoreError, Store, Term};
use tokio::time::Instant;

use super::state::MaintenanceState;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::redrive::mark;
use crate::redrive::stored::{self, StoredPlan};
use missing_marks::write_missing_marks;
use step::{Look, StepDraft};

/// Steps of one plan in one round at most: the other plans and duties want their turn.
const STEPS: usize = 20;

/// How soon to look again whether jobs in flight have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How soon to look at all the jobs in flight of a plan that can go on without: what failed should halt it soon.
const LOOK_MEANWHILE: Duration = Duration::from_secs(1);

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
    /// True when steps did much, so that there may soon be more to do.
    moved: bool,
}

/// Steps every plan that is on its way, with a look at all that is in flight first.
pub(super) async fn redrive(
    parts: &EngineParts,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<Stepping, StoreError> {
    step_all(parts, term, true, heartbeat).await
}

/// Steps every plan that is on its way; `afresh` looks at all that is in flight first, also where it is not needed.
async fn step_all(
    parts: &EngineParts,
    term: Term,
    afresh: bool,
    heartbeat: &LoopHeartbeat,
) -> Result<Stepping, StoreError> {
    let mut stepping = Stepping { pause: LOOK_LATER, moved: false };
    for stored in active(parts, term).await? {
        let look = if afresh { Look::Everything } else { Look::needed(&stored.plan) };
        let mut next = Some((stored, look));
        for _ in 0..STEPS {
            let Some((stored, look)) = next.take() else { break };
            heartbeat.record();
            match step(&*parts.store, term, stored, look).await? {
                Stepped::On(stored) => {
                    stepping.moved = true;
                    let look = Look::needed(&stored.plan);
                    next = Some((*stored, look));
                }
                Stepped::Wait { span, moved } => {
                    stepping.pause = stepping.pause.min(span);
                    stepping.moved |= moved;
                }
            }
        }
        if next.is_some() {
            stepping.pause = Duration::ZERO;
        }
    }
    Ok(stepping)
}

/// Steps plans until it is told to stop, while it leads: a round every few seconds is too slow for their rates.
pub(super) async fn run(parts: &EngineParts, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let mut changes = state.leadership.changes();
    let mut look_pause = SHORTEST_PAUSE;
    let mut next_look = Instant::now();
    while !state.stop.is_cancelled() {
        heartbeat.record();
        let wanted = parts.plans_changed.notified();
        let afresh = Instant::now() >= next_look;
        let stepping = look(parts, state, afresh, heartbeat).await;
        if afresh {
            next_look = Instant::now() + LOOK_MEANWHILE;
        }
        // Jobs in flight that end quickly are looked at often, and others ever more seldom.
        look_pause = if stepping.moved { SHORTEST_PAUSE } else { (look_pause * 2).min(LOOK_AGAIN) };
        let pause = if stepping.pause == LOOK_AGAIN { look_pause } else { stepping.pause };
        tokio::select! {
            () = state.pause(Instant::now() + pause.max(SHORTEST_PAUSE), &mut changes) => {}
            () = wanted => {}
        }
    }
}

/// Steps what there is, if this node leads.
async fn look(
    parts: &EngineParts,
    state: &MaintenanceState,
    afresh: bool,
    heartbeat: &LoopHeartbeat,
) -> Stepping {
    let Some(term) = state.leadership.term(Duty::Redrive) else { return IDLE };
    match step_all(parts, term, afresh, heartbeat).await {
        Ok(stepping) => stepping,
        Err(error) => {
            state.heed(Err(error), heartbeat);
            IDLE
        }
    }
}

/// The plans that a step could do something for. One that cannot be read is told and must not hold up the others.
///
/// Plans at rest are not read, however many there are: their marks say that they are.
async fn active(parts: &EngineParts, term: Term) -> Result<Vec<StoredPlan>, StoreError> {
    let store = &*parts.store;
    let mut marks = mark::open(store).await?;
    if parts.plans_marked.is_due(term, marks.now) {
        write_missing_marks(store, term).await?;
        parts.plans_marked.done(term, marks.now);
        marks = mark::open(store).await?;
    }
    let mut active = Vec::with_capacity(marks.plans.len());
    for marked in marks.plans {
        match stored::one(store, &marked.plan).await {
            Ok(Some(stored)) if stored.plan.wants_steps() => active.push(stored),
            // A program of an earlier version brought it to its end, and left the mark.
            Ok(_) => mark::remove(store, term, marked).await?,
            Err(error @ StoreError::Corrupt { .. }) => {
                tracing::error!(%error, "cannot read a re-drive plan; it is skipped");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(active)
}

enum Stepped {
    /// Something was done, and more may be possible at once.
    On(Box<StoredPlan>),
    /// Nothing more for this long; `moved` when much was done before.
    Wait { span: Duration, moved: bool },
}

/// Does one step of a plan, in one transaction; `look` says how much of what is in flight it sees.
async fn step(store: &dyn Store, term: Term, stored: StoredPlan, look: Look) -> Result<Stepped, StoreError> {
    let mut step = StepDraft::new(store, &stored);
    let goes_on = step.observe(look).await?;
    let want = if goes_on { step.advance().await? } else { PlanStep::Nothing };
    if step.plan == stored.plan && !step.has_changes() {
        return Ok(Stepped::Wait { span: pause(&step.plan, want, stored.now), moved: false });
    }
    tell(&stored.plan, &step.plan);
    let (driven, all_seen, moved) = (!step.operations.is_empty(), step.all_seen, step.has_seen_much());
    let (plan, lists, operations) = step.into_parts();
    let mut edits = stored::edits(&plan, Some((&stored.plan, stored.revision)));
    edits.extend(lists);
    match store.amend(Amend { term: Some(term), edits, operations, ..Amend::default() }).await? {
        Amended::Done { now, .. } => {
            let held_back = driven && plan.next_batch_at.is_some_and(|moment| moment > now);
            // What was looked at a moment ago and was still in flight is in flight now.
            let has_looked = look != Look::Nothing && plan.must_look() && plan.open > 0;
            if all_seen && (held_back || has_looked) {
                return Ok(Stepped::Wait { span: pause(&plan, PlanStep::Nothing, now), moved });
            }
            let revision = stored.revision + 1;
            Ok(Stepped::On(Box::new(StoredPlan { plan, revision, now })))
        }
        // A person, or a node that took over, was faster: this step never was.
        Amended::Conflict { .. } | Amended::Refused { .. } => {
            Ok(Stepped::Wait { span: Duration::ZERO, moved: false })
        }
    }
}

/// How long a plan that did what it could now can be left alone.
fn pause(plan: &Plan, want: PlanStep, now: Timestamp) -> Duration {
    let until = match (want, plan.next_batch_at) {
        (PlanStep::Wait(moment), _) | (_, Some(moment)) if moment > now => now.until(moment),
        _ => LOOK_LATER,
    };
    let in_flight = match plan.phase {
        phase if plan.open == 0 || !phase.is_moving() => LOOK_LATER,
        _ if plan.must_look() => LOOK_AGAIN,
        _ => LOOK_MEANWHILE,
    };
    until.min(in_flight)
}

/// Logs what a person should know of without asking.
fn tell(before: &Plan, after: &Plan) {
    if before.phase == after.phase {
        return;
    }
    let plan = &after.id;
    match after.phase {
        PlanPhase::Halted => tracing::warn!(%plan, "re-drive {}", after.describe()),
        PlanPhase::Done => tracing::info!(%plan, "re-drive {}", after.describe()),
        phase => tracing::debug!(%plan, %phase, "a re-drive plan goes on"),
    }
}

//! Fires schedules (W11).
//!
//! Each fire is decided in one write of its schedule, under the leader's term and over the revision that was read, with
//! the id of its job in it; then the job is submitted under a key made of schedule and fire time. A process that dies
//! in between leaves a decision whose job is missing: whoever leads next submits the last decided fires of all
//! schedules once more, those of a paused one when it is resumed, and those that were submitted are known by their key.
//! One that was overtaken decides nothing, and what it still submits was decided before.

mod settle;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_core::event::{Event, EventKind};
use backstop_core::job::{JobSummary, NewJob, OnConflict};
use backstop_core::schedule::{FireTimes, Overlap, PassReason, PassedFire};
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::{Amend, Amended, Duty, Error as StoreError, Submitted, Term};
use tokio::time::Instant;

use super::state::MaintenanceState;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::schedules::firing;
use crate::schedules::stored::{self, StoredSchedule};

/// Schedules that are written, and jobs that are submitted, in one transaction.
const BATCH: usize = 1_000;

/// How soon to look again for schedules that people changed in other processes.
const LOOK: Duration = Duration::from_secs(1);

/// No pause between two looks is shorter.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// All schedules, as one who leads knows them.
pub(super) struct KnownSchedules {
    /// The term in which they were read.
    term: i64,
    /// The mark that they were read under.
    mark: i64,
    schedules: BTreeMap<String, KnownSchedule>,
}

/// Fires that were refused for good, by schedule: the place of each among the last fires, and why.
type RefusedFires = BTreeMap<String, Vec<(usize, Refusal)>>;

struct KnownSchedule {
    stored: StoredSchedule,
    times: FireTimes,
    /// The next fire time.
    next: Option<Timestamp>,
    /// Those of its last fires whose jobs may be missing, or wait for room in their queue.
    unsubmitted: BTreeSet<Timestamp>,
}

impl KnownSchedule {
    fn new(stored: StoredSchedule, now: Timestamp) -> Option<Self> {
        match stored.body.schedule.timing.fire_times(stored.body.state.anchor) {
            Ok(times) => {
                let next = stored.body.state.next(&times, now);
                let open = stored.body.state.fires.iter().filter(|fire| !fire.settled);
                let unsubmitted = open.map(|fire| fire.fire_time).collect();
                Some(Self { stored, times, next, unsubmitted })
            }
            Err(problem) => {
                tracing::error!(schedule = stored.name, %problem, "a schedule cannot be followed; set it again");
                None
            }
        }
    }

    /// Something is to be decided: a fire time has come, fires wait for a job to end, or the clock was put back.
    fn is_due(&self, now: Timestamp) -> bool {
        let state = &self.stored.body.state;
        let waits = !state.queued.is_empty() && state.paused.is_none();
        waits || self.next.is_some_and(|next| next <= now) || state.is_ahead_of(now)
    }

    /// The job of the last fire, where it matters whether it still goes on.
    fn last_job(&self) -> Option<JobId> {
        let matters = self.stored.body.schedule.overlap != Overlap::Allow;
        self.stored.body.state.last().filter(|_| matters).map(|fire| fire.job)
    }
}

pub(super) async fn run(parts: &EngineParts, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let mut changes = state.leadership.changes();
    let mut known = None;
    while !state.stop.is_cancelled() {
        heartbeat.record();
        let changed = parts.schedules_changed.notified();
        let mut pause = LOOK;
        if let Some(term) = state.leadership.term(Duty::Schedule) {
            match fire(parts, term, &mut known, heartbeat).await {
                Ok(next) => pause = next,
                Err(error) => {
                    // Whether the last write was made is not known.
                    known = None;
                    state.heed(Err(error), heartbeat);
                }
            }
        }
        tokio::select! {
            () = state.pause(Instant::now() + pause, &mut changes) => {}
            () = changed => {}
        }
    }
}

/// Fires what is due, and answers how long there is nothing to do.
pub(super) async fn fire(
    parts: &EngineParts,
    term: Term,
    known: &mut Option<KnownSchedules>,
    heartbeat: &LoopHeartbeat,
) -> Result<Duration, StoreError> {
    let mark = stored::mark(&*parts.store).await?;
    let looked = Instant::now();
    if known.as_ref().is_none_or(|known| (known.term, known.mark) != (term.number, mark.revision)) {
        *known = Some(read(parts, term, mark.revision, known.take()).await?);
    }
    let Some(known) = known else { return Ok(LOOK) };
    submit_decided(parts, term, known, mark.now, heartbeat).await?;
    let due: Vec<String> = known
        .schedules
        .iter()
        .filter(|(_, schedule)| schedule.is_due(mark.now))
        .map(|(name, _)| name.clone())
        .collect();
    for batch in due.chunks(BATCH) {
        heartbeat.record();
        decide(parts, term, known, batch, mark.now).await?;
        submit_decided(parts, term, known, mark.now, heartbeat).await?;
    }
    let next = known.schedules.values().filter_map(|schedule| schedule.next).min();
    // Fires that wait for a job to end, and jobs that a full queue refused, are looked at as often as the mark.
    let wait = next.map_or(LOOK, |next| mark.now.until(next).saturating_sub(looked.elapsed()));
    Ok(wait.clamp(SHORTEST_PAUSE, LOOK))
}

/// Reads all schedules. Of those that are as they were in the same term, it is known that their jobs are submitted.
async fn read(
    parts: &EngineParts,
    term: Term,
    mark: i64,
    before: Option<KnownSchedules>,
) -> Result<KnownSchedules, StoreError> {
    let mut before = before.filter(|before| before.term == term.number).map(|before| before.schedules);
    let (now, found) = stored::all(&*parts.store).await?;
    let mut schedules = BTreeMap::new();
    for stored in found {
        let known = before.as_mut().and_then(|before| before.remove(&stored.name));
        let same = known.filter(|known| known.stored.revision == stored.revision);
        if let Some(schedule) = same.or_else(|| KnownSchedule::new(stored, now)) {
            schedules.insert(schedule.stored.name.clone(), schedule);
        }
    }
    Ok(KnownSchedules { term: term.number, mark, schedules })
}

/// Decides for schedules that are due, in one write. One that somebody has changed meanwhile is left for the next look,
/// which reads it again.
async fn decide(
    parts: &EngineParts,
    term: Term,
    known: &mut KnownSchedules,
    names: &[String],
    now: Timestamp,
) -> Result<(), StoreError> {
    let going = going(parts, known, names).await?;
    let mut changed: BTreeMap<String, StoredSchedule> = BTreeMap::new();
    for name in names {
        let Some(schedule) = known.schedules.get_mut(name) else { continue };
        let mut stored = schedule.stored.clone();
        let is_going = schedule.last_job().is_some_and(|job| going.contains(&job));
        let body = &mut stored.body;
        let waiting = &schedule.unsubmitted;
        if body.state.decide(&body.schedule, &schedule.times, now, is_going, waiting, crate::ids::job_id) {
            changed.insert(name.clone(), stored);
        } else {
            schedule.next = schedule.stored.body.state.next(&schedule.times, now);
        }
    }
    for (name, stored) in write(parts, term, known, changed).await? {
        let Some(schedule) = known.schedules.get_mut(&name) else { continue };
        tell(parts, &schedule.stored, &stored, now);
        let before = &schedule.stored.body.state.fires;
        let new = stored.body.state.fires.iter().filter(|fire| !before.contains(fire));
        schedule.unsubmitted.extend(new.map(|fire| fire.fire_time));
        schedule.next = stored.body.state.next(&schedule.times, now);
        schedule.stored = stored;
    }
    Ok(())
}

/// Writes schedules over what was read, at most a batch of them, and answers those that are written, with their new
/// revision.
async fn write(
    parts: &EngineParts,
    term: Term,
    known: &mut KnownSchedules,
    mut changed: BTreeMap<String, StoredSchedule>,
) -> Result<BTreeMap<String, StoredSchedule>, StoreError> {
    while !changed.is_empty() {
        let edits = changed.values().map(StoredSchedule::edit).collect();
        match parts.store.amend(Amend { term: Some(term), edits, ..Amend::default() }).await? {
            Amended::Done { .. } => break,
            Amended::Conflict { key, .. } => {
                changed.remove(&key);
                // A person has changed it: the mark says so too, and all are read again.
                known.mark = -1;
            }
            // It submits no jobs in this transaction.
            Amended::Refused { .. } => break,
        }
    }
    for stored in changed.values_mut() {
        stored.revision += 1;
    }
    Ok(changed)
}

/// Tells of a fire that was passed over.
fn tell(parts: &EngineParts, before: &StoredSchedule, after: &StoredSchedule, at: Timestamp) {
    let passed = after.body.state.passed.filter(|passed| before.body.state.passed != Some(*passed));
    let Some(PassedFire { fire_time, reason }) = passed else { return };
    // Of one that was refused it was told why.
    if matches!(reason, PassReason::Missed | PassReason::QueueFull) {
        tracing::warn!(schedule = after.name, %fire_time, ?reason, "a fire of a schedule was passed over");
    }
    let what = EventKind::FirePassed { schedule: after.name.clone(), fire_time, reason };
    parts.events.publish(Event { at, node: None, job: None, what });
}

/// Those jobs of last fires that have not ended.
async fn going(
    parts: &EngineParts,
    known: &KnownSchedules,
    names: &[String],
) -> Result<Vec<JobId>, StoreError> {
    let last = |name: &String| known.schedules.get(name).and_then(KnownSchedule::last_job);
    let jobs: Vec<JobId> = names.iter().filter_map(last).collect();
    if jobs.is_empty() {
        return Ok(jobs);
    }
    let summaries = parts.store.job_summaries(jobs.clone()).await?;
    let goes_on = |(job, summary): (JobId, Option<JobSummary>)| {
        // One that is unknown has ended long ago.
        summary.is_some_and(|summary| summary.rests.is_none_or(|state| !state.is_terminal())).then_some(job)
    };
    let mut going: Vec<JobId> = jobs.into_iter().zip(summaries).filter_map(goes_on).collect();
    going.sort_unstable();
    Ok(going)
}

/// Submits the jobs of fires that were decided and may be missing.
async fn submit_decided(
    parts: &EngineParts,
    term: Term,
    known: &mut KnownSchedules,
    now: Timestamp,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let mut wanted: Vec<(String, usize)> = Vec::new();
    for (name, schedule) in &known.schedules {
        // A pause holds back whatever is not submitted yet: fires whose queue was full, and fires that a leader decided
        // before it died. They stay with their schedule, and go when it is resumed.
        if schedule.stored.body.state.paused.is_some() {
            continue;
        }
        let fires = schedule.stored.body.state.fires.iter().enumerate();
        let missing = fires.filter(|(_, fire)| schedule.unsubmitted.contains(&fire.fire_time));
        wanted.extend(missing.map(|(at, _)| (name.clone(), at)));
    }
    let mut refused = RefusedFires::new();
    let (once, plain): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(name, _)| known.skips(name));
    for batch in plain.chunks(BATCH) {
        heartbeat.record();
        let jobs = batch.iter().map(|(name, at)| job_of(parts, known, name, *at, now)).collect();
        for ((name, at), answer) in batch.iter().zip(firing::submit(parts, jobs).await?) {
            known.take(name, *at, answer, &mut refused);
        }
    }
    for batch in once.chunks(BATCH) {
        heartbeat.record();
        settle::settle(parts, term, known, batch, &mut refused, now).await?;
    }
    write_refusals(parts, term, known, refused, now).await
}

impl KnownSchedules {
    /// True when the fires of a schedule are skipped while another job holds their business key.
    fn skips(&self, name: &str) -> bool {
        let schedule = self.schedules.get(name).map(|schedule| &schedule.stored.body.schedule.job);
        schedule.is_some_and(|job| job.spec.business_key.is_some() && job.on_conflict == OnConflict::Skip)
    }

    /// Takes the answer to the job of a fire.
    fn take(
        &mut self,
        name: &str,
        at: usize,
        answer: Result<Submitted, Refusal>,
        refused: &mut RefusedFires,
    ) {
        match answer {
            Ok(submitted) => self.note(name, at, Some(submitted)),
            // It is tried again until there is room.
            Err(Refusal::QueueFull { .. }) => {}
            Err(refusal) => {
                self.note(name, at, None);
                refused.entry(name.to_owned()).or_default().push((at, refusal));
            }
        }
    }

    /// Notes what came of a fire: the job that stands for it, or none that ever will. Where it is another, such as one
    /// of a backfill, that one goes on.
    fn note(&mut self, name: &str, at: usize, submitted: Option<Submitted>) {
        let Some(schedule) = self.schedules.get_mut(name) else { return };
        let Some(fire) = schedule.stored.body.state.fires.get_mut(at) else { return };
        schedule.unsubmitted.remove(&fire.fire_time);
        if let Some(submitted) = submitted {
            fire.job = submitted.id;
        }
    }
}

fn job_of(
    parts: &EngineParts,
    known: &KnownSchedules,
    name: &str,
    at: usize,
    now: Timestamp,
) -> Result<NewJob, Refusal> {
    let body = known.schedules.get(name).map(|schedule| &schedule.stored.body);
    let fire = body.and_then(|body| body.state.fires.get(at).copied());
    let Some((body, fire)) = body.zip(fire) else { return Err(Refusal::BatchRefused { index: at }) };
    firing::job_of(&parts.config, (name, &body.schedule), fire, false, now)
}

/// Tells people of fires that were refused for good, and leaves the reason with their schedules.
async fn write_refusals(
    parts: &EngineParts,
    term: Term,
    known: &mut KnownSchedules,
    mut refused: RefusedFires,
    now: Timestamp,
) -> Result<(), StoreError> {
    while !refused.is_empty() {
        let mut changed = BTreeMap::new();
        while changed.len() < BATCH
            && let Some((name, refused)) = refused.pop_first()
        {
            let Some(schedule) = known.schedules.get(&name) else { continue };
            let stored = without_refused(parts, schedule.stored.clone(), &refused);
            changed.insert(name, stored);
        }
        for (name, stored) in write(parts, term, known, changed).await? {
            let Some(schedule) = known.schedules.get_mut(&name) else { continue };
            tell(parts, &schedule.stored, &stored, now);
            schedule.stored = stored;
        }
    }
    Ok(())
}

/// A schedule without those of its fires that were refused, in order, and with the reason of the last one.
fn without_refused(
    parts: &EngineParts,
    mut stored: StoredSchedule,
    refused: &[(usize, Refusal)],
) -> StoredSchedule {
    let skips = stored.body.schedule.job.on_conflict == OnConflict::Skip;
    let state = &mut stored.body.state;
    for (at, refusal) in refused {
        let fire_time = state.fires.get(*at).map(|fire| fire.fire_time);
        state.passed = fire_time.map(|fire_time| PassedFire { fire_time, reason: PassReason::Refused });
        // Who says that fires are to be skipped wants to see no problem in it.
        if !(skips && matches!(refusal, Refusal::BusinessKeyConflict { .. })) {
            tracing::warn!(schedule = stored.name, %refusal, "the job of a fire was refused");
            state.problem = Some(parts.config.sanitized(&refusal.to_string()));
        }
    }
    for (at, _) in refused.iter().rev() {
        state.fires.remove(*at);
    }
    stored
}

//! Runs that end well and leave nothing else behind, or only the note that a part of a workflow has ended, which is
//! what most runs do.
//!
//! What this process remembers of their claims is enough to know what there is to write, so nothing is read and locked
//! before. Whether it is still so, and whether their worker lives, is for the one statement that writes it to find out;
//! when it is not, nothing is written and the runs end in the ordinary way.

use std::collections::BTreeSet;

use backstop_core::JobId;
use backstop_core::event::Event;
use backstop_core::failure::Cause;
use backstop_core::job::{Record, Stale, State};
use backstop_core::workflow::EndDocument;
use backstop_store::Finish;
use backstop_store::working_set::{ClaimRow, Done, PlainWrites, WorkingSet};

use crate::encode::marks_when_done;
use crate::hold::by_fence;
use crate::shared::Shared;

/// Such runs, as the rules end them.
pub struct PlainEnds {
    /// Their claims, as they are afterwards. `edits` is how often the stored row has been changed before.
    pub claims: Vec<ClaimRow>,
    /// What to store, with the lane of each. The moment of their ends is the server's, not the one that stands here.
    pub done: Vec<(Done, i64)>,
    /// The jobs that had a row in `record`, with nothing in it that is to be kept.
    pub records_out: Vec<JobId>,
    /// What is noted of parts of workflows (W1-W6), at the moment that is the server's.
    pub noted: Vec<EndDocument>,
    /// What to tell of them, where that is asked for, with the moment that stands here.
    pub events: Vec<Event>,
}

impl PlainEnds {
    /// The ends of these runs; none when one of them is not plain, or not remembered.
    #[must_use]
    pub fn of(shared: &Shared, endings: &[Finish]) -> Option<Self> {
        let plain = |finish: &Finish| {
            let ending = &finish.ending;
            ending.cause == Cause::Succeeded && ending.follow_up.is_none() && ending.children.is_empty()
        };
        if !endings.iter().all(plain) {
            return None;
        }
        let leases: Vec<_> = endings.iter().map(|finish| finish.lease).collect();
        let mut found = Vec::new();
        for (fence, jobs) in by_fence(&leases) {
            found.push(shared.held_jobs.believed(fence, &jobs)?);
        }
        // Any moment will do: a plain end is the same at each.
        let clock = shared.settings.clock.as_ref().map(|clock| clock.now());
        let now = clock.or_else(|| found.iter().map(|(claim, _)| claim.claimed_at).max())?;
        let mut set = WorkingSet::new(now, shared.wants());
        set.expect(endings.len());
        for (claim, jobs) in found {
            jobs.into_iter().for_each(|job| set.put(job));
            set.put_claim(claim);
        }
        if !endings.iter().all(|finish| set.finish(finish) == Ok(State::Succeeded)) {
            return None;
        }
        let PlainWrites { done, claims, records_out, ended: noted, mut events } =
            set.into_writes().into_plain_ends()?;
        if !shared.observer().wants_events() {
            events.clear();
        }
        let with_lane = |done: Done| {
            let lane = shared.lanes.id_of(&done.lane)?;
            (done.run.is_some() && has_no_past(&done.record)).then_some((done, lane))
        };
        let done = done.into_iter().map(with_lane).collect::<Option<Vec<_>>>()?;
        Some(Self { claims, done, records_out, noted, events })
    }

    /// Follows what was committed; answers the endings.
    #[must_use]
    pub fn written(&self, shared: &Shared, endings: &[Finish]) -> Vec<Result<State, Stale>> {
        for claim in &self.claims {
            let ended: BTreeSet<JobId> = endings
                .iter()
                .filter_map(|finish| (finish.lease.fence == claim.fence).then_some(finish.lease.job))
                .collect();
            shared.held_jobs.follow(claim, ended.into_iter().map(|job| (job, None)));
        }
        vec![Ok(State::Succeeded); endings.len()]
    }
}

/// True when nothing is to be stored of a record but that it ran once.
fn has_no_past(record: &Record) -> bool {
    record.runs == 1
        && (record.attempt, record.crashes, record.deferrals, record.redrives) == (0, 0, 0, 0)
        && record.progress.is_none()
        && marks_when_done(record).is_none()
}

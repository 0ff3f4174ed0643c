//! Fires whose jobs may be skipped for another one that holds their business key (W11, L11).
//!
//! What is skipped leaves nothing behind, not even its idempotency key: whoever asks again later may be answered
//! otherwise. So the transaction that submits such a job also writes that nobody submits it any more, and whatever its
//! answer is, that is given once. A leader that dies behind it leaves nothing to decide.

use std::collections::BTreeMap;

use backstop_core::job::NewJob;
use backstop_core::{Refusal, Timestamp};
use backstop_store::{Amend, Amended, Error as StoreError, Submitted, Term};

use super::{KnownSchedules, RefusedFires, job_of};
use crate::parts::EngineParts;
use crate::schedules::firing;
use crate::schedules::stored::StoredSchedule;

/// A fire that was decided, and its job.
struct DecidedFire {
    name: String,
    /// Its place among the last fires of its schedule.
    at: usize,
    job: NewJob,
}

/// Submits the jobs of these fires once, whatever comes of that. One whose queue is full, or whose schedule somebody
/// has changed meanwhile, is left for the next look.
pub(super) async fn settle(
    parts: &EngineParts,
    term: Term,
    known: &mut KnownSchedules,
    fires: &[(String, usize)],
    refused: &mut RefusedFires,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut left = Vec::with_capacity(fires.len());
    for (name, at) in fires {
        match job_of(parts, known, name, *at, now) {
            Ok(job) => left.push(DecidedFire { name: name.clone(), at: *at, job }),
            Err(refusal) => known.take(name, *at, Err(refusal), refused),
        }
    }
    while !left.is_empty() {
        let changed = settled(known, &left);
        let edits = changed.values().map(StoredSchedule::edit).collect();
        let jobs = left.iter().map(|fire| fire.job.clone()).collect();
        let before = left.len();
        match parts.store.amend(Amend { term: Some(term), edits, jobs, ..Amend::default() }).await? {
            Amended::Done { submitted, .. } => {
                for (name, mut stored) in changed {
                    stored.revision += 1;
                    if let Some(schedule) = known.schedules.get_mut(&name) {
                        schedule.stored = stored;
                    }
                }
                return answered(parts, known, &left, submitted, refused).await;
            }
            Amended::Conflict { key, .. } => {
                left.retain(|fire| fire.name != key);
                // A person has changed it: the mark says so too, and all are read again.
                known.mark = -1;
            }
            Amended::Refused { index, refusal } => leave_out(known, &mut left, index, refusal, refused),
        }
        if left.len() == before {
            // Nothing of this was asked for.
            return Ok(());
        }
    }
    Ok(())
}

/// The schedules of these fires, which say that nobody submits them any more.
fn settled(known: &KnownSchedules, fires: &[DecidedFire]) -> BTreeMap<String, StoredSchedule> {
    let mut changed: BTreeMap<String, StoredSchedule> = BTreeMap::new();
    for DecidedFire { name, at, .. } in fires {
        let Some(schedule) = known.schedules.get(name) else { continue };
        let stored = changed.entry(name.clone()).or_insert_with(|| schedule.stored.clone());
        if let Some(fire) = stored.body.state.fires.get_mut(*at) {
            fire.settled = true;
        }
    }
    changed
}

/// Goes on without a fire whose job is refused. When its queue is full, those before it have the room that is left, and
/// those behind it none.
fn leave_out(
    known: &mut KnownSchedules,
    left: &mut Vec<DecidedFire>,
    index: usize,
    refusal: Refusal,
    refused: &mut RefusedFires,
) {
    if index >= left.len() {
        return;
    }
    let DecidedFire { name, at, job } = left.remove(index);
    if matches!(refusal, Refusal::QueueFull { .. }) {
        let mut place = 0;
        left.retain(|other| {
            place += 1;
            place <= index || other.job.spec.queue != job.spec.queue
        });
    }
    known.take(&name, at, Err(refusal), refused);
}

/// Notes what was answered.
async fn answered(
    parts: &EngineParts,
    known: &mut KnownSchedules,
    fires: &[DecidedFire],
    submitted: Vec<Submitted>,
    refused: &mut RefusedFires,
) -> Result<(), StoreError> {
    let keys = fires.iter().map(|fire| firing::skip_keys(&fire.job)).collect();
    let answers = submitted.into_iter().map(Ok).collect();
    let answers = firing::without_skipped(parts, keys, answers).await?;
    for (DecidedFire { name, at, .. }, answer) in fires.iter().zip(answers) {
        known.take(name, *at, answer, refused);
    }
    Ok(())
}

//! The ledger: one row for each run that has ended (F2).

use std::sync::Arc;

use serde::Serialize;

use super::{Ending, FailureRecord, Stale, State, Trigger, next};
use crate::failure::{Cause, Decision, Verdict};
use crate::id::{Fence, Lease, WorkerId};
use crate::sealing;
use crate::time::Timestamp;

/// One ended run. Written once, never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Which run of the job this was, from 1; numbers never restart, not even by a re-drive (L9).
    pub number: u32,
    /// The hold it ran under.
    pub fence: Fence,
    /// Who ran it.
    pub worker: WorkerId,
    /// The version of the code that ran it.
    pub code_version: Option<Arc<str>>,
    /// The one cause it ended by.
    pub cause: Cause,
    /// When the job had become due before this run.
    pub due_at: Timestamp,
    /// When the handler started.
    pub started_at: Timestamp,
    /// When the ending was stored.
    pub finished_at: Timestamp,
    /// Sanitized evidence, for a run that failed.
    pub failure: Option<FailureRecord>,
    /// The checks and the verdict; none for a plain success.
    pub decision: Option<Decision>,
    /// What the handler returned, as JSON text.
    pub result: Option<Arc<str>>,
    /// A warning on a run that succeeded.
    pub warning: Option<String>,
    /// What the run logged or printed.
    pub output: Option<String>,
}

impl Attempt {
    /// The answer to an ending of a run that has ended, which this is the row of: the same one again is answered as it
    /// was the first time, whatever became of the job since; any other is stale (L5).
    ///
    /// # Errors
    /// [`Stale`] when this is the run of another lease, or it ended otherwise.
    pub fn answer_again(&self, lease: &Lease, ending: &Ending) -> Result<State, Stale> {
        let stale = Stale { job: lease.job, fence: lease.fence };
        if self.fence != lease.fence || self.worker != lease.worker || !self.ended_as(ending) {
            return Err(stale);
        }
        let trigger = self.decision.as_ref().map_or(Trigger::Succeed, |decision| decision.verdict.trigger());
        next(State::Running, trigger).map_err(|_| stale)
    }

    /// True when `ending` says of this run what is stored of it: its cause and its evidence. Where the job goes then
    /// is decided again for each report, from counters that have moved on, so only what the run itself asked for
    /// counts: its delay, and why it cancels the job. What it logged is not part of how it ended.
    ///
    /// How long a run that waits for a signal wanted to wait cannot be told from a row: such reports count as the same.
    fn ended_as(&self, ending: &Ending) -> bool {
        self.cause == ending.cause
            && same_failure(self.failure.as_ref(), ending.failure.as_ref())
            && same_result(self.result.as_deref(), ending.result.as_deref())
            && self.warning == ending.warning
            && self.asked_as(&ending.decision)
    }

    fn asked_as(&self, decision: &Decision) -> bool {
        let Some(stored) = &self.decision else { return true };
        // Stored to the millisecond, as all delays are.
        let [asked, again] = [stored, decision].map(|one| one.asked.map(|wait| wait.as_millis()));
        if asked != again {
            return false;
        }
        match (&stored.verdict, &decision.verdict) {
            // Nobody but the run says how long these wait.
            (Verdict::Defer { delay }, Verdict::Defer { delay: again })
                if matches!(self.cause, Cause::Snoozed | Cause::RateLimited) =>
            {
                delay.as_millis() == again.as_millis()
            }
            (Verdict::Wait { signal, .. }, Verdict::Wait { signal: again, .. }) => signal == again,
            // A person's cancel has checks of its own: it is not what the run said.
            (Verdict::Cancel { reason }, Verdict::Cancel { reason: again }) => {
                let first = |decision: &Decision| decision.trace.first().map(|check| check.check.clone());
                reason == again && first(stored) == first(decision)
            }
            _ => true,
        }
    }
}

/// True when both are the same evidence. Which incident it counts for follows from it, and from how many there were.
fn same_failure(one: Option<&FailureRecord>, other: Option<&FailureRecord>) -> bool {
    let evidence = |failure: Option<&FailureRecord>| {
        failure.map(|failure| (failure.error_type.clone(), failure.message.clone()))
    };
    evidence(one) == evidence(other)
}

/// Sealing the same text twice gives different bytes, so sealed results are compared by their length.
fn same_result(stored: Option<&str>, again: Option<&str>) -> bool {
    match (stored, again) {
        (Some(stored), Some(again)) if sealing::is_sealed(stored) && sealing::is_sealed(again) => {
            stored.len() == again.len()
        }
        _ => stored == again,
    }
}

/// An attempt as every interface shows it.
impl Serialize for Attempt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.reads().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failure::fingerprint::fingerprint;
    use crate::failure::{Check, DecisionInput, Failure, HookAnswer, TerminalReason, decide};
    use crate::id::JobId;
    use crate::job::{Policy, Record, Spec};

    const AT: Timestamp = Timestamp::from_micros(1_000);

    fn spec() -> Spec {
        Spec::new(JobId::from_u128(1), "work", "{}")
    }

    fn ending(cause: Cause, verdict: Verdict) -> Ending {
        let mut decision = Decision::started_for(cause);
        decision.verdict = verdict;
        Ending::plain(spec().header(), cause, decision)
    }

    fn failed(cause: Cause, verdict: Verdict, message: &str) -> Ending {
        let fingerprint = fingerprint("work", "TestError", message);
        let failure = FailureRecord { error_type: "TestError".into(), message: message.into(), fingerprint };
        Ending { failure: Some(failure), ..ending(cause, verdict) }
    }

    fn done(result: &str) -> Ending {
        Ending { result: Some(result.into()), ..ending(Cause::Succeeded, Verdict::Succeed) }
    }

    fn retry(millis: u64) -> Verdict {
        Verdict::Retry { delay: Duration::from_millis(millis) }
    }

    fn later(millis: u64) -> Verdict {
        Verdict::Defer { delay: Duration::from_millis(millis) }
    }

    fn cancel(reason: &str) -> Verdict {
        Verdict::Cancel { reason: reason.into() }
    }

    /// A failed run that asked for this wait, if it did, as the pipeline decides about it.
    fn asking(millis: Option<u64>) -> Ending {
        asking_with(millis, 3)
    }

    fn asking_with(millis: Option<u64>, retries: u32) -> Ending {
        let mut failure = Failure::new(Cause::Error, "TestError", "e");
        failure.retry_in = millis.map(Duration::from_millis);
        let situation = DecisionInput {
            policy: &Policy::default().retries(retries),
            attempt: 0,
            crashes: 0,
            deferrals: 0,
            hook: HookAnswer::default(),
            rule: None,
            jitter: 0.5,
            longest_delay: Duration::from_secs(3_600),
        };
        Ending { decision: decide(&failure, &situation), ..failed(Cause::Error, retry(0), "e") }
    }

    /// The ledger row of a run that ended as `first`.
    fn row(first: &Ending) -> (Attempt, Lease) {
        let (spec, worker) = (spec(), WorkerId::from_u128(9));
        let mut record = Record::new(&spec, AT);
        record.claim(worker, Fence(7), AT, true).expect("it is pending");
        let lease = Lease { job: spec.id, worker, fence: Fence(7) };
        let run = record.finish(&spec, &lease, first, AT).expect("held").expect("it had started");
        (run, lease)
    }

    #[test]
    fn the_same_ending_is_answered_again_and_no_other() {
        // L5
        let dead = || Verdict::Dead { reason: TerminalReason::RetryExhausted };
        let logged = Ending { output: Some("tried".into()), ..done("1") };
        let warned =
            Ending { warning: Some("too large".into()), ..ending(Cause::Succeeded, Verdict::Succeed) };
        let sealed = |text: &str| done(&format!("{{\"$sealed\":\"{text}\"}}"));
        let error = |verdict, message| failed(Cause::Error, verdict, message);
        let table: [(Ending, Ending, Option<State>); 20] = [
            (done("1"), done("1"), Some(State::Succeeded)),
            (done("1"), logged, Some(State::Succeeded)),
            (done("1"), done("2"), None),
            (done("1"), warned, None),
            (done("1"), error(retry(1), "e"), None),
            (sealed("abc"), sealed("xyz"), Some(State::Succeeded)),
            (sealed("abc"), sealed("longer"), None),
            (sealed("abc"), done("1"), None),
            (error(retry(5), "e"), error(retry(9), "e"), Some(State::Pending)),
            (error(retry(5), "e"), error(dead(), "e"), Some(State::Pending)),
            (error(dead(), "e"), error(dead(), "e"), Some(State::Failed)),
            (error(retry(5), "e"), error(retry(5), "another"), None),
            (error(retry(5), "e"), failed(Cause::Timeout, retry(5), "e"), None),
            (error(retry(5), "e"), done("1"), None),
            (ending(Cause::Snoozed, later(5)), ending(Cause::Snoozed, later(5)), Some(State::Pending)),
            (ending(Cause::Snoozed, later(5)), ending(Cause::Snoozed, later(6)), None),
            (
                ending(Cause::RateLimited, later(5)),
                ending(Cause::RateLimited, later(5)),
                Some(State::Pending),
            ),
            (ending(Cause::RateLimited, later(5)), ending(Cause::RateLimited, later(6)), None),
            (
                ending(Cause::Canceled, cancel("a")),
                ending(Cause::Canceled, cancel("a")),
                Some(State::Canceled),
            ),
            (ending(Cause::Canceled, cancel("a")), ending(Cause::Canceled, cancel("b")), None),
        ];
        for (at, (first, again, answer)) in table.into_iter().enumerate() {
            let (run, lease) = row(&first);
            assert_eq!(run.answer_again(&lease, &again).ok(), answer, "row {at}");
            let other = [
                Lease { fence: Fence(8), ..lease },
                Lease { fence: Fence(6), ..lease },
                Lease { worker: WorkerId::from_u128(8), ..lease },
            ];
            for lease in other {
                assert!(run.answer_again(&lease, &first).is_err(), "row {at}, by {lease:?}");
            }
        }
    }

    #[test]
    fn a_retry_that_was_asked_for_is_the_same_when_the_same_wait_was() {
        // L5, F9, F18, F19
        let moved = |millis| {
            let mut ending = asking(millis);
            ending.decision.smear(Duration::from_secs(60), "too many retries at once");
            ending
        };
        let ruled = |millis| {
            let mut ending = asking(millis);
            ending.decision.trace.push(Check { check: "rule".into(), answer: "`slow`: retry".into() });
            ending
        };
        let rejected = |millis| ending(Cause::Rejected, later(millis));
        let dead = |millis| asking_with(millis, 0);
        for (at, (first, again, same)) in [
            (asking(Some(5_000)), asking(Some(5_000)), true),
            (asking(Some(5_000)), asking(Some(7_000)), false),
            (asking(Some(5_000)), asking(Some(5_001)), false),
            (asking(Some(5_000)), asking(None), false),
            (asking(None), asking(Some(5_000)), false),
            (asking(None), asking(None), true),
            (moved(Some(5_000)), asking(Some(5_000)), true),
            (moved(Some(5_000)), moved(Some(5_000)), true),
            (moved(Some(5_000)), asking(Some(7_000)), false),
            (moved(None), asking(None), true),
            // A rule, or the end of all attempts, makes another wait of it, and no other report.
            (ruled(Some(5_000)), asking(Some(5_000)), true),
            (ruled(Some(5_000)), asking(Some(7_000)), false),
            (asking(Some(5_000)), ruled(Some(7_000)), false),
            (asking(Some(5_000)), dead(Some(5_000)), true),
            (asking(Some(5_000)), dead(Some(7_000)), false),
            // Its backoff decides anew each time.
            (rejected(5_000), rejected(7_000), true),
        ]
        .into_iter()
        .enumerate()
        {
            let (run, lease) = row(&first);
            let expected = same.then_some(State::Pending);
            assert_eq!(run.answer_again(&lease, &again).ok(), expected, "row {at}");
        }
    }

    #[test]
    fn what_a_person_canceled_is_not_what_the_run_said() {
        // L5, L7
        let own = ending(Cause::Canceled, cancel("enough"));
        let (run, lease) = row(&own);
        let by_a_person = Attempt { decision: Some(Decision::canceled("enough")), ..run };
        assert!(by_a_person.answer_again(&lease, &own).is_err());
    }
}

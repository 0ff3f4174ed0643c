//! Endings on their way into the store; those that it refuses for good are told apart from the others (F17, C7).
//!
//! One row that cannot be written fails the whole transaction, every time. The batch is tried in halves until that one
//! is alone; its run then ends by a fault of the engine, which nobody is charged for, and the others go on.

use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::failure::{Cause, Decision, Verdict};
use backstop_core::job::{Ending, FailureRecord, Stale, State};
use backstop_store::{Answer, Error as StoreError, Finish};

/// True when the store refuses the same call every time: something in it cannot be written, or cannot be read.
pub(crate) const fn refused_for_good(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Backend { .. })
}

/// The end of the same run by a fault of the engine, without anything that its own end would have stored.
pub(crate) fn faulty(finish: &Finish, error: &StoreError) -> Finish {
    let own = &finish.ending;
    let message = format!("the store refused to write the end of this run ({})", error.code());
    let fingerprint = fingerprint(&own.job.kind, "EngineFault", &message);
    let mut ending = Ending::plain(own.job.clone(), Cause::EngineFault, Decision::engine_fault(error.code()));
    ending.code_version.clone_from(&own.code_version);
    ending.failure = Some(FailureRecord { error_type: "EngineFault".to_owned(), message, fingerprint });
    Finish { lease: finish.lease, ending }
}

/// Writes endings, and those that hold others up by themselves. Answers what was written of each, in order, and what
/// the store says to it; one that cannot even end by a fault stays as it is, and is answered as stale.
///
/// # Errors
/// When the store is away, and when it refuses whatever is tried: then it is not one row's fault, and all are kept.
pub(crate) async fn write_apart<'s>(
    endings: Vec<Finish>,
    write: impl Fn(Vec<Finish>) -> Answer<'s, Vec<Result<State, Stale>>>,
) -> Result<Vec<(Finish, Result<State, Stale>)>, StoreError> {
    let mut written: Vec<(Finish, Result<State, Stale>)> = Vec::with_capacity(endings.len());
    let (mut batches, mut accepted) = (vec![endings], false);
    while let Some(mut batch) = batches.pop() {
        if batch.is_empty() {
            continue;
        }
        match write(batch.clone()).await {
            Ok(answers) => {
                accepted = true;
                written.extend(batch.into_iter().zip(answers));
            }
            Err(error) if !refused_for_good(&error) => return Err(error),
            Err(error) if batch.len() == 1 => {
                for finish in batch {
                    match alone(&finish, &error, &write).await? {
                        Some(fault) => {
                            accepted = true;
                            written.push(fault);
                        }
                        // Nothing could be written yet: what is to come will tell whether anything can.
                        None if !accepted && (batches.is_empty() || !written.is_empty()) => {
                            return Err(error);
                        }
                        None => written.push((finish.clone(), Err(stale(&finish)))),
                    }
                }
            }
            Err(_) => {
                let rest = batch.split_off(batch.len() / 2);
                batches.extend([rest, batch]);
            }
        }
    }
    Ok(written)
}

const fn stale(finish: &Finish) -> Stale {
    Stale { job: finish.lease.job, fence: finish.lease.fence }
}

/// Ends a run by a fault, and answers what was written; none when the store refuses that too.
async fn alone<'s>(
    finish: &Finish,
    error: &StoreError,
    write: &impl Fn(Vec<Finish>) -> Answer<'s, Vec<Result<State, Stale>>>,
) -> Result<Option<(Finish, Result<State, Stale>)>, StoreError> {
    let lease = finish.lease;
    tracing::error!(job = %lease.job, fence = %lease.fence, %error,
        "the store refuses the end of a run: it ends by a fault of the engine instead");
    let fault = faulty(finish, error);
    match write(vec![fault.clone()]).await {
        Ok(answers) => {
            let answer = answers.into_iter().next().unwrap_or(Err(stale(finish)));
            Ok(Some((fault, answer)))
        }
        Err(error) if refused_for_good(&error) => {
            tracing::error!(job = %lease.job, %error, "the store refuses that too: the job stays as it is");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// One line for what a person should see: a dead letter is critical, a stale write is a warning.
pub(crate) fn log_end(finish: &Finish, stale: bool) {
    let job = &finish.ending.job;
    let lease = finish.lease;
    if stale {
        tracing::warn!(job = %job.id, kind = %job.kind, fence = %lease.fence,
            "lease lost: the result of this run was discarded");
    } else if let Verdict::Dead { reason } = &finish.ending.decision.verdict {
        let error = finish.ending.failure.as_ref().map_or("", |failure| failure.message.as_str());
        // Why its author marked the error as permanent (F6).
        let why = finish.ending.decision.permanent_because().unwrap_or("");
        tracing::error!(job = %job.id, kind = %job.kind, queue = %job.queue, %reason, error, why,
            "a job became a dead letter");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use backstop_core::job::{Header, Spec};
    use backstop_core::{Fence, JobId, Lease, WorkerId};

    use super::*;

    fn finish(number: u128) -> Finish {
        let spec = Spec::new(JobId::from_u128(number), "work", "{}");
        let header: Header = spec.header();
        let lease = Lease { job: spec.id, worker: WorkerId::from_u128(1), fence: Fence(1) };
        Finish { lease, ending: Ending::plain(header, Cause::Succeeded, Decision::succeeded()) }
    }

    fn refusal() -> StoreError {
        StoreError::Backend { location: "here".into(), problem: "no such row".into(), source: None }
    }

    /// Writes 16 endings of which `bad` are refused, and `worse` even as a fault; answers the cause of each that was
    /// written, and how many calls that took.
    async fn play(bad: &[u128], worse: &[u128]) -> (Vec<Option<Cause>>, usize) {
        let calls = RefCell::new(0);
        let number = |finish: &Finish| u128::from_be_bytes(*finish.lease.job.as_bytes());
        let write = |batch: Vec<Finish>| -> Answer<'_, Vec<Result<State, Stale>>> {
            *calls.borrow_mut() += 1;
            let refused = batch.iter().any(|finish| {
                let own = finish.ending.cause != Cause::EngineFault && bad.contains(&number(finish));
                own || worse.contains(&number(finish))
            });
            let state = |finish: &Finish| {
                if finish.ending.cause == Cause::EngineFault { State::Pending } else { State::Succeeded }
            };
            let answers = batch.iter().map(|finish| Ok(state(finish))).collect();
            Box::pin(async move { if refused { Err(refusal()) } else { Ok(answers) } })
        };
        let written = write_apart((1..=16).map(finish).collect(), write).await.expect("the store is there");
        assert_eq!(
            written.iter().map(|(finish, _)| number(finish)).collect::<Vec<_>>(),
            (1..=16).collect::<Vec<_>>()
        );
        let causes = written.into_iter().map(|(finish, answer)| answer.ok().map(|_| finish.ending.cause));
        let causes = causes.collect();
        (causes, calls.into_inner())
    }

    #[tokio::test]
    async fn one_that_cannot_be_written_holds_up_nobody() {
        // F17, C7
        let (causes, calls) = play(&[], &[]).await;
        assert_eq!((causes, calls), (vec![Some(Cause::Succeeded); 16], 1));
        let (causes, calls) = play(&[6, 16], &[]).await;
        for (number, cause) in (1..).zip(causes) {
            let expected = if [6, 16].contains(&number) { Cause::EngineFault } else { Cause::Succeeded };
            assert_eq!(cause, Some(expected), "{number}");
        }
        assert!(calls <= 20, "halves, not one by one: {calls}");
        let (causes, _) = play(&[3], &[3]).await;
        assert_eq!(causes.iter().filter(|cause| cause.is_none()).count(), 1);
        assert_eq!(causes[2], None);
    }

    #[tokio::test]
    async fn a_store_that_refuses_everything_loses_nothing() {
        // F17
        let calls = RefCell::new(0);
        let write = |_: Vec<Finish>| -> Answer<'_, Vec<Result<State, Stale>>> {
            *calls.borrow_mut() += 1;
            Box::pin(async { Err(refusal()) })
        };
        for count in [1, 2, 16] {
            let answer = write_apart((1..=count).map(finish).collect(), write).await;
            assert!(answer.is_err(), "all {count} are kept");
        }
        assert!(calls.into_inner() < 24, "and not every one was tried");
    }

    #[tokio::test]
    async fn a_store_that_is_away_is_asked_again_with_all_of_it() {
        // F17
        let away = |_| -> Answer<'_, Vec<Result<State, Stale>>> {
            let problem = "gone".to_owned();
            Box::pin(async move {
                Err(StoreError::Unavailable { location: "here".into(), problem, source: None })
            })
        };
        let answer = write_apart(vec![finish(1), finish(2)], away).await;
        assert!(answer.expect_err("it is away").is_transient());
    }
}

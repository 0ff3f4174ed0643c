//! Cases about a run: its start, its end by every cause and verdict, and leases that are stale.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Cause, Decision, TerminalReason, Verdict};
use backstop_core::job::{Ending, NoteError, Progress, State};
use backstop_core::{Lease, WorkerId};

use super::build::{ending, ends_by, failure, handed_back, id, job, other_fence, success, worker_id};
use super::fixture::{Fixture, LEASE, numbers, secs};
use crate::{Finish, JobFilter, Note};

/// C5: the start of a prefetched job is counted before its handler runs, once.
pub async fn a_start_is_counted_once(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    let taken = w.prefetch(worker).await;
    assert_eq!(w.record(id(1)).await.runs, 0);
    w.pass(secs(3));
    w.start(taken.lease).await.expect("held");
    let started_at = w.now();
    w.pass(secs(3));
    w.start(taken.lease).await.expect("held");
    let record = w.record(id(1)).await;
    assert_eq!((record.runs, record.hold.and_then(|hold| hold.started_at)), (1, Some(started_at)));
}

/// L5: every verb about a run refuses a lease with another fence, another worker or another job.
pub async fn a_stale_lease_changes_nothing(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.worker(2).await;
    let before = w.detail(id(1)).await;
    let wrong = [
        other_fence(taken.lease, 1),
        other_fence(taken.lease, -1),
        Lease { worker: worker_id(2), ..taken.lease },
        Lease { worker: worker_id(7), ..taken.lease },
        Lease { job: id(44), ..taken.lease },
    ];
    for lease in wrong {
        let stale = w.start(lease).await.expect_err("stale");
        assert_eq!((stale.job, stale.fence), (lease.job, lease.fence));
        assert_eq!(w.try_finish(lease, success(&taken)).await, Err(stale));
        assert_eq!(annotate(&w, lease, 50).await, Err(stale.into()));
    }
    assert_eq!(w.detail(id(1)).await, before);
    assert!(w.runs(id(1)).await.is_empty());
}

async fn annotate(w: &Fixture, lease: Lease, percent: u8) -> Result<(), NoteError> {
    let note = Note::progress(lease, Progress { percent, note: "on its way".into() });
    w.store.annotate(vec![note]).await.expect("annotate").remove(0)
}

/// L5: the lease of an earlier hold is stale, also when the same worker holds the job again.
pub async fn an_earlier_hold_is_stale(w: Fixture) {
    let first = w.running(job(1)).await;
    w.finish(&first, ends_by(&first, Cause::Error)).await;
    w.try_finish(first.lease, success(&first)).await.expect_err("it has ended");
    let second = w.take(first.lease.worker).await;
    w.try_finish(first.lease, success(&first)).await.expect_err("another hold");
    assert_eq!(w.state(id(1)).await, State::Running);
    w.finish(&second, success(&second)).await;
}

/// L5, L15: a worker that let its lease run out may not write, even when nobody has taken its jobs yet.
pub async fn a_silent_worker_may_not_write(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.pass(LEASE);
    w.start(taken.lease).await.expect_err("run out");
    w.try_finish(taken.lease, success(&taken)).await.expect_err("run out");
    annotate(&w, taken.lease, 1).await.expect_err("run out");
    assert_eq!(w.state(id(1)).await, State::Running);
}

/// L5: a stale item spoils nothing for the others, and the same lease twice ends one run.
pub async fn each_ending_stands_for_itself(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=3).map(job)).await;
    let taken = w.claim(worker, 3).await;
    let batch = [
        Finish { lease: taken[0].lease, ending: success(&taken[0]) },
        Finish { lease: other_fence(taken[1].lease, 5), ending: success(&taken[1]) },
        Finish { lease: taken[0].lease, ending: ends_by(&taken[0], Cause::Permanent) },
        Finish { lease: taken[2].lease, ending: ends_by(&taken[2], Cause::Permanent) },
    ];
    let answers = w.store.finish(batch.to_vec()).await.expect("finish");
    assert_eq!((answers[0], answers[3]), (Ok(State::Succeeded), Ok(State::Failed)));
    assert!(answers[1].is_err() && answers[2].is_err());
    assert_eq!(w.state(id(1)).await, State::Succeeded);
    assert_eq!(w.state(id(2)).await, State::Running);
    assert_eq!(w.runs(id(1)).await.len(), 1);
}

/// L6: success stores start, end, queue wait and the result.
pub async fn success_stores_times_and_result(w: Fixture) {
    let submitted = w.now();
    w.submit(job(1)).await;
    w.pass(secs(2));
    let worker = w.worker(1).await;
    let taken = w.take(worker).await;
    w.pass(secs(5));
    let ending = Ending { result: Some("{\"sum\": 3}".into()), ..success(&taken) };
    assert_eq!(w.finish(&taken, ending).await, State::Succeeded);
    let view = w.detail(id(1)).await.view;
    assert_eq!(view.result.as_deref(), Some("{\"sum\": 3}"), "as the handler wrote it");
    assert_eq!((view.record.finished_at, view.record.hold), (Some(w.now()), None));
    let run = w.runs(id(1)).await.remove(0);
    assert_eq!((run.due_at, run.started_at, run.finished_at), (submitted, submitted.after(secs(2)), w.now()));
    assert_eq!((run.number, run.worker, run.fence), (1, worker, taken.lease.fence));
    assert_eq!((run.cause, run.decision, run.code_version.as_deref()), (Cause::Succeeded, None, Some("v1")));
    assert_eq!(view.started_at, Some(run.started_at));
}

/// L6: a warning leaves the job succeeded and is shown with it.
pub async fn a_warning_is_kept(w: Fixture) {
    let taken = w.running(job(1)).await;
    let ending = Ending { warning: Some("the result was too large".into()), ..success(&taken) };
    assert_eq!(w.finish(&taken, ending).await, State::Succeeded);
    let view = w.detail(id(1)).await.view;
    assert_eq!((view.warning.as_deref(), view.result), (Some("the result was too large"), None));
}

/// L6: what the latest run returned is shown as the job's result only once the job has ended.
pub async fn a_result_is_shown_once_the_job_has_ended(w: Fixture) {
    let taken = w.running(job(1)).await;
    let partly = |ending| Ending { result: Some("\"partly\"".into()), warning: Some("w".into()), ..ending };
    w.finish(&taken, partly(ends_by(&taken, Cause::Error))).await;
    let view = w.detail(id(1)).await.view;
    assert_eq!((view.result, view.warning), (None, None));
    assert_eq!(w.runs(id(1)).await[0].result.as_deref(), Some("\"partly\""), "but the ledger has it");
    let taken = w.take(taken.lease.worker).await;
    w.finish(&taken, partly(ends_by(&taken, Cause::Error))).await;
    let view = w.detail(id(1)).await.view;
    assert_eq!((view.result.as_deref(), view.warning.as_deref()), (Some("\"partly\""), Some("w")));
}

/// F4, F9: a failure goes back to pending; attempt and due time are stored with the end of the run.
pub async fn a_failure_is_retried_later(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_retries = 3)).await;
    let failed = failure(Cause::Error).retry_in(Duration::from_millis(1_500));
    assert_eq!(w.finish(&taken, ending(&taken, &failed)).await, State::Pending);
    let detail = w.detail(id(1)).await;
    let record = &detail.view.record;
    assert_eq!((record.attempt, record.runs, record.hold), (1, 1, None));
    assert_eq!(record.run_at, w.now().after(Duration::from_millis(1_500)), "F9: what was asked for wins");
    assert_eq!(detail.view.last_failure.as_ref().map(|f| f.message.as_str()), Some("it ended by error"));
    assert_eq!((detail.view.result, record.last_failed_run), (None, Some(1)));
    assert!(w.claim(taken.lease.worker, 1).await.is_empty());
    w.pass(Duration::from_millis(1_500));
    assert_eq!(numbers(&w.claim(taken.lease.worker, 1).await), [1]);
}

/// F5: n retries are n + 1 runs, and no retries are one.
pub async fn n_retries_are_n_plus_one_runs(w: Fixture) {
    for (number, retries) in [(1, 0), (2, 1), (3, 4)] {
        let mut taken = w.running(job(number).policy(|policy| policy.max_retries = retries)).await;
        let mut runs = 1;
        while w.finish(&taken, ends_by(&taken, Cause::Error)).await == State::Pending {
            taken = w.take(taken.lease.worker).await;
            runs += 1;
        }
        let record = w.record(id(number)).await;
        assert_eq!((runs, record.runs, record.attempt), (retries + 1, retries + 1, retries + 1));
        assert_eq!(record.reason, Some(TerminalReason::RetryExhausted));
        assert_eq!(w.runs(id(number)).await.len(), usize::try_from(retries).expect("small") + 1);
    }
}

/// F2, F3: each run has one cause in the ledger, and each cause draws on its own budget.
pub async fn every_cause_draws_on_its_own_budget(w: Fixture) {
    for (number, cause) in (1..).zip(Cause::ALL) {
        let taken = w.running(job(number)).await;
        let ends = if *cause == Cause::Succeeded { success(&taken) } else { ends_by(&taken, *cause) };
        let state = w.finish(&taken, ends).await;
        let detail = w.detail(id(number)).await;
        assert_eq!(detail.counters.iter().collect::<Vec<_>>(), [(cause, &1)]);
        let record = &detail.view.record;
        let charged = u32::from(cause.charges_attempt());
        let crashed = u32::from(*cause == Cause::Crash);
        let blameless = !matches!(cause, Cause::Succeeded | Cause::Canceled) && charged + crashed == 0;
        let counts = (record.attempt, record.crashes, record.deferrals);
        assert_eq!(counts, (charged, crashed, u32::from(blameless)), "{cause}");
        let run = w.runs(id(number)).await.remove(0);
        assert_eq!((run.cause, run.failure.is_some()), (*cause, cause.is_failure()), "{cause}");
        if state == State::Pending {
            w.cancel(id(number)).await;
        }
    }
}

/// F12, F13: a dead letter has its reason, its error and its end, and the ledger the checks that led there.
pub async fn a_dead_letter_keeps_its_evidence(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_retries = 9)).await;
    let failed = failure(Cause::Permanent).because("no such address");
    let ends = ending(&taken, &failed);
    let decision = ends.decision.clone();
    assert_eq!(w.finish(&taken, ends).await, State::Failed);
    let view = w.detail(id(1)).await.view;
    assert_eq!(view.record.reason, Some(TerminalReason::NonRetryable));
    assert_eq!((view.record.finished_at, view.record.attempt), (Some(w.now()), 1));
    assert_eq!(view.last_failure.map(|f| f.error_type), Some("TestError".into()));
    assert_eq!(w.runs(id(1)).await[0].decision, Some(decision), "F20: every check, in order");
}

/// F13: every terminal reason is stored and found by.
pub async fn every_terminal_reason_is_kept(w: Fixture) {
    for (number, reason) in (1..).zip(TerminalReason::ALL) {
        let taken = w.running(job(number)).await;
        let decision = Decision::plain(Verdict::Dead { reason: *reason });
        let ends = Ending { decision, ..ends_by(&taken, Cause::Error) };
        assert_eq!(w.finish(&taken, ends).await, State::Failed);
        assert_eq!(w.record(id(number)).await.reason, Some(*reason));
        let filter = JobFilter { reason: Some(*reason), ..JobFilter::default() };
        assert_eq!(w.listed(filter).await, [id(number)]);
    }
}

/// L7: a handler may call its own job off.
pub async fn a_run_may_cancel_its_job(w: Fixture) {
    let taken = w.running(job(1)).await;
    assert_eq!(w.finish(&taken, ends_by(&taken, Cause::Canceled)).await, State::Canceled);
    let record = w.record(id(1)).await;
    assert_eq!(record.cancel_reason.as_deref(), Some("it ended by canceled"));
    assert_eq!((record.finished_at, record.attempt), (Some(w.now()), 0));
}

/// F3: a snoozed job comes back when it asked to, uncharged.
pub async fn a_snoozed_job_comes_back_uncharged(w: Fixture) {
    let taken = w.running(job(1)).await;
    let snooze = failure(Cause::Snoozed).retry_in(secs(60));
    assert_eq!(w.finish(&taken, ending(&taken, &snooze)).await, State::Pending);
    let record = w.record(id(1)).await;
    assert_eq!((record.run_at, record.attempt, record.deferrals), (w.now().after(secs(60)), 0, 1));
}

/// C2: a job that was claimed and never started goes back without a run, a row or blame.
pub async fn an_unstarted_job_goes_back_without_blame(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    let taken = w.prefetch(worker).await;
    w.told.take();
    assert_eq!(w.finish(&taken, handed_back(&taken)).await, State::Pending);
    let record = w.record(id(1)).await;
    assert_eq!((record.runs, record.attempt, record.crashes, record.deferrals), (0, 0, 0, 0));
    assert!(w.runs(id(1)).await.is_empty() && w.told.take().is_empty());
}

/// C2: whatever the ending of an unstarted hold says, no run is made up for it.
pub async fn an_unstarted_hold_leaves_no_incident(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    let taken = w.prefetch(worker).await;
    assert_eq!(w.finish(&taken, ends_by(&taken, Cause::Permanent)).await, State::Failed);
    assert!(w.runs(id(1)).await.is_empty());
    assert!(w.store.incidents(10).await.expect("incidents").is_empty());
    assert_eq!(w.detail(id(1)).await.view.last_failure, None);
}

/// L6: success forgets the failures before it, but the ledger does not.
pub async fn success_forgets_the_last_failure(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    let taken = w.take(taken.lease.worker).await;
    w.finish(&taken, success(&taken)).await;
    let view = w.detail(id(1)).await.view;
    assert_eq!((view.last_failure, view.record.last_failed_run), (None, None));
    let runs = w.runs(id(1)).await;
    assert_eq!(
        runs.iter().map(|run| (run.number, run.cause)).collect::<Vec<_>>(),
        [(2, Cause::Succeeded), (1, Cause::Error)]
    );
}

/// L19: a job that waits again has its patience counted again.
pub async fn patience_counts_anew_after_a_retry(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_wait = Some(secs(10)))).await;
    w.pass(secs(20));
    let failed = failure(Cause::Error).retry_in(secs(5));
    w.finish(&taken, ending(&taken, &failed)).await;
    assert_eq!(w.record(id(1)).await.expires_at, Some(w.now().after(secs(15))));
}

/// F15: what a run printed and returned is kept with that run.
pub async fn output_is_kept_with_its_run(w: Fixture) {
    let taken = w.running(job(1)).await;
    let first = Ending { output: Some("first try\n".into()), ..ends_by(&taken, Cause::Error) };
    w.finish(&taken, first).await;
    let taken = w.take(taken.lease.worker).await;
    let second: Arc<str> = "null".into();
    let ends = Ending { result: Some(second), output: Some(String::new()), ..success(&taken) };
    w.finish(&taken, ends).await;
    let runs = w.runs(id(1)).await;
    assert_eq!((runs[0].output.as_deref(), runs[0].result.as_deref()), (Some(""), Some("null")));
    assert_eq!((runs[1].output.as_deref(), runs[1].result.as_deref()), (Some("first try\n"), None));
}

/// L5: progress is kept by lease, replaced by what comes later, and stays after the end.
pub async fn progress_is_kept(w: Fixture) {
    let worker: WorkerId = w.worker(1).await;
    w.submit(job(1)).await;
    let taken = w.prefetch(worker).await;
    annotate(&w, taken.lease, 1).await.expect_err("its run has not started");
    w.start(taken.lease).await.expect("held");
    annotate(&w, taken.lease, 10).await.expect("held");
    annotate(&w, taken.lease, 60).await.expect("held");
    w.finish(&taken, success(&taken)).await;
    annotate(&w, taken.lease, 99).await.expect_err("ended");
    assert_eq!(w.record(id(1)).await.progress, Some(Progress { percent: 60, note: "on its way".into() }));
}

/// E7, F15, L5: lines are kept by lease and go into the ledger with the end of their run, whoever ends it.
pub async fn lines_of_a_run_are_kept(w: Fixture) {
    let log = async |lease, line: &str| {
        let note = Note::log(lease, vec![line.to_owned()], 100);
        w.store.annotate(vec![note]).await.expect("annotate").remove(0)
    };
    let taken = w.running(job(1).policy(|policy| policy.max_retries = 3)).await;
    log(taken.lease, "one").await.expect("held");
    log(taken.lease, "two").await.expect("held");
    let mut ending = ends_by(&taken, Cause::Error);
    ending.output = Some("last\n".to_owned());
    w.finish(&taken, ending).await;
    log(taken.lease, "late").await.expect_err("ended");
    assert_eq!(w.record(id(1)).await.marks, None, "the next run begins with nothing");
    let again = w.take(taken.lease.worker).await;
    log(taken.lease, "stale").await.expect_err("another hold");
    log(again.lease, "three").await.expect("held");
    w.cancel(id(1)).await;
    let said: Vec<_> = w.runs(id(1)).await.into_iter().map(|run| run.output.unwrap_or_default()).collect();
    assert_eq!(said, ["three\n", "one\ntwo\nlast\n"]);
}

/// L5: records, holds and ledgers are there after the store was closed and opened.
pub async fn runs_survive_a_reopened_store(w: Fixture) {
    let taken = w.running(job(1).policy(|policy| policy.max_retries = 3)).await;
    w.finish(&taken, ends_by(&taken, Cause::Timeout)).await;
    let taken = w.take(taken.lease.worker).await;
    annotate(&w, taken.lease, 30).await.expect("held");
    let (detail, runs) = (w.detail(id(1)).await, w.runs(id(1)).await);
    let incidents = w.store.incidents(10).await.expect("incidents");
    let w = w.reopen().await;
    assert_eq!((w.detail(id(1)).await, w.runs(id(1)).await), (detail, runs));
    assert_eq!(w.store.incidents(10).await.expect("incidents"), incidents);
    assert_eq!(w.finish(&taken, success(&taken)).await, State::Succeeded);
}

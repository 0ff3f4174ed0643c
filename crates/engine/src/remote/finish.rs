//! Ends of runs that remote workers report, in batches; one that is refused never holds up another.

use std::sync::Arc;

use backstop_core::failure::{Cause, Failure, HookAnswer};
use backstop_core::job::{Attempt, Ending, Job, JobDetail, Record, Stale, State};
use backstop_store::{Error as StoreError, Finish, PageRequest};

use super::{Ended, Grant, Remote};
use crate::context::Output;
use crate::outcome::{Failed, Outcome, Reply, classify};
use crate::worker::conclude::Happened;
use crate::worker::end::{OVERTIME, end};
use crate::worker::report::note;

/// How many runs of a job are looked through for one that a repeated report speaks of.
const RUNS_LOOKED_AT: usize = 50;

/// A run's end as a remote worker reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The right to write about the run.
    pub grant: Grant,
    /// How it ended.
    pub ended: Ended,
    /// What it logged, line by line.
    pub logs: Vec<String>,
}

/// An ending on its way into the store.
pub(super) struct Report {
    pub(super) finish: Finish,
    /// True when this was the job's first run: retries are a share of those (F19).
    pub(super) first: bool,
}

impl Remote {
    /// Ends runs. One answer each, in order: where the job is now, or that the lease is no longer held.
    ///
    /// A report that comes again is answered as before when it is certain that the run was ended by this very lease.
    ///
    /// # Errors
    /// When the store is away. Then the same call can be made again.
    pub async fn finish(&self, results: Vec<Finished>) -> Result<Vec<Result<State, Stale>>, StoreError> {
        let store = self.engine.store();
        let grants: Vec<Grant> = results.iter().map(|result| result.grant.clone()).collect();
        let details = store.jobs(grants.iter().map(|grant| grant.lease.job).collect()).await?;
        let mut endings = Vec::new();
        let mut answers: Vec<Option<State>> = vec![None; results.len()];
        let mut places = Vec::new();
        for (place, (result, detail)) in results.into_iter().zip(details).enumerate() {
            if let Some(detail) = held(&result.grant, detail) {
                endings.push(self.ending(result, detail).await);
                places.push(place);
            }
        }
        for (place, answer) in places.into_iter().zip(self.write(endings).await?) {
            answers[place] = answer.ok();
        }
        for (grant, answer) in grants.iter().zip(&mut answers) {
            if answer.is_none() {
                *answer = self.already(grant).await?;
            }
        }
        self.let_go(&grants).await;
        let stale = |grant: &Grant| Stale { job: grant.lease.job, fence: grant.lease.fence };
        Ok(grants.iter().zip(answers).map(|(grant, answer)| answer.ok_or_else(|| stale(grant))).collect())
    }

    /// Retires the batches whose last job is among these.
    pub(super) async fn let_go<'a>(&self, gone: impl IntoIterator<Item = &'a Grant>) {
        for batch in self.engine.inner.remotes.batches.gone(gone) {
            // One that stays because the store is away runs out by its lease.
            let _ = self.engine.store().retire(batch).await;
        }
    }

    /// Writes endings as every worker does: retries get their places first (F19), first runs are counted after.
    pub(super) async fn write(&self, reports: Vec<Report>) -> Result<Vec<Result<State, Stale>>, StoreError> {
        if reports.is_empty() {
            return Ok(Vec::new());
        }
        let (mut endings, first): (Vec<Finish>, Vec<bool>) =
            reports.into_iter().map(|report| (report.finish, report.first)).unzip();
        let inner = &self.engine.inner;
        inner.budgets.tell(&*inner.store, &inner.config).await;
        inner.budgets.smear(&*inner.store, &inner.config, &mut endings).await;
        let answers = inner.store.finish(endings.clone()).await?;
        for ((finish, first), answer) in endings.iter().zip(first).zip(&answers) {
            note(finish, answer.is_err());
            if first && answer.is_ok() {
                inner.budgets.note_first_run(&finish.ending.job.kind);
            }
        }
        Ok(answers)
    }

    async fn ending(&self, result: Finished, detail: JobDetail) -> Report {
        let Finished { grant, ended, logs } = result;
        // What was logged on the way is kept already and counts.
        let limit = self.engine.config().limits.output_bytes;
        let mut output = Output::new(limit.saturating_sub(detail.view.record.logged_bytes()));
        logs.iter().for_each(|line| output.push(line));
        let (job, record) = (Arc::new(detail.view.job), detail.view.record);
        let first = record.runs == 1;
        let ending = self.end(job, record, reply(ended), output.text(), grant.code_version).await;
        Report { finish: Finish { lease: grant.lease, ending }, first }
    }

    pub(super) async fn end(
        &self,
        job: Arc<Job>,
        record: Record,
        reply: Reply,
        output: Option<String>,
        code_version: Option<Arc<str>>,
    ) -> Ending {
        let happened = Happened { job, record, reply, output, code_version };
        // The retry policy of a kind is code of its worker, which has had its say in the outcome.
        end(&self.engine, happened, |_, _| HookAnswer::default()).await
    }

    /// Where the job is, when the run that this lease held has ended by its own report.
    async fn already(&self, grant: &Grant) -> Result<Option<State>, StoreError> {
        let store = self.engine.store();
        let runs = store.attempts(grant.lease.job, PageRequest::first(RUNS_LOOKED_AT)).await?;
        if !runs.items.iter().any(|run| is_own(run, grant)) {
            return Ok(None);
        }
        let detail = store.jobs(vec![grant.lease.job]).await?.pop().flatten();
        Ok(detail.map(|detail| detail.view.state()))
    }
}

/// The job, while this grant still holds it.
fn held(grant: &Grant, detail: Option<JobDetail>) -> Option<JobDetail> {
    detail.filter(|detail| detail.view.record.held_by(&grant.lease).is_ok())
}

/// True when this ended run can only have been reported by the lease itself: the runs of a lease are also ended by
/// others, when it was lost or the job was called off.
fn is_own(run: &Attempt, grant: &Grant) -> bool {
    let same = run.fence == grant.lease.fence && run.worker == grant.lease.worker;
    let by_others = match run.cause {
        Cause::Crash | Cause::LeaseLost => true,
        // Over its limit a run is ended by whoever keeps the time.
        Cause::Timeout => run.failure.as_ref().is_some_and(|failure| failure.message.starts_with(OVERTIME)),
        // The decision about a handler's own wish starts with its cause; a person's has no such check.
        Cause::Canceled => run
            .decision
            .as_ref()
            .is_none_or(|decision| decision.trace.first().is_none_or(|check| check.check != "cause")),
        // A rule may have named the crash otherwise; its evidence stays.
        _ => run.failure.as_ref().is_some_and(|failure| failure.error_type == "Crash"),
    };
    same && !by_others
}

fn reply(ended: Ended) -> Reply {
    let failure = match ended {
        Ended::Succeeded { result } => return Reply(Ok(result.filter(|value| !value.is_null()))),
        Ended::Failed(failure) => failure,
        Ended::Snoozed { delay } => {
            Failure::new(Cause::Snoozed, "Snoozed", format!("snoozed for {delay:?}")).retry_in(delay)
        }
        Ended::Canceled { reason } => Failure::new(Cause::Canceled, "Canceled", reason),
        Ended::ReportedFailure { result } => {
            return Reply(Err(classify(&Outcome::failure(result), "Outcome")));
        }
        Ended::RateLimited { delay } => {
            let message = format!("a dependency asks to wait for {delay:?}");
            Failure::new(Cause::RateLimited, "RateLimited", message).retry_in(delay)
        }
        Ended::Interrupted => Failure::new(Cause::Interrupted, "Interrupted", "the worker stops"),
    };
    Reply(Err(Failed::plain(failure)))
}

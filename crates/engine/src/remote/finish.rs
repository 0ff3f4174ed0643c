//! Ends of runs that remote workers report, in batches; one that is refused never holds up another.

use std::collections::HashSet;
use std::sync::Arc;

use backstop_core::circuit::KindDependency;
use backstop_core::failure::{CallResult, Cause, Failure, HookAnswer};
use backstop_core::job::{Ending, JobDetail, MOST_STEPS, Record, Stale, State, StoredJob};
use backstop_core::{Lease, WorkerId};
use backstop_store::{Error as StoreError, Finish};

use super::Remote;
use super::failures::RemoteRunEnd;
use super::work::{Ended, Grant};
use crate::dependency::need::said_of;
use crate::outcome::{Failed, Outcome, Reply, classify};
use crate::parts::EngineParts;
use crate::run::conclude::{HandlerEnd, conclude};
use crate::run::end::end;
use crate::run::output::RunOutput;
use crate::run::write::{log_end, write_apart};
use crate::workflows::with_an_answer;

/// A run's end as a remote worker reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The right to write about the run.
    pub grant: Grant,
    /// How it ended.
    pub ended: Ended,
    /// The order of the step or the effect at which it failed, from 0; behind all of them when it was in none.
    pub step: Option<u32>,
    /// What it logged, line by line.
    pub logs: Vec<String>,
}

/// An ending on its way into the store.
pub(super) struct RemoteEnding {
    pub(super) finish: Finish,
    /// True when this was the job's first run: retries are a share of those (F19).
    pub(super) first: bool,
    /// The job, when it has crashed before (C3).
    pub(super) suspect: Option<Box<(Arc<StoredJob>, Record)>>,
}

impl Remote {
    /// Ends runs. One answer each, in order: where the job is now, or that the lease is no longer held.
    ///
    /// The same report of a run again is answered as the first time; any other, also in the same call, is stale (L5).
    ///
    /// # Errors
    /// When the store is away. Then the same call can be made again.
    pub async fn finish(&self, results: Vec<Finished>) -> Result<Vec<Result<State, Stale>>, StoreError> {
        let store = &self.parts.store;
        let grants: Vec<Grant> = results.iter().map(|result| result.grant.clone()).collect();
        let details = store.jobs(grants.iter().map(|grant| grant.lease.job).collect()).await?;
        let mut answers: Vec<Option<State>> = vec![None; results.len()];
        let (mut first, mut again) = (Vec::new(), Vec::new());
        let mut spoken_of: HashSet<Lease> = HashSet::new();
        let (mut news, mut ends) = (Vec::new(), Vec::new());
        for (place, (result, detail)) in results.into_iter().zip(details).enumerate() {
            let Some(detail) = detail else { continue };
            let lease = result.grant.lease;
            if detail.view.record.held_by(&lease).is_ok() && spoken_of.insert(lease) {
                let spec = &detail.view.job.spec;
                news.extend(self.news(&result, spec).map(|news| (place, news)));
                self.parts.note_call(result.grant.circuit, spec, |key, need| said(&result.ended, key, need));
                let kind = spec.kind.to_string();
                let wait = self.begin_wait(&result, spec, &detail.view.record).await?;
                let ending = self.ending(result, detail, wait).await;
                let cause = ending.finish.ending.cause;
                ends.push((place, RemoteRunEnd { batch: lease.worker, kind, cause }));
                first.push((place, ending));
            } else {
                self.settle_canceled(&result.grant, &detail).await;
                again.push((place, self.repeated(result, detail).await));
            }
        }
        let (places, reports): (Vec<usize>, Vec<RemoteEnding>) = first.into_iter().unzip();
        let died_with = self.died_with(&reports).await?;
        for ((place, died_with), answer) in places.into_iter().zip(died_with).zip(self.write(reports).await?)
        {
            answers[place] = answer.ok();
            if let Some(died_with) = died_with.filter(|_| answers[place].is_some()) {
                self.parts.cleared_suspects.note(died_with);
            }
        }
        ends.retain(|(place, _)| answers[*place].is_some());
        self.note_ends(&ends.into_iter().map(|(_, end)| end).collect::<Vec<_>>()).await;
        news.retain(|(place, _)| answers[*place].is_some());
        self.keep_news(news.into_iter().map(|(_, news)| news).collect()).await;
        let (places, repeated): (Vec<usize>, Vec<Finish>) = again.into_iter().unzip();
        for (place, answer) in places.into_iter().zip(self.ask_again(repeated).await?) {
            answers[place] = answer.ok();
        }
        self.let_go(&grants).await;
        let stale = |grant: &Grant| Stale { job: grant.lease.job, fence: grant.lease.fence };
        Ok(grants.iter().zip(answers).map(|(grant, answer)| answer.ok_or_else(|| stale(grant))).collect())
    }

    /// Retires the batches whose last job is among these.
    pub(super) async fn let_go<'a>(&self, gone: impl IntoIterator<Item = &'a Grant>) {
        for batch in self.memory.batches.gone(gone) {
            // One that stays because the store is away runs out by its lease.
            let _ = self.parts.store.retire(batch).await;
        }
    }

    /// Writes endings as every worker does: retries get their places first (F19), first runs are counted after.
    pub(super) async fn write(
        &self,
        reports: Vec<RemoteEnding>,
    ) -> Result<Vec<Result<State, Stale>>, StoreError> {
        if reports.is_empty() {
            return Ok(Vec::new());
        }
        let (mut endings, first): (Vec<Finish>, Vec<bool>) =
            reports.into_iter().map(|report| (report.finish, report.first)).unzip();
        let EngineParts { store, config, budgets, .. } = &*self.parts;
        budgets.tell(&**store, config).await;
        self.parts.place(&mut endings).await;
        let written = write_apart(endings, |endings| store.finish(endings)).await?;
        self.parts.runs_ended();
        for ((finish, answer), first) in written.iter().zip(first) {
            log_end(finish, answer.is_err());
            if first && answer.is_ok() {
                budgets.note_first_run(&finish.ending.job.kind);
            }
        }
        Ok(written.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Learns what was answered to reports that may have come before.
    async fn ask_again(&self, repeated: Vec<Finish>) -> Result<Vec<Result<State, Stale>>, StoreError> {
        if repeated.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.parts.store.finish(repeated.clone()).await?;
        for (finish, _) in repeated.iter().zip(&answers).filter(|(_, answer)| answer.is_err()) {
            log_end(finish, true);
        }
        Ok(answers)
    }

    /// Who each of those died with that were suspects and have succeeded (C3).
    async fn died_with(&self, reports: &[RemoteEnding]) -> Result<Vec<Option<WorkerId>>, StoreError> {
        let mut all = Vec::with_capacity(reports.len());
        for report in reports {
            all.push(match &report.suspect {
                Some(suspect) if report.finish.ending.cause == Cause::Succeeded => {
                    let (job, record) = &**suspect;
                    self.parts.cleared_suspects.look_into(&*self.parts.store, job, record).await?.died_with
                }
                _ => None,
            });
        }
        Ok(all)
    }

    async fn ending(&self, result: Finished, detail: JobDetail, wait: Option<Box<Failed>>) -> RemoteEnding {
        let Finished { grant, ended, step, logs } = result;
        let output = self.output(&detail.view.record, &logs);
        let (job, record) = (Arc::new(detail.view.job), detail.view.record);
        let first = record.runs == 1;
        let suspect = (record.crashes > 0).then(|| Box::new((job.clone(), record.clone())));
        let ended = with_an_answer(&job.spec, self.with_rejects(&job.spec, &record, ended));
        let reply = wait.map_or_else(|| reply(ended, step), |wait| Reply(Err(wait)));
        let ending = self.end(job, record, reply, output, grant.code_version).await;
        RemoteEnding { finish: Finish { lease: grant.lease, ending }, first, suspect }
    }

    /// The ending of a run that is over, as it was the first time: nothing follows from it.
    async fn repeated(&self, result: Finished, detail: JobDetail) -> Finish {
        let Finished { grant, ended, step, logs } = result;
        let EngineParts { store, config, rules, .. } = &*self.parts;
        let rules = rules.in_force(&**store).await;
        let output = self.output(&detail.view.record, &logs);
        let (job, record) = (Arc::new(detail.view.job), detail.view.record);
        let wait = self.repeated_wait(&ended, &record);
        let ended = with_an_answer(&job.spec, self.with_rejects(&job.spec, &record, ended));
        let reply = wait.map_or_else(|| reply(ended, step), |wait| Reply(Err(wait)));
        let handler_end = HandlerEnd { job, record, reply, output, code_version: grant.code_version };
        let concluded = conclude(config, &rules, handler_end, |_, _| HookAnswer::default());
        Finish { lease: grant.lease, ending: concluded.ending }
    }

    /// What is kept of these lines: those that were sent on the way are kept already, and count.
    fn output(&self, record: &Record, logs: &[String]) -> Option<String> {
        let limit = self.parts.config.limits.output_bytes;
        let mut output = RunOutput::new(limit.saturating_sub(record.logged_bytes()));
        logs.iter().for_each(|line| output.push(line));
        output.text()
    }

    pub(super) async fn end(
        &self,
        job: Arc<StoredJob>,
        record: Record,
        reply: Reply,
        output: Option<String>,
        code_version: Option<Arc<str>>,
    ) -> Ending {
        let handler_end = HandlerEnd { job, record, reply, output, code_version };
        // The retry policy of a kind is code of its worker, which has had its say in the outcome.
        end(&self.parts, handler_end, |_, _| HookAnswer::default()).await
    }
}

/// What the end of a run says of the dependency that it was let through to (H3).
fn said(ended: &Ended, key: &str, need: Option<&KindDependency>) -> CallResult {
    match ended {
        Ended::Succeeded { .. } => CallResult::Success,
        Ended::Failed(failure) => said_of(failure, key, need),
        _ => CallResult::Ignored,
    }
}

fn reply(ended: Ended, step: Option<u32>) -> Reply {
    let mut reply = plain_reply(ended);
    if let Err(failed) = &mut reply.0 {
        // No run has more steps than this, whatever its worker says.
        failed.step = step.map(|step| step.min(u32::try_from(MOST_STEPS).unwrap_or(u32::MAX)));
    }
    reply
}

fn plain_reply(ended: Ended) -> Reply {
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
        // What it waits for was found out before.
        Ended::Waiting { signal, .. } => {
            Failure::new(Cause::Waiting, "Waiting", format!("waits for `{signal}`"))
        }
        Ended::Interrupted => Failure::new(Cause::Interrupted, "Interrupted", "the worker stops"),
    };
    Reply(Err(Failed::plain(failure)))
}

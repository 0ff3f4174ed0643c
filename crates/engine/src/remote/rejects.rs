//! Items that runs of remote workers reject (W9): what a worker says comes in by lease, and is kept as that of any run.

use std::collections::HashMap;

use backstop_core::Refusal;
use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::job::{JobDetail, NoteError, Record, Spec, Stale};
use backstop_core::reject::{
    ItemCounts, MOST_BATCHES, MOST_BYTES_TOGETHER, MOST_TOGETHER, Reject, RejectBatch, RejectScope,
    RejectTally, item_fingerprint,
};
use backstop_core::{Timestamp, tenant, text};
use backstop_store::{Error as StoreError, Note};
use serde_json::Value;

use super::work::Ended;
use super::{Grant, Remote};
use crate::error::OperateError;
use crate::rejects::settings::SinkFailure;
use crate::run::rejects::{stored_rejects, too_many};
use crate::sealing;

/// An item that a remote worker rejects.
///
/// ```
/// use backstop::RemoteReject;
///
/// let reject = RemoteReject { error: "it has no name".into(), ..RemoteReject::default() };
/// # assert_eq!(reject.key, None);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RemoteReject {
    /// Why.
    pub error: String,
    /// The class of that; `Error` unless it is said.
    pub error_type: Option<String>,
    /// The item.
    pub item: Option<Value>,
    /// What tells it from others, when the item does not.
    pub key: Option<String>,
    /// The step of the worker in which it happened.
    pub step: Option<String>,
    /// True keeps the item too, and not only a digest of it.
    pub keep: bool,
    /// How many items it stands for, when there are several.
    pub count: Option<u64>,
    /// How often it was tried again.
    pub retries: u32,
    /// How often it would have been tried; as often as it was unless it is said.
    pub retry_limit: Option<u32>,
    /// False when the run may still try it again.
    pub last: Option<bool>,
}

/// How often a call is told apart from others that come at the same time.
const TRIES: usize = 20;

/// Why a call is not kept, or not all of it.
enum Unkept {
    Stale(Stale),
    /// Other rejects of the job were stored while it was told apart from them.
    MoreRejects,
    Failed(OperateError),
}

impl From<StoreError> for Unkept {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Refusal> for Unkept {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(refusal.into())
    }
}

impl Remote {
    /// Keeps items that a run has rejected. Answers why the run has rejected too much, if it has: then it fails when it
    /// ends, whatever its worker says. The same call again, after an answer that was lost, counts nothing twice; of
    /// rejects with neither item nor key that holds when it says how much was seen.
    ///
    /// `seen` is how many items the run has looked at so far, in all.
    ///
    /// # Errors
    /// When the job has too many rejects, or the store or the sink is away, or other calls of the run stand in the way
    /// for long. A lease that is no longer held is answered, not an error.
    pub async fn reject(
        &self,
        grant: &Grant,
        rejects: Vec<RemoteReject>,
        seen: Option<u64>,
    ) -> Result<Result<Option<String>, Stale>, OperateError> {
        for _ in 0..TRIES {
            match self.reject_once(grant, rejects.clone(), seen).await {
                Err(Unkept::Stale(stale)) => return Ok(Err(stale)),
                Err(Unkept::Failed(error)) => return Err(error),
                // Another call of the run was faster: what it has told of is no news any more.
                Err(Unkept::MoreRejects) => {}
                Ok(problem) => return Ok(Ok(problem)),
            }
        }
        let location = format!("rejects of job {}", grant.lease.job);
        let problem = "other calls of its run are always faster".to_owned();
        Err(StoreError::Unavailable { location, problem, source: None }.into())
    }

    async fn reject_once(
        &self,
        grant: &Grant,
        rejects: Vec<RemoteReject>,
        seen: Option<u64>,
    ) -> Result<Option<String>, Unkept> {
        let (store, lease) = (&self.parts.store, grant.lease);
        let stale = Unkept::Stale(Stale { job: lease.job, fence: lease.fence });
        let found = store.jobs(vec![lease.job]).await?.pop().flatten();
        let Some(JobDetail { view, .. }) = found else { return Err(stale) };
        let (spec, record) = (&view.job.spec, &view.record);
        record.held_by(&lease).map_err(Unkept::Stale)?;
        let mut tally = of_this_run(record);
        if tally.batches >= MOST_BATCHES {
            let (actual, limit) = (tally.batches as usize + 1, MOST_BATCHES as usize);
            return Err(Refusal::TooLarge { field: "job", actual, limit, unit: "batches of rejects" }.into());
        }
        let mut known = HashMap::new();
        if tally.batches > 0 {
            known = stored_rejects(&**store, spec, record.redrives).await?;
        }
        let mut told = Vec::new();
        let call = this_call(record.runs, &tally, &rejects, seen);
        let mut same = ItemCounts::default();
        for (place, one) in rejects.into_iter().enumerate() {
            let has_key = one.key.is_some();
            let mut reject = self.rejected(spec, &format!("{call}/{place}"), one)?;
            if !has_key {
                same.tell_apart(&mut reject);
            }
            let before = known.insert(reject.identity(), record.runs);
            if before != Some(record.runs) {
                // What an earlier run has told of is kept, and rejected by this one too.
                told.push((reject, before.is_none()));
            }
        }
        // A call that was under way for long may come behind later ones.
        tally.seen = tally.seen.max(seen.unwrap_or_default());
        for batch in batches(&batch(spec, record, &tally, store.now().await?), told) {
            tally.rejected = batch.rejected;
            let counts = batch.identities().next().is_some();
            self.write_rejects(grant, RejectBatch { behind: Some(tally.batches), ..batch }).await?;
            tally.batches += u32::from(counts);
        }
        Ok(self.parts.config.rejects.limit_for(&spec.kind).exceeded(tally.rejected, tally.seen, false))
    }

    /// Hands a batch over, and counts it on the record.
    async fn write_rejects(&self, grant: &Grant, mut batch: RejectBatch) -> Result<(), Unkept> {
        let (settings, figures) = (&self.parts.config.rejects, &self.parts.figures);
        if let Some(sink) = settings.sink.as_ref().filter(|_| !batch.rejects.is_empty()) {
            let count = batch.rejects.len();
            match sink.put(&batch).await {
                Ok(()) => figures.rejected(&batch.kind, sink.name(), count),
                Err(problem) => {
                    figures.rejects_lost(&batch.kind, sink.name(), count);
                    let problem = self.parts.config.sanitized(&problem.to_string());
                    tracing::warn!(job = %batch.job, sink = sink.name(), rejects = count, error = problem,
                        "rejects of items could not be handed over");
                    if settings.on_failure == SinkFailure::Fail {
                        let location = format!("reject sink `{}`", sink.name());
                        return Err(StoreError::Unavailable { location, problem, source: None }.into());
                    }
                }
            }
            // Without this the same call again would count again.
            let RejectBatch { rejects, kept_elsewhere, .. } = &mut batch;
            kept_elsewhere.extend(rejects.drain(..).map(|reject| reject.identity()));
        }
        let stale = Stale { job: grant.lease.job, fence: grant.lease.fence };
        self.note(Note::rejects(grant.lease, batch)).await?.map_err(|refused| match refused {
            NoteError::MoreRejects { .. } => Unkept::MoreRejects,
            NoteError::Stale(_) | NoteError::StepsChanged(_) => Unkept::Stale(stale),
        })
    }

    /// One item; `place` tells it from all others when nothing is known of it.
    fn rejected(&self, spec: &Spec, place: &str, one: RemoteReject) -> Result<Reject, Refusal> {
        let config = &self.parts.config;
        let error = config.sanitized(&one.error);
        let error_type = one.error_type.as_deref().unwrap_or("Error");
        let error_type = text::truncate_chars(error_type, config.limits.name_chars).into_owned();
        let item = one.item.map(|item| item.to_string());
        let name = one.key.clone().or_else(|| item.clone()).unwrap_or_else(|| place.to_owned());
        let keeps = one.keep || config.rejects.keep_items;
        let kept = item.filter(|item| keeps && item.len() <= config.limits.payload_bytes);
        let kept = kept.map(|item| sealing::kept_reject(config, spec, item)).transpose();
        let kind = tenant::incident_kind(&spec.queue, &spec.kind);
        Ok(Reject {
            fingerprint: fingerprint(&kind, &error_type, &error),
            item_fingerprint: item_fingerprint(&name),
            scope: if one.count.is_some() { RejectScope::Stream } else { RejectScope::Item },
            step: one.step,
            error_type,
            error,
            count: one.count.unwrap_or(1),
            retries: one.retries,
            retry_limit: one.retry_limit.unwrap_or(one.retries),
            r#final: one.last.unwrap_or(true),
            item: kept.map_err(|problem| Refusal::invalid("item", problem))?,
        })
    }

    /// What a run comes to that says it went well: too many rejects fail it.
    pub(super) fn with_rejects(&self, spec: &Spec, record: &Record, ended: Ended) -> Ended {
        let tally = of_this_run(record);
        let limit = self.parts.config.rejects.limit_for(&spec.kind);
        match (&ended, limit.exceeded(tally.rejected, tally.seen, true)) {
            (Ended::Succeeded { .. }, Some(problem)) => Ended::Failed(too_many(&problem)),
            _ => ended,
        }
    }
}

/// What tells a call from all others of the job. How many items the run has seen grows from call to call, so the same
/// call again is known by it; without that, each call is another one.
fn this_call(run: u32, tally: &RejectTally, rejects: &[RemoteReject], seen: Option<u64>) -> String {
    match seen {
        Some(seen) => format!("{run}/{}", item_fingerprint(&format!("{seen} {rejects:?}"))),
        None => format!("{run}/{}", tally.batches),
    }
}

/// What the record knows of the rejects of its latest run.
fn of_this_run(record: &Record) -> RejectTally {
    let mut tally = record.rejects().cloned().unwrap_or_default();
    if tally.run != record.runs {
        (tally.rejected, tally.seen) = (0, 0);
    }
    tally
}

/// In as many batches as there have to be, each with a reject and whether it is new; one without rejects still brings
/// the counts. Each counts its own: a call that fails halfway and is repeated goes on behind what was written.
fn batches(empty: &RejectBatch, told: Vec<(Reject, bool)>) -> Vec<RejectBatch> {
    let (mut all, mut batch, mut bytes) = (Vec::new(), empty.clone(), 0);
    for (reject, is_new) in told {
        if batch.identities().count() >= MOST_TOGETHER || bytes >= MOST_BYTES_TOGETHER {
            let next = RejectBatch { rejected: batch.rejected, ..empty.clone() };
            all.push(std::mem::replace(&mut batch, next));
            bytes = 0;
        }
        batch.rejected = batch.rejected.saturating_add(reject.count);
        if is_new {
            bytes += reject.bytes();
            batch.rejects.push(reject);
        } else {
            batch.kept_elsewhere.push(reject.identity());
        }
    }
    all.push(batch);
    all
}

/// A batch without rejects.
fn batch(spec: &Spec, record: &Record, tally: &RejectTally, at: Timestamp) -> RejectBatch {
    RejectBatch {
        at,
        job: spec.id,
        queue: spec.queue.clone(),
        kind: spec.kind.clone(),
        run: record.runs,
        attempt: record.attempt.saturating_add(1),
        generation: record.redrives,
        rejected: tally.rejected,
        seen: tally.seen,
        rejects: Vec::new(),
        kept_elsewhere: Vec::new(),
        behind: None,
    }
}

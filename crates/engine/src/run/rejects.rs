//! Items that one run rejects (W9): gathered, written in batches under its lease, and judged.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_core::failure::{CallResult, Cause, Failure};
use backstop_core::job::{Spec, Stale};
use backstop_core::reject::{
    ItemCounts, MOST_BATCHES, MOST_BYTES_TOGETHER, MOST_TOGETHER, Reject, RejectBatch, RejectLimit,
};
use backstop_core::{Timestamp, tenant};
use backstop_store::{Answer, DocumentRange, Drawer, Error as StoreError, Note, Store};

use crate::context::Run;
use crate::error::RejectError;
#[cfg(target_os = "linux")]
use crate::isolate::store::child_store;
use crate::outcome::{BoxError, Failed, Reply};
use crate::rejects::settings::SinkFailure;

/// Batches that are read at once.
const PAGE: usize = 20;

/// What a run knows of its rejects.
#[derive(Debug, Default)]
pub(crate) struct RunRejects {
    gathered: Mutex<Gathered>,
    /// Held while batches are written, so that they come one after another.
    writing: tokio::sync::Mutex<Writing>,
}

#[derive(Debug, Default)]
struct Gathered {
    waiting: Vec<Reject>,
    bytes: usize,
    /// What this run has rejected, so that an item with a key counts once.
    here: HashSet<u64>,
    /// Items without a key that it has rejected: those that look the same are several.
    same: ItemCounts,
    rejected: u64,
    seen: u64,
    /// What the handler says.
    limit: RejectLimit,
    /// Why the run cannot go well, whatever its handler says.
    problem: Option<Box<Failure>>,
}

#[derive(Debug, Default)]
struct Writing {
    /// What earlier runs have stored; read when it is first needed.
    known: Option<HashMap<u64, u32>>,
    /// Written, and perhaps stored: a call that was dropped on the way is made again as it was.
    under_way: Option<RejectBatch>,
    batches: u32,
    /// What the store was told last of the items that were seen.
    seen: u64,
}

/// What is known of a job's rejects since it was last driven again, each with the latest run that told of it.
pub(crate) async fn stored_rejects(
    store: &dyn Store,
    spec: &Spec,
    generation: u32,
) -> Result<HashMap<u64, u32>, StoreError> {
    let mut range =
        DocumentRange::first(Drawer::Rejects, PAGE).under(RejectBatch::under(&spec.queue, spec.id));
    let mut known = HashMap::new();
    loop {
        let page = store.documents(range.clone()).await?;
        range.after = page.items.last().map(|document| document.key.clone());
        for document in &page.items {
            // What cannot be read is nobody's reject any more: then an item may count twice.
            let batch: Option<RejectBatch> = serde_json::from_str(&document.body).ok();
            let batch = batch.filter(|batch| batch.generation == generation);
            if let Some(batch) = batch {
                known.extend(batch.identities().map(|identity| (identity, batch.run)));
            }
        }
        if !page.more {
            return Ok(known);
        }
    }
}

/// The failure of a run that has rejected too much.
pub(crate) fn too_many(problem: &str) -> Failure {
    let mut failure = Failure::new(Cause::Error, "TooManyRejects", problem);
    // Bad items say nothing of what the run depends on (H4).
    failure.call_result = Some(CallResult::Ignored);
    failure
}

impl RunRejects {
    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run has seen so many items more.
    pub(crate) fn saw(&self, items: u64) {
        let mut gathered = self.lock();
        gathered.seen = gathered.seen.saturating_add(items);
    }

    /// The handler limits what the run may reject.
    pub(crate) fn limit(&self, limit: RejectLimit) {
        self.lock().limit = limit;
    }

    /// True when rejects wait to be written.
    pub(crate) fn wait(&self) -> bool {
        !self.lock().waiting.is_empty()
    }
}

impl Run {
    /// Takes a reject; writes a batch when there are enough.
    pub(crate) async fn reject(&self, mut reject: Reject, has_key: bool) -> Result<(), RejectError> {
        let full = {
            let mut gathered = self.rejects.lock();
            if !has_key {
                gathered.same.tell_apart(&mut reject);
            }
            if !gathered.here.insert(reject.identity()) {
                return Ok(());
            }
            gathered.rejected = gathered.rejected.saturating_add(reject.count);
            gathered.bytes += reject.bytes();
            gathered.waiting.push(reject);
            gathered.waiting.len() >= MOST_TOGETHER || gathered.bytes >= MOST_BYTES_TOGETHER
        };
        let over = self.rejects_over_limit(false);
        if full || over.is_some() {
            self.flush_rejects().await?;
        }
        match over {
            Some(problem) => self.noting_reject(Err(RejectError::OverLimit { problem })),
            None => Ok(()),
        }
    }

    /// Why the run has rejected too much, if it has.
    fn rejects_over_limit(&self, ended: bool) -> Option<String> {
        let of_kind = self.engine.parts.config.rejects.limit_for(&self.job.spec.kind);
        let gathered = self.rejects.lock();
        gathered.limit.or(of_kind).exceeded(gathered.rejected, gathered.seen, ended)
    }

    /// Writes all that waits. When it has answered, an end of the run loses none of it.
    pub(crate) async fn flush_rejects(&self) -> Result<(), RejectError> {
        let mut writing = self.rejects.writing.lock().await;
        loop {
            if writing.under_way.is_none() {
                writing.under_way = match self.next_batch(&mut writing).await {
                    Err(RejectError::Store(error)) if self.goes_on_without() => {
                        let lost = std::mem::take(&mut self.rejects.lock().waiting).len();
                        self.sink_failed(lost, &error.to_string());
                        return Ok(());
                    }
                    next => next?,
                };
            }
            let Some(batch) = writing.under_way.clone() else { return Ok(()) };
            let seen = batch.seen;
            let written = self.write_rejects(batch).await;
            writing.under_way = None;
            (writing.seen, writing.batches) = (seen, writing.batches.saturating_add(1));
            self.noting_reject(written)?;
        }
    }

    /// Writes what waits of a run whose handler was dropped: nobody else will, and perhaps no other run tells of it.
    /// What the run ends by stays as it is, and a store or a sink that does not answer holds it up for so long at most.
    pub(crate) async fn flush_after_stop(&self, at_most: Duration) {
        let problem = match tokio::time::timeout(at_most, self.flush_rejects()).await {
            Ok(Ok(()) | Err(RejectError::Stale(_))) => return,
            Ok(Err(error)) => self.engine.parts.config.sanitized(&error.to_string()),
            Err(_) => format!("they were not taken within {} ms", at_most.as_millis()),
        };
        tracing::warn!(job = %self.lease.job, error = problem, "rejects of a stopped run could not be written");
    }

    /// What is to be written next, without what is stored already; none when there is nothing.
    async fn next_batch(&self, writing: &mut Writing) -> Result<Option<RejectBatch>, RejectError> {
        if !self.rejects.wait() {
            return Ok(None);
        }
        let store = &self.engine.parts.store;
        let tally = self.record.rejects();
        if tally.map_or(0, |tally| tally.batches).saturating_add(writing.batches) >= MOST_BATCHES {
            let problem = format!("a job keeps {MOST_BATCHES} batches of rejects at most");
            return self.noting_reject(Err(RejectError::OverLimit { problem }));
        }
        if writing.known.is_none() && tally.is_some_and(|tally| tally.batches > 0) {
            let read = || {
                Box::pin(stored_rejects(&**store, &self.job.spec, self.record.redrives))
                    as Answer<'_, HashMap<u64, u32>>
            };
            writing.known = Some(self.reject_call(read).await?);
        }
        let at = self.reject_call(|| store.now()).await?;
        let mut gathered = self.rejects.lock();
        let rest = gathered.waiting.len().min(MOST_TOGETHER);
        let mut rejects: Vec<Reject> = gathered.waiting.drain(..rest).collect();
        gathered.bytes = gathered.waiting.iter().map(Reject::bytes).sum();
        let (rejected, seen) = (gathered.rejected, gathered.seen);
        drop(gathered);
        let known = writing.known.get_or_insert_default();
        rejects.retain(|reject| !known.contains_key(&reject.identity()));
        Ok(Some(self.reject_batch(at, rejected, seen, rejects)))
    }

    fn reject_batch(&self, at: Timestamp, rejected: u64, seen: u64, rejects: Vec<Reject>) -> RejectBatch {
        let spec = &self.job.spec;
        RejectBatch {
            at,
            job: spec.id,
            queue: spec.queue.clone(),
            kind: spec.kind.clone(),
            run: self.record.runs,
            attempt: self.record.attempt.saturating_add(1),
            generation: self.record.redrives,
            rejected,
            seen,
            rejects,
            kept_elsewhere: Vec::new(),
            behind: None,
        }
    }

    /// Asks the store; patiently when a success must not lose rejects.
    async fn reject_call<'s, T>(&self, ask: impl Fn() -> Answer<'s, T>) -> Result<T, RejectError> {
        let answer = match self.engine.parts.config.rejects.on_failure {
            SinkFailure::Fail => self.until_reached(ask).await,
            SinkFailure::Continue => ask().await,
        };
        self.noting_reject(answer.map_err(RejectError::from))
    }

    /// Hands a batch over, and counts it on the record.
    async fn write_rejects(&self, mut batch: RejectBatch) -> Result<(), RejectError> {
        let parts = &self.engine.parts;
        let (settings, count) = (&parts.config.rejects, batch.rejects.len());
        if settings.sink.is_some() && count > 0 {
            let handed_over = self.hand_over(&batch).await;
            if let Err(source) = handed_over
                && settings.on_failure == SinkFailure::Fail
            {
                return Err(RejectError::Sink { sink: settings.sink_name().to_owned(), source });
            }
            batch.rejects.clear();
        }
        let note = || parts.store.annotate(vec![Note::rejects(self.lease, batch.clone())]);
        match (self.reject_call(note).await, settings.on_failure) {
            // Nobody else writes rejects under this lease.
            (Ok(answers), _) if answers.iter().all(Result::is_ok) => Ok(()),
            (Ok(_), _) => Err(Stale { job: self.lease.job, fence: self.lease.fence }.into()),
            (Err(error), SinkFailure::Fail) => Err(error),
            (Err(error), SinkFailure::Continue) => {
                self.sink_failed(count, &error.to_string());
                Ok(())
            }
        }
    }

    /// Hands a batch to the sink. A child leaves that to its worker (E2): figures and the log are read there, and a
    /// sink with connections has them once.
    async fn hand_over(&self, batch: &RejectBatch) -> Result<(), BoxError> {
        #[cfg(target_os = "linux")]
        if self.listener.is_some() {
            return child_store().hand_over(batch.clone()).await;
        }
        self.put_rejects(batch).await
    }

    /// Hands a batch to the sink of this process, and counts what becomes of it.
    pub(crate) async fn put_rejects(&self, batch: &RejectBatch) -> Result<(), BoxError> {
        let parts = &self.engine.parts;
        let (settings, count) = (&parts.config.rejects, batch.rejects.len());
        let taken = match &settings.sink {
            Some(sink) => sink.put(batch).await,
            // A worker can be built otherwise than its children, though it should not be.
            None => Err("the worker of this run has no sink for rejects".into()),
        };
        match &taken {
            Ok(()) => parts.figures.rejected(&batch.kind, settings.sink_name(), count),
            Err(problem) => self.sink_failed(count, &problem.to_string()),
        }
        taken
    }

    /// True when a run does not fail for rejects that cannot be handed over.
    fn goes_on_without(&self) -> bool {
        self.engine.parts.config.rejects.on_failure == SinkFailure::Continue
    }

    /// Counts rejects that could not be handed over, in the worker that people look at.
    pub(crate) fn sink_failed(&self, rejects: usize, problem: &str) {
        #[cfg(target_os = "linux")]
        if self.listener.is_some() {
            child_store().lost_rejects(rejects, problem);
            return;
        }
        let parts = &self.engine.parts;
        let error = parts.config.sanitized(problem);
        parts.figures.rejects_lost(&self.job.spec.kind, parts.config.rejects.sink_name(), rejects);
        tracing::warn!(job = %self.lease.job, sink = parts.config.rejects.sink_name(), rejects, error,
            "rejects of items could not be handed over");
    }

    /// Remembers an error that ends the run whatever its handler makes of it.
    fn noting_reject<T>(&self, answer: Result<T, RejectError>) -> Result<T, RejectError> {
        if let Err(error) = &answer
            && let Some(failure) = error.failure(self.goes_on_without())
        {
            self.rejects.lock().problem.get_or_insert(Box::new(failure));
        }
        answer
    }

    /// What the handler's reply comes to: its rejects are written before that, and too many fail the run.
    pub(crate) async fn settle_rejects(&self, reply: Reply) -> Reply {
        if self.rejects.lock().rejected == 0 {
            return reply;
        }
        let problem = self.rejects.lock().problem.clone();
        let succeeded = match &reply.0 {
            Ok(_) => true,
            Err(failed) => failed.unserializable.is_some(),
        };
        let flushed = self.flush_rejects().await;
        let problem = if succeeded { self.rejects_problem(flushed.is_ok()).await } else { problem };
        match problem {
            Some(failure) => Reply(Err(Failed::plain(*failure))),
            None => reply,
        }
    }

    /// Why a run that is about to succeed cannot, and what it has seen in all.
    async fn rejects_problem(&self, flushed: bool) -> Option<Box<Failure>> {
        if flushed && let Some(problem) = self.rejects_over_limit(true) {
            self.rejects.lock().problem.get_or_insert(Box::new(too_many(&problem)));
        }
        let (problem, rejected, seen) = {
            let gathered = self.rejects.lock();
            (gathered.problem.clone(), gathered.rejected, gathered.seen)
        };
        if flushed
            && self.rejects.writing.lock().await.seen != seen
            && let Ok(at) = self.engine.parts.store.now().await
        {
            // Only what people see of it: the rejects themselves are written.
            let counts = self.reject_batch(at, rejected, seen, Vec::new());
            let _ = self.engine.parts.store.annotate(vec![Note::rejects(self.lease, counts)]).await;
        }
        problem
    }

    /// Why a completion in the handler's own transaction cannot be, if it cannot: it would lose rejects, or there are
    /// too many of them.
    pub(crate) fn completion_problem(&self) -> Option<String> {
        let under_way = self.rejects.writing.try_lock().map_or(true, |writing| writing.under_way.is_some());
        if under_way || self.rejects.wait() {
            return Some(
                "rejects wait to be written; call `flush_rejects` before the transaction".to_owned(),
            );
        }
        self.rejects_over_limit(true)
    }

    /// The kind as rejects of this run are grouped by: as its failures are.
    pub(crate) fn reject_kind(&self) -> String {
        tenant::incident_kind(&self.job.spec.queue, &self.job.spec.kind).into_owned()
    }
}

impl RejectError {
    /// What the run comes to because of it; none when that is for the handler and the lease to say.
    fn failure(&self, continues: bool) -> Option<Failure> {
        match self {
            Self::OverLimit { problem } => Some(too_many(problem)),
            Self::Sink { .. } => Some(Failure::new(Cause::Error, "RejectSink", self.to_string())),
            Self::Store(_) if !continues => {
                Some(Failure::new(Cause::EngineFault, "RejectStore", self.to_string()))
            }
            Self::Store(_) | Self::Stale(_) | Self::Failed(_) | Self::Item { .. } => None,
        }
    }
}

//! Workers whose process was seen to die: their runs end at once, with what is known of its end (C4).

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::job::State;
use backstop_core::{JobId, Lease, WorkerId};
use backstop_store::{Error as StoreError, Finish, JobFilter, Orphan, PageRequest, WorkerView};

use super::BATCH;
use super::rescue::judge;
use crate::circuits::stored::DeadTries;
use crate::engine::Backstop;
use crate::isolate::CrashEvidence;
use crate::parts::EngineParts;
use crate::run::conclude::DecidedEnding;
use crate::run::end::pause_by_rule;
use crate::run::write::{log_end, write_apart};

impl Backstop {
    /// Tells that the process of a worker has died, and how: its started runs end as crashes with that evidence, what
    /// it had only claimed goes back uncharged, and nobody waits for its lease. Answers how many runs it ended.
    ///
    /// Only call it for a process that is gone. The runs of one that lives would be ended under its hands; what it
    /// writes about them afterwards is refused. A worker that is unknown, or whose lease has run out, is fine: its
    /// runs are taken back as always. See [`CrashEvidence`] for an example.
    ///
    /// # Errors
    /// When the store cannot be asked; the runs are taken back when the lease has run out then.
    pub async fn worker_died(&self, worker: WorkerId, evidence: &CrashEvidence) -> Result<usize, StoreError> {
        died(&self.parts, |known| known.id == worker, evidence).await
    }
}

/// Ends what workers held whose process has died, and forgets them; answers how many runs that ended.
pub(crate) async fn died(
    parts: &EngineParts,
    is_dead: impl Fn(&WorkerView) -> bool,
    evidence: &CrashEvidence,
) -> Result<usize, StoreError> {
    let mut dead = parts.store.workers().await?;
    dead.retain(is_dead);
    // Nobody knows them any more: nothing is their own.
    if dead.is_empty() {
        return Ok(0);
    }
    let mut ended = 0;
    for some in held_by(parts, &dead).await?.chunks(BATCH) {
        ended += end(parts, some, evidence).await?;
    }
    for worker in dead {
        parts.store.retire(worker.id).await?;
    }
    Ok(ended)
}

/// Everything that workers hold.
async fn held_by(parts: &EngineParts, workers: &[WorkerView]) -> Result<Vec<Orphan>, StoreError> {
    let versions: HashMap<WorkerId, Option<Arc<str>>> =
        workers.iter().map(|worker| (worker.id, worker.code_version.as_deref().map(Into::into))).collect();
    let running = JobFilter { state: Some(State::Running), ..JobFilter::default() };
    let (mut page, mut held) = (PageRequest::first(BATCH), Vec::new());
    loop {
        let listed = parts.store.list(running.clone(), page).await?;
        held.extend(listed.items.into_iter().filter_map(|view| {
            let hold = view.record.hold?;
            let code_version = versions.get(&hold.worker)?.clone();
            let lease = Lease { job: view.job.spec.id, worker: hold.worker, fence: view.record.fence };
            let (job, record) = (Arc::new(view.job), view.record);
            Some(Orphan { job, record, lease, code_version })
        }));
        match listed.next {
            Some(next) => page = PageRequest { after: Some(next), ..PageRequest::first(BATCH) },
            None => return Ok(held),
        }
    }
}

/// Ends runs under the leases that their worker has left behind; answers how many it ended.
async fn end(parts: &EngineParts, held: &[Orphan], evidence: &CrashEvidence) -> Result<usize, StoreError> {
    let EngineParts { store, config, .. } = parts;
    let (rules, failure) = (parts.rules.in_force(&**store).await, evidence.failure());
    let mut endings = Vec::with_capacity(held.len());
    for orphan in held {
        let DecidedEnding { ending, pauses } = judge(config, &rules, orphan, &failure);
        if let Some(rule) = pauses {
            pause_by_rule(&**store, &orphan.job.spec.queue, &rule).await;
        }
        endings.push(Finish { lease: orphan.lease, ending });
    }
    parts.place(&mut endings).await;
    let jobs: Vec<JobId> = held.iter().map(|orphan| orphan.lease.job).collect();
    let tries = DeadTries::of(&**store, &jobs).await?;
    let answers = write_apart(endings, |endings| store.finish(endings)).await?;
    let written = answers.iter().filter(|(_, answer)| answer.is_ok());
    let ended: Vec<JobId> =
        written.inspect(|(finish, _)| log_end(finish, false)).map(|(finish, _)| finish.lease.job).collect();
    tries.take_back(&**store, &ended).await?;
    Ok(ended.len())
}

//! Workers whose process was seen to die: their runs end at once, with what is known of its end (C4).

use std::sync::Arc;

use backstop_core::job::State;
use backstop_core::{Lease, WorkerId};
use backstop_store::{Error as StoreError, Finish, JobFilter, Orphan, PageRequest};

use super::BATCH;
use super::rescue::judge;
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
        let parts = &self.parts;
        let held = held_by(parts, worker).await?;
        let mut ended = 0;
        for some in held.chunks(BATCH) {
            ended += end(parts, some, evidence).await?;
        }
        parts.store.retire(worker).await?;
        Ok(ended)
    }
}

/// Everything that a worker holds.
async fn held_by(parts: &EngineParts, worker: WorkerId) -> Result<Vec<Orphan>, StoreError> {
    let known = parts.store.workers().await?.into_iter().find(|known| known.id == worker);
    // Nobody knows it any more: nothing is its own.
    let Some(known) = known else { return Ok(Vec::new()) };
    let code_version: Option<Arc<str>> = known.code_version.map(Into::into);
    let running = JobFilter { state: Some(State::Running), ..JobFilter::default() };
    let (mut page, mut held) = (PageRequest::first(BATCH), Vec::new());
    loop {
        let listed = parts.store.list(running.clone(), page).await?;
        held.extend(listed.items.into_iter().filter_map(|view| {
            let hold = view.record.hold.filter(|hold| hold.worker == worker)?;
            let lease = Lease { job: view.job.spec.id, worker: hold.worker, fence: view.record.fence };
            let (job, record) = (Arc::new(view.job), view.record);
            Some(Orphan { job, record, lease, code_version: code_version.clone() })
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
    let answers = write_apart(endings, |endings| store.finish(endings)).await?;
    let written = answers.iter().filter(|(_, answer)| answer.is_ok());
    Ok(written.inspect(|(finish, _)| log_end(finish, false)).count())
}

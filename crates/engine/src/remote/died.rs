//! Remote workers whose process was seen to die: their runs end at once, with what is known of its end (C4).

use backstop_store::Error as StoreError;

use super::Remote;
use super::work::RemoteWorker;
use crate::ids::is_batch_of;
use crate::isolate::CrashEvidence;
use crate::maintenance::died::died;

impl Remote {
    /// Tells that the process of a worker has died, and how, as
    /// [`Backstop::worker_died`](crate::Backstop::worker_died) does for a worker on the store: its runs end as crashes
    /// with that evidence, and nobody waits for its leases. Answers how many runs it ended.
    ///
    /// The worker must say which process it is: what another one holds that has the same name is not touched. A process
    /// that nobody knows any more is fine.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn died(&self, worker: &RemoteWorker, evidence: &CrashEvidence) -> Result<usize, StoreError> {
        if worker.instance.is_none() {
            return Ok(0);
        }
        let id = worker.id();
        // What its batches have in common with it is short; together with its name nobody else is met by chance.
        died(&self.parts, |known| known.name == worker.name && is_batch_of(known.id, id), evidence).await
    }
}

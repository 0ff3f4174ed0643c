//! Suspects of remote workers (C3): one that must run alone is handed out when its worker has nothing else, and until
//! it has ended the worker gets nothing else.
//!
//! The store keeps which suspect a worker has, or is to get: its next request may come to another node. That is no more
//! than a pointer: the hold of the job says whether it still means anything.

use std::time::Duration;

use backstop_core::failure::{Cause, Decision, Verdict};
use backstop_core::job::Ending;
use backstop_core::{Lease, Timestamp};
use backstop_store::{
    Amend, ClaimedJob, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Finish, Store,
};
use serde::{Deserialize, Serialize};

use super::Remote;
use super::work::RemoteWorker;
use crate::ids::is_batch_of;

/// For how long a worker gets nothing new because a suspect waits for it, and for how long the suspect is left to
/// others after that.
const PATIENCE: Duration = Duration::from_secs(30);

/// Documents that are read in one call.
const PAGE: usize = 100;

/// The suspect that a worker has, or is to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct RemoteSuspect {
    lease: Lease,
    /// How many jobs were taken with it, and it.
    batch: u32,
    /// Since when it is held.
    since: Timestamp,
}

/// What a worker may have because of its suspect.
pub(super) enum SuspectTurn {
    /// It has none.
    None,
    /// Nothing else: it runs, or waits until the others have ended.
    Wait,
    /// It can start now; with the number of jobs in its batch.
    Ready(Box<ClaimedJob>, u32),
}

impl Remote {
    /// Looks what a worker may have now. What waits for it is kept for `term`.
    pub(super) async fn suspect_turn(
        &self,
        worker: &RemoteWorker,
        term: Duration,
    ) -> Result<SuspectTurn, StoreError> {
        let store = &self.parts.store;
        let Some((document, held, now)) = self.held_suspect(worker).await? else {
            return Ok(SuspectTurn::None);
        };
        let detail = self.parts.job(held.lease.job).await?;
        let current = detail.and_then(|detail| {
            let hold = detail.view.record.held_by(&held.lease).ok()?;
            Some((detail.view, hold))
        });
        let Some((view, hold)) = current else {
            self.forget(&document).await?;
            return Ok(SuspectTurn::None);
        };
        if hold.started_at.is_some() {
            return Ok(SuspectTurn::Wait);
        }
        if !self.has_others(worker, held.lease).await? {
            let claimed = ClaimedJob { job: view.job.into(), record: view.record, lease: held.lease };
            return Ok(SuspectTurn::Ready(Box::new(claimed), held.batch));
        }
        if self.gives_up(&document, &held, now).await? {
            return Ok(SuspectTurn::None);
        }
        match store.renew(held.lease.worker, term, Vec::new()).await {
            Ok(_) => Ok(SuspectTurn::Wait),
            Err(StoreError::NotEnlisted { .. }) => Ok(SuspectTurn::None),
            Err(error) => Err(error),
        }
    }

    /// Hands back a suspect that has waited too long for its worker, also when that worker asks for nothing.
    pub(super) async fn heed_patience(&self, worker: &RemoteWorker) -> Result<(), StoreError> {
        let Some((document, held, now)) = self.held_suspect(worker).await? else { return Ok(()) };
        let detail = self.parts.job(held.lease.job).await?;
        let hold = detail.and_then(|detail| detail.view.record.held_by(&held.lease).ok());
        if hold.is_some_and(|hold| hold.started_at.is_none()) {
            self.gives_up(&document, &held, now).await?;
        }
        Ok(())
    }

    /// Keeps which suspect a worker has, or is to get.
    pub(super) async fn note_suspect(
        &self,
        worker: &RemoteWorker,
        lease: Lease,
        batch: u32,
        since: Timestamp,
    ) -> Result<(), StoreError> {
        let body = serde_json::to_string(&RemoteSuspect { lease, batch, since }).unwrap_or_default();
        let (drawer, key) = (Drawer::Suspects, worker.id().to_string());
        let edit = Edit { drawer, key, expect: Expect::Any, body: Some(body.into()) };
        self.parts.store.amend(Amend { edits: vec![edit], ..Amend::default() }).await.map(drop)
    }

    /// True when the worker has runs under way beside this one.
    pub(super) async fn has_others(&self, worker: &RemoteWorker, suspect: Lease) -> Result<bool, StoreError> {
        let runs = self.parts.store.handed_out().await?;
        Ok(runs.iter().any(|run| run.lease != suspect && is_batch_of(run.lease.worker, worker.id())))
    }

    /// Hands back suspects that were never started, to be claimed again after `delay`. What cannot be written is found
    /// by the lease.
    pub(super) async fn hand_back(&self, suspects: &[ClaimedJob], delay: Duration) {
        let endings: Vec<Finish> = suspects.iter().map(|one| handed_back(one, delay)).collect();
        if endings.is_empty() {
            return;
        }
        if let Err(error) = self.parts.store.finish(endings).await {
            tracing::warn!(%error, jobs = suspects.len(), "suspects are requeued when their lease expires");
        }
    }

    async fn gives_up(
        &self,
        document: &Document,
        held: &RemoteSuspect,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        if now < held.since.after(PATIENCE) {
            return Ok(false);
        }
        let Some(detail) = self.parts.job(held.lease.job).await? else { return Ok(false) };
        let (job, record) = (detail.view.job.into(), detail.view.record);
        self.hand_back(&[ClaimedJob { job, record, lease: held.lease }], PATIENCE).await;
        self.forget(document).await?;
        Ok(true)
    }

    async fn held_suspect(
        &self,
        worker: &RemoteWorker,
    ) -> Result<Option<(Document, RemoteSuspect, Timestamp)>, StoreError> {
        let key = worker.id().to_string();
        let range = DocumentRange::first(Drawer::Suspects, 1).under(key);
        let found = self.parts.store.documents(range).await?;
        let held = found.items.into_iter().next();
        Ok(held
            .and_then(|document| Some((read(&document)?, document)))
            .map(|(held, document)| (document, held, found.now)))
    }

    async fn forget(&self, document: &Document) -> Result<(), StoreError> {
        forget(&*self.parts.store, std::slice::from_ref(document)).await
    }
}

fn handed_back(claimed: &ClaimedJob, delay: Duration) -> Finish {
    let decision = Decision { verdict: Verdict::Defer { delay }, ..Decision::handed_back() };
    let ending = Ending::plain(claimed.job.spec.header(), Cause::Interrupted, decision);
    Finish { lease: claimed.lease, ending }
}

/// One that cannot be read is of another time: its job is found by its lease.
fn read(document: &Document) -> Option<RemoteSuspect> {
    serde_json::from_str(&document.body).ok()
}

async fn forget(store: &dyn Store, documents: &[Document]) -> Result<(), StoreError> {
    for document in documents {
        let edit = Edit {
            drawer: Drawer::Suspects,
            key: document.key.clone(),
            expect: Expect::Revision(document.revision),
            body: None,
        };
        // Another node may have been quicker, or have noted another suspect.
        store.amend(Amend { edits: vec![edit], ..Amend::default() }).await?;
    }
    Ok(())
}

/// Removes what is kept of suspects that are held no longer: workers that die with theirs never ask again.
pub(crate) async fn sweep(store: &dyn Store) -> Result<(), StoreError> {
    let mut range = DocumentRange::first(Drawer::Suspects, PAGE);
    loop {
        let page = store.documents(range.clone()).await?;
        let held: Vec<Option<RemoteSuspect>> = page.items.iter().map(read).collect();
        let known = held.iter().flatten().map(|held| held.lease.job).collect();
        let mut details = store.jobs(known).await?.into_iter();
        let mut gone = Vec::new();
        for (document, held) in page.items.iter().zip(held) {
            let current = held.and_then(|held| details.next().flatten().map(|detail| (held, detail)));
            if current.is_none_or(|(held, detail)| detail.view.record.held_by(&held.lease).is_err()) {
                gone.push(document.clone());
            }
        }
        forget(store, &gone).await?;
        match page.items.last() {
            Some(last) if page.more => range = range.after(last.key.clone()),
            _ => return Ok(()),
        }
    }
}

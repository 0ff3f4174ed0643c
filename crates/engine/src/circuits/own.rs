//! Kinds of which some jobs name their own dependency.
//!
//! A kind is left out of claims while the circuit of what it needs is open. Jobs that need something else would be held
//! up with it: so whoever submits one marks its kind, once, in the store, and jobs of marked kinds are put off one by
//! one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_core::job::NewJob;
use backstop_store::{Amend, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Store};
use tokio::time::Instant;

use super::breakers::FRESH;

/// Documents that are read at once.
const PAGE: usize = 500;

/// How soon a mark is tried again that the store did not take.
const ASK_AGAIN: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct KnownKinds {
    read: Option<Instant>,
    kinds: HashSet<Arc<str>>,
    /// Kinds whose mark the store did not take, and when: whoever may only submit is not asked again with every job.
    refused: HashMap<Arc<str>, Instant>,
}

/// Those kinds as this process knows them.
#[derive(Debug, Default)]
pub(crate) struct OwnDependencyKinds(Mutex<KnownKinds>);

impl OwnDependencyKinds {
    fn lock(&self) -> MutexGuard<'_, KnownKinds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when some jobs of a kind are known to name their own dependency.
    pub(crate) fn has(&self, kind: &str) -> bool {
        self.lock().kinds.contains(kind)
    }

    /// Kinds of which that is known.
    pub(super) fn kinds(&self) -> Vec<Arc<str>> {
        self.lock().kinds.iter().cloned().collect()
    }

    /// True when there is nothing to store of a kind for now.
    fn is_settled(&self, kind: &str) -> bool {
        let known = self.lock();
        known.kinds.contains(kind) || known.refused.get(kind).is_some_and(|at| at.elapsed() < ASK_AGAIN)
    }

    /// Keeps what a job has shown.
    pub(crate) fn learn(&self, kind: &Arc<str>) {
        self.lock().kinds.insert(kind.clone());
    }

    /// Marks the kinds of jobs that are about to be submitted. A store that does not take the mark takes the jobs all
    /// the same: they wait with their kind until a worker has seen one.
    pub(crate) async fn mark(&self, store: &dyn Store, jobs: &[NewJob]) {
        for NewJob { spec, .. } in jobs {
            let kind = &spec.kind;
            if spec.dependency.is_none() || self.is_settled(kind) {
                continue;
            }
            let (drawer, key) = (Drawer::OwnDependencies, kind.to_string());
            let edit = Edit { drawer, key, expect: Expect::Absent, body: Some("{}".into()) };
            match store.amend(Amend { edits: vec![edit], ..Amend::default() }).await {
                Ok(_) => self.learn(kind),
                Err(error) => {
                    self.lock().refused.insert(kind.clone(), Instant::now());
                    tracing::warn!(%kind, %error,
                        "cannot store that jobs of this kind name their own dependency: they are held up with their \
                         kind while its circuit is open");
                }
            }
        }
    }

    /// Reads what others have marked, once a second at most.
    pub(super) async fn keep_up(&self, store: &dyn Store) -> Result<(), StoreError> {
        if self.lock().read.is_some_and(|at| at.elapsed() < FRESH) {
            return Ok(());
        }
        self.lock().read = Some(Instant::now());
        let mut range = DocumentRange::first(Drawer::OwnDependencies, PAGE);
        loop {
            let found = store.documents(range).await?;
            let last = found.items.last().map(|document| document.key.clone());
            self.lock().kinds.extend(found.items.into_iter().map(|document| Arc::from(document.key)));
            match last {
                Some(last) if found.more => {
                    range = DocumentRange::first(Drawer::OwnDependencies, PAGE).after(last);
                }
                _ => return Ok(()),
            }
        }
    }
}

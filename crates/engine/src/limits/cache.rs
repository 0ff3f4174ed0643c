//! The limits on runs as this process last read them (H5).
//!
//! A look for work tells the revision of the document that has them, so an idle worker never reads it; who claims
//! without a look reads it when it is a second old.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::run_limit::RunLimit;
use backstop_store::{
    Amend, Amended, Claim, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Peek, WorkStore,
    run_limits,
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::config::Config;

/// How old limits may be that a claim follows.
const FRESH: Duration = Duration::from_secs(1);

/// Times that the limits of settings are written while others change limits too.
const TRIES: usize = 20;

/// A limit as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredLimit {
    pub(crate) limit: RunLimit,
    /// Settings of a program say so, and no person has said otherwise.
    #[serde(default)]
    pub(crate) by_settings: bool,
}

/// What is known of limits.
#[derive(Debug, Clone)]
struct KnownLimits {
    at: Instant,
    revision: i64,
    limits: Arc<[RunLimit]>,
}

/// The limits as this process last read them.
#[derive(Debug, Default)]
pub(crate) struct LimitCache {
    known: Mutex<Option<KnownLimits>>,
    /// What settings say is in the store.
    published: AtomicBool,
    /// Claims made: each begins with another queue, so that a limit over several is not always used up by the first.
    claims: AtomicUsize,
}

impl LimitCache {
    fn known(&self) -> Option<KnownLimits> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, known: Option<KnownLimits>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// What was read last.
    pub(crate) fn last_read(&self) -> Arc<[RunLimit]> {
        self.known().map(|known| known.limits).unwrap_or_default()
    }

    /// Reads them again at the next claim.
    pub(crate) fn forget(&self) {
        self.keep(None);
    }

    /// Hears of the revision that a look has told; reads the limits if that is another one. False when it was.
    pub(crate) async fn follow(
        &self,
        store: &dyn WorkStore,
        config: &Config,
        peek: &Peek,
    ) -> Result<bool, StoreError> {
        match self.known() {
            Some(known) if known.revision == peek.limits && self.published.load(Ordering::Relaxed) => {
                self.keep(Some(KnownLimits { at: Instant::now(), ..known }));
                Ok(true)
            }
            // Nobody has ever set one.
            None if peek.limits == 0 && config.run_limits().is_empty() => {
                self.published.store(true, Ordering::Relaxed);
                self.keep(Some(KnownLimits { at: Instant::now(), revision: 0, limits: Arc::default() }));
                Ok(true)
            }
            _ => {
                self.read(store, config).await?;
                Ok(false)
            }
        }
    }

    /// Gives a claim these limits, as far as they may be about it.
    pub(crate) fn apply(&self, limits: Arc<[RunLimit]>, claim: &mut Claim) {
        claim.limits = limits;
        if claim.limits_in_reach().next().is_none() {
            if claim.sharing_limits().next().is_none() {
                claim.limits = Arc::default();
            }
            return;
        }
        for wanted in &mut claim.queues {
            // What is claimed ahead would use up room without running.
            let counts = |limit: &RunLimit| limit.counts_all() && limit.may_cover_queue(&wanted.queue);
            if claim.limits.iter().any(counts) {
                wanted.limit = wanted.limit.min(wanted.start);
            }
        }
        claim.queues.retain(|wanted| wanted.limit > 0);
        if !claim.queues.is_empty() {
            let first = self.claims.fetch_add(1, Ordering::Relaxed) % claim.queues.len();
            claim.queues.rotate_left(first);
        }
    }

    /// The limits in force, read again when they are a second old.
    pub(crate) async fn fresh(
        &self,
        store: &dyn WorkStore,
        config: &Config,
    ) -> Result<Arc<[RunLimit]>, StoreError> {
        match self.known().filter(|known| known.at.elapsed() < FRESH) {
            Some(known) => Ok(known.limits),
            None => self.read(store, config).await,
        }
    }

    /// Reads the limits; what settings say is written first, once.
    pub(crate) async fn read(
        &self,
        store: &dyn WorkStore,
        config: &Config,
    ) -> Result<Arc<[RunLimit]>, StoreError> {
        if !self.published.load(Ordering::Relaxed) {
            publish(store, config).await?;
            self.published.store(true, Ordering::Relaxed);
        }
        let at = Instant::now();
        let (revision, stored) = stored(store).await?;
        let limits: Arc<[RunLimit]> = stored.into_iter().map(|one| one.limit).collect();
        self.keep(Some(KnownLimits { at, revision, limits: limits.clone() }));
        Ok(limits)
    }
}

/// What is kept, with its revision; 0 when nothing is.
pub(super) async fn stored(store: &dyn WorkStore) -> Result<(i64, Vec<StoredLimit>), StoreError> {
    let range = DocumentRange::first(Drawer::RunLimits, 1).under(run_limits::KEY);
    let Some(document) = store.documents(range).await?.items.pop() else { return Ok((0, Vec::new())) };
    let limits = serde_json::from_str(&document.body).unwrap_or_else(|error| {
        tracing::error!(%error, "the stored limits cannot be read and are not followed; set them again");
        Vec::new()
    });
    Ok((document.revision, limits))
}

/// Writes all limits, unless somebody else has since `revision`; answers whether it did. A rate that is another than
/// `before` begins with a full bucket.
pub(super) async fn write(
    store: &dyn WorkStore,
    revision: i64,
    before: &[StoredLimit],
    limits: &[StoredLimit],
) -> Result<bool, StoreError> {
    let body = serde_json::to_string(limits).unwrap_or_default();
    let expect = if revision == 0 { Expect::Absent } else { Expect::Revision(revision) };
    let edit =
        Edit { drawer: Drawer::RunLimits, key: run_limits::KEY.to_owned(), expect, body: Some(body.into()) };
    let stays = |old: &StoredLimit| {
        limits.iter().any(|new| new.limit.name == old.limit.name && new.limit.rate == old.limit.rate)
    };
    // What rates of keys have left is not read under another rate: the document of a key says when it is full again.
    let emptied = before.iter().filter(|old| !stays(old)).map(|old| Edit {
        drawer: Drawer::RunBuckets,
        key: old.limit.name.to_string(),
        expect: Expect::Any,
        body: None,
    });
    let edits = [edit].into_iter().chain(emptied).collect();
    let amended = store.amend(Amend { edits, ..Amend::default() }).await?;
    Ok(matches!(amended, Amended::Done { .. }))
}

/// Leaves what settings say in the store, for every program. What a person has set stays.
async fn publish(store: &dyn WorkStore, config: &Config) -> Result<(), StoreError> {
    let wanted = config.run_limits();
    if wanted.is_empty() {
        return Ok(());
    }
    for _ in 0..TRIES {
        let (revision, mut stored) = stored(store).await?;
        let before = stored.clone();
        for limit in &wanted {
            let new = StoredLimit { limit: limit.clone(), by_settings: true };
            match stored.iter_mut().find(|one| one.limit.name == limit.name) {
                Some(one) if one.by_settings => *one = new,
                Some(_) => {}
                None => stored.push(new),
            }
        }
        if stored == before || write(store, revision, &before, &stored).await? {
            return Ok(());
        }
    }
    tracing::warn!("the limits of the settings were not stored: others change limits all the time");
    Ok(())
}

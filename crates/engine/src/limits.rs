//! How many runs there may be at once, and start in a time, over all workers (H5): changed while programs run.

pub use backstop_core::run_limit::{
    CountBy, MOST_RUN_LIMITS, RunBucket, RunLimit, RunLimitView, RunRate, RunUse,
};

pub(crate) mod cache;
mod held;

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_core::Refusal;
use backstop_core::scale::LimitedJobs;
use backstop_store::sharing::SharingWork;
use backstop_store::{Error as StoreError, QueueView};

use self::cache::StoredLimit;
use crate::engine::Backstop;
use crate::parts::EngineParts;

/// Why a limit was not changed.
#[derive(Debug, thiserror::Error)]
pub enum LimitProblem {
    /// It cannot be used.
    #[error(transparent)]
    Invalid(#[from] Refusal),
    /// There are too many.
    #[error("there are {MOST_RUN_LIMITS} limits already; delete some before setting another")]
    TooMany,
    /// Others change limits all the time.
    #[error("limits were changed by others again and again; nothing was changed, try once more")]
    Changing,
    /// The store is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The limits of a store: see [`Backstop::limits`].
#[derive(Debug, Clone, Copy)]
pub struct SharedLimits<'a> {
    parts: &'a Arc<EngineParts>,
}

impl Backstop {
    /// How many jobs may run at once and how many may start in a time, by queue and kind, over all workers of the store
    /// (H5). What settings say of a queue is among them, named `queue:NAME`. Every worker follows a change within two
    /// seconds.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::limits::{CountBy, LimitProblem, RunLimit, RunLimitView, RunRate, SharedLimits};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let limits: SharedLimits<'_> = engine.limits();
    /// let rate = RunRate { count: 100, per: Duration::from_secs(60) };
    /// let calls = RunLimit { kind: Some("call".into()), rate: Some(rate), ..RunLimit::new("partner") };
    /// limits.set(calls.clone()).await?;
    /// let seen: Vec<RunLimitView> = limits.list().await?;
    /// assert_eq!((&seen[0].limit, seen[0].used.running), (&calls, 0));
    /// assert!(limits.delete("partner").await?);
    /// // Two of each customer at once, and three graphics cards for all of them.
    /// limits.set(RunLimit { by: CountBy::Key, concurrency: Some(2), ..RunLimit::new("customer") }).await?;
    /// limits.set(RunLimit { permits: Some(3), ..RunLimit::new("cards") }).await?;
    /// let render = engine.enqueue_raw("render", "{}").limit_key("acme").permits("cards", 1);
    /// render.max_deferral(Duration::from_secs(3_600)).submit().await?;
    /// engine.enqueue_raw("report", "{}").single_instance("nightly report").submit().await?;
    /// let idle = limits.set(RunLimit::new("idle")).await;
    /// assert!(matches!(idle, Err(LimitProblem::Invalid(_))));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn limits(&self) -> SharedLimits<'_> {
        SharedLimits { parts: &self.parts }
    }
}

/// Times that a change is tried while others change limits too.
const TRIES: usize = 20;

/// Counts that one call asks for at most.
pub(crate) const ASKED_AT_ONCE: usize = 500;

/// Jobs of one queue that are looked at, of those that share something: as many could keep dozens of processes busy.
const MOST_STARTS: usize = 1_000;

/// Queues in which such jobs are looked at; what is held back in further ones counts as work.
const MOST_SHARING_QUEUES: usize = 200;

/// Asks for the pending jobs of a kind. What is used of a limit is counted by kind and queue; this one is never set.
pub(crate) fn pending_of(kind: &str, queue: Option<&str>) -> RunLimit {
    let (kind, queue) = (Some(kind.into()), queue.map(Into::into));
    RunLimit { kind, queue, concurrency: Some(u64::MAX), ..RunLimit::new("") }
}

impl<'a> SharedLimits<'a> {
    pub(crate) const fn of(parts: &'a Arc<EngineParts>) -> Self {
        Self { parts }
    }

    /// Every limit, by name, with what is used of it.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<RunLimitView>, StoreError> {
        let EngineParts { store, config, limits, .. } = &**self.parts;
        let mut known: Vec<RunLimit> = limits.read(&**store, config).await?.to_vec();
        known.sort_by(|one, other| one.name.cmp(&other.name));
        store.run_limits(known).await
    }

    /// The pending jobs of these queues for which limits that count all runs together say how many more may run.
    pub(crate) async fn limited(
        self,
        queues: &[&QueueView],
    ) -> Result<BTreeMap<String, Vec<LimitedJobs>>, StoreError> {
        let mut limited: BTreeMap<String, Vec<LimitedJobs>> = BTreeMap::new();
        let mut of_kinds: Vec<(&str, Arc<str>, u64)> = Vec::new();
        for view in self.list().await? {
            let Some(room) = view.room() else { continue };
            let RunLimit { queue, kind, .. } = view.limit;
            for about in queues.iter().filter(|one| queue.as_deref().is_none_or(|own| own == one.name)) {
                let pending = match &kind {
                    // Jobs that wait for code are not among the pending ones that a queue shows.
                    None => about.pending,
                    Some(_) if queue.is_some() => view.pending,
                    // A kind on all queues: how much of it waits on this one has to be asked for.
                    Some(kind) => {
                        if view.pending > room {
                            of_kinds.push((about.name.as_str(), kind.clone(), room));
                        }
                        continue;
                    }
                };
                let kind = kind.clone();
                limited.entry(about.name.clone()).or_default().push(LimitedJobs { kind, pending, room });
            }
        }
        for some in of_kinds.chunks(ASKED_AT_ONCE) {
            let asked = some.iter().map(|(name, kind, _)| pending_of(kind, Some(name))).collect();
            let counted = self.parts.store.run_limits(asked).await?;
            for ((name, kind, room), counted) in some.iter().zip(counted) {
                let (kind, pending, room) = (Some(kind.clone()), counted.pending, *room);
                limited.entry((*name).to_owned()).or_default().push(LimitedJobs { kind, pending, room });
            }
        }
        Ok(limited)
    }

    /// The same of jobs that share something (H5, H6): how many of them find room under their keys, names and pools.
    pub(crate) async fn limited_by_sharing(
        self,
        queues: &[&QueueView],
    ) -> Result<BTreeMap<String, Vec<LimitedJobs>>, StoreError> {
        let sharing = queues.iter().copied().filter(|view| view.sharing > 0 && !view.paused);
        let sharing: Vec<&QueueView> = sharing.take(MOST_SHARING_QUEUES).collect();
        let mut limited: BTreeMap<String, Vec<LimitedJobs>> = BTreeMap::new();
        if sharing.is_empty() {
            return Ok(limited);
        }
        let EngineParts { store, config, limits, .. } = &**self.parts;
        let known: Vec<RunLimit> = limits.fresh(&**store, config).await?.to_vec();
        let names = sharing.iter().map(|view| view.name.clone()).collect();
        for work in store.sharing_work(names, known, MOST_STARTS).await? {
            let SharingWork { queue, kind, pending, startable: room } = work;
            let jobs = LimitedJobs { kind: Some(kind), pending, room };
            limited.entry(queue.to_string()).or_default().push(jobs);
        }
        // Where nothing else waits, it is known how many more of the queue may run at once.
        for view in sharing.iter().filter(|view| view.sharing >= view.pending) {
            let Some(jobs) = limited.get_mut(&view.name) else { continue };
            if jobs.iter().any(|jobs| jobs.room < jobs.pending) {
                let room = jobs.iter().fold(0, |sum: u64, jobs| sum.saturating_add(jobs.room));
                jobs.push(LimitedJobs { kind: None, pending: view.pending, room });
            }
        }
        Ok(limited)
    }

    /// The limit of this name.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(self, name: &str) -> Result<Option<RunLimitView>, StoreError> {
        let EngineParts { store, config, limits, .. } = &**self.parts;
        let known = limits.read(&**store, config).await?;
        let Some(limit) = known.iter().find(|limit| *limit.name == *name) else { return Ok(None) };
        Ok(store.run_limits(vec![limit.clone()]).await?.pop())
    }

    /// Sets a limit, whether there is one of its name or not. It stands over what settings say.
    ///
    /// # Errors
    /// When it cannot be used, there are too many, or the store is away.
    pub async fn set(self, limit: RunLimit) -> Result<RunLimitView, LimitProblem> {
        limit.check(&self.parts.config.limits)?;
        self.change(|stored| {
            let unlike = stored.iter().position(|one| one.limit.name == limit.name);
            let new = StoredLimit { limit: limit.clone(), by_settings: false };
            match unlike {
                Some(place) => stored[place] = new,
                None if stored.len() >= MOST_RUN_LIMITS => return Err(LimitProblem::TooMany),
                None => stored.push(new),
            }
            Ok(true)
        })
        .await?;
        let mut seen = self.parts.store.run_limits(vec![limit.clone()]).await?;
        let unused = || RunLimitView {
            limit,
            used: RunUse::default(),
            pending: 0,
            now: backstop_core::Timestamp::EPOCH,
        };
        Ok(seen.pop().unwrap_or_else(unused))
    }

    /// Removes a limit; false when there is none of this name. One that settings name comes back when a program with
    /// these settings starts.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn delete(self, name: &str) -> Result<bool, LimitProblem> {
        self.change(|stored| {
            let before = stored.len();
            stored.retain(|one| *one.limit.name != *name);
            Ok(stored.len() < before)
        })
        .await
    }

    /// Changes the document of all limits; answers whether there was anything to change.
    async fn change(
        self,
        what: impl Fn(&mut Vec<StoredLimit>) -> Result<bool, LimitProblem>,
    ) -> Result<bool, LimitProblem> {
        let EngineParts { store, config, limits, .. } = &**self.parts;
        limits.read(&**store, config).await?;
        for _ in 0..TRIES {
            let (revision, mut stored) = cache::stored(&**store).await?;
            let before = stored.clone();
            if !what(&mut stored)? {
                return Ok(false);
            }
            if cache::write(&**store, revision, &before, &stored).await? {
                limits.forget();
                return Ok(true);
            }
        }
        Err(LimitProblem::Changing)
    }
}

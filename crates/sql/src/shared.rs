//! What the transactions of one store have in common.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use backstop_store::show::KnownTotals;
use backstop_store::working_set::{CommitOrder, Fences, HeldJobs, Wants};
use backstop_store::{Clock, Observer, Silent};

use crate::access::Access;
use crate::connection::Backend;
use crate::hold::Context;
use crate::lanes::Lanes;
use crate::turn_memory::TurnMemory;
use crate::value::Value;

/// How a store is to behave.
pub struct StoreSettings {
    /// Where it is, without credentials.
    pub location: String,
    /// Connections that all calls share, at most. Some kinds of calls have one more each.
    pub connections: usize,
    /// None: the server's own clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// How long one verb may take.
    pub deadline: Duration,
    /// How long a lock is waited for.
    pub lock_wait: Duration,
}

/// What the transactions of one store have in common.
pub struct Shared {
    pub(crate) settings: StoreSettings,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) access: Access,
    /// The lanes that this process has met.
    pub lanes: Lanes,
    pub(crate) totals: KnownTotals,
    pub(crate) held_jobs: HeldJobs,
    pub(crate) commit_order: CommitOrder,
    /// What is known of jobs that take turns (H5).
    pub turns: TurnMemory,
    /// What is known of the counter of fences.
    pub fences: Fences,
    statements: AtomicU64,
    commits: AtomicU64,
    observer: RwLock<Arc<dyn Observer>>,
}

impl Shared {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, settings: StoreSettings) -> Self {
        Self {
            access: Access::new(settings.connections),
            settings,
            backend,
            lanes: Lanes::default(),
            turns: TurnMemory::default(),
            totals: KnownTotals::default(),
            held_jobs: HeldJobs::default(),
            commit_order: CommitOrder::default(),
            fences: Fences::default(),
            statements: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            observer: RwLock::new(Arc::new(Silent)),
        }
    }

    /// Where the store is, without credentials.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.settings.location
    }

    pub(crate) fn observe(&self, observer: Arc<dyn Observer>) {
        // The lock guards one pointer, which no panic can leave half written.
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = observer;
    }

    /// Who hears of commits.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.observer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The moment to tell statements: that of a clock of ours, or NULL for the server's.
    #[must_use]
    pub fn moment(&self) -> Value {
        Value::Int(self.settings.clock.as_ref().map(|clock| clock.now().as_micros()))
    }

    /// What a session needs to know beside its connection.
    pub(crate) fn context(&self) -> Context<'_> {
        Context { lanes: &self.lanes, held_jobs: &self.held_jobs, moment: self.moment(), wants: self.wants() }
    }

    /// What whoever hears of commits wants of them.
    #[must_use]
    pub fn wants(&self) -> Wants {
        Wants::of(&*self.observer())
    }

    /// Says that work may have become claimable on queues: at once here, soon in other processes (L13).
    pub(crate) fn work_arrived(&self, queues: BTreeSet<Arc<str>>) {
        self.observer().work_arrived();
        self.backend.tell_others(queues);
    }

    pub(crate) fn count_statements(&self, number: usize) {
        self.statements.fetch_add(u64::try_from(number).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn count_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Statements sent so far, without those that begin and end transactions.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Transactions committed so far.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

//! What the transactions of one store have in common.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use backstop_core::Timestamp;
use backstop_store::desk::{Fences, Hands, Turns, Wants};
use backstop_store::encryption::TransportEncryption;
use backstop_store::show::KnownTotals;
use backstop_store::{Clock, Observer, Silent};
use deadpool_postgres::Pool;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::access::Access;
use crate::collect::Collector;
use crate::cursors::Cursors;
use crate::hold::Ground;
use crate::lanes::Lanes;
use crate::offers::Offers;
use crate::open::Place;
use crate::session::Schema;
use crate::store::Options;
use crate::values::Value;

/// How long arrivals are kept after their transactions have ended, at least.
const ARRIVALS_KEPT: Duration = Duration::from_secs(60);

/// What the transactions of one store have in common.
pub(crate) struct Shared {
    /// Where the store is, without credentials.
    pub(crate) location: String,
    pub(crate) schema: Schema,
    pub(crate) pool: Pool,
    pub(crate) access: Access,
    /// How a statement is canceled that nobody waits for any more, and where that is done.
    pub(crate) connector: MakeRustlsConnect,
    /// How its connections are protected.
    pub(crate) encryption: TransportEncryption,
    /// Nothing stands between us and the server.
    pub(crate) direct: bool,
    pub(crate) runtime: Handle,
    /// None: the server's own clock.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// How long one verb may take.
    pub(crate) deadline: Duration,
    /// How long a lock is waited for.
    pub(crate) lock_wait: Duration,
    keep_idle: Duration,
    /// What `doctor` calls an old transaction.
    pub(crate) old_transaction: Duration,
    /// See [`Options::short_claims`].
    pub(crate) short_claims: bool,
    pub(crate) lanes: Lanes,
    pub(crate) totals: KnownTotals,
    pub(crate) hands: Hands,
    pub(crate) cursors: Cursors,
    /// When this process last removed arrivals that nobody needs any more.
    arrivals_cleared: Mutex<Option<Instant>>,
    pub(crate) turns: Turns,
    /// What is known of the sequence of fences.
    pub(crate) fences: Fences,
    pub(crate) collector: Collector,
    pub(crate) offers: Offers,
    /// Statements sent and transactions committed so far.
    pub(crate) statements: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// Queues where work arrived that other processes have not heard of, and the bell for whoever tells them.
    arrivals: Mutex<BTreeSet<Arc<str>>>,
    pub(crate) bell: Notify,
    /// Queues that workers of this process serve.
    served: RwLock<HashSet<Arc<str>>>,
    /// True while notices of other processes reach us.
    pub(crate) listening: AtomicBool,
    observer: RwLock<Arc<dyn Observer>>,
}

impl Shared {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(
        place: Place,
        pool: Pool,
        connector: MakeRustlsConnect,
        direct: bool,
        options: Options,
    ) -> Self {
        let Options { clock, schema, connections, deadline, lock_wait, keep_idle, .. } = options;
        let (old_transaction, short_claims) = (options.old_transaction, options.short_claims);
        Self {
            location: place.location,
            schema,
            pool,
            access: Access::new(connections),
            connector,
            encryption: place.encryption,
            direct,
            runtime: Handle::current(),
            clock,
            deadline,
            lock_wait,
            keep_idle,
            old_transaction,
            short_claims,
            lanes: Lanes::default(),
            totals: KnownTotals::default(),
            hands: Hands::default(),
            cursors: Cursors::default(),
            arrivals_cleared: Mutex::default(),
            turns: Turns::default(),
            fences: Fences::default(),
            collector: Collector::default(),
            offers: Offers::default(),
            statements: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            arrivals: Mutex::default(),
            bell: Notify::new(),
            served: RwLock::default(),
            listening: AtomicBool::new(false),
            observer: RwLock::new(Arc::new(Silent)),
        }
    }

    pub(crate) fn observe(&self, observer: Arc<dyn Observer>) {
        // The lock guards one pointer, which no panic can leave half written.
        *self.observer.write().unwrap_or_else(PoisonError::into_inner) = observer;
    }

    pub(crate) fn observer(&self) -> Arc<dyn Observer> {
        self.observer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The moment to tell statements: that of a clock of ours, or NULL for the server's.
    pub(crate) fn moment(&self) -> Value {
        Value::Int(self.clock.as_ref().map(|clock| clock.now().as_micros()))
    }

    /// What a session needs to know beside its connection.
    pub(crate) fn ground(&self) -> Ground<'_> {
        Ground {
            lanes: &self.lanes,
            hands: &self.hands,
            moment: self.moment(),
            wants: Wants::of(&*self.observer()),
        }
    }

    /// Says that work may have become claimable on queues: at once here, soon in other processes (L13).
    pub(crate) fn work_arrived(&self, queues: impl IntoIterator<Item = Arc<str>>) {
        self.observer().work_arrived();
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).extend(queues);
        self.bell.notify_one();
    }

    /// The queues of which other processes have not heard.
    pub(crate) fn take_arrivals(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True when it is time to remove arrivals again, which counts as done then. Cursors that were set before the last
    /// time are worth nothing after the next one, so every process that claims or looks has had this long to set them.
    pub(crate) fn may_clear_arrivals(&self, now: Instant) -> bool {
        let mut cleared = self.arrivals_cleared.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = cleared.is_none_or(|at| now.saturating_duration_since(at) >= ARRIVALS_KEPT);
        if is_due {
            *cleared = Some(now);
        }
        is_due
    }

    /// Closes connections that nobody has used for a while.
    pub(crate) fn close_idle(&self) {
        self.pool.retain(|_, metrics| metrics.last_used() < self.keep_idle);
    }

    /// Notes the queues of a worker of this process.
    pub(crate) fn serve(&self, queues: &[Arc<str>]) {
        self.served.write().unwrap_or_else(PoisonError::into_inner).extend(queues.iter().cloned());
    }

    /// True when a worker of this process serves the queue.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        self.served.read().unwrap_or_else(PoisonError::into_inner).contains(queue)
    }

    pub(crate) fn count_statements(&self, number: usize) {
        self.statements.fetch_add(u64::try_from(number).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// A moment that a statement answered.
pub(crate) fn moment_of(rows: Vec<crate::values::Row>) -> Result<Timestamp, crate::error::Failure> {
    let row = rows.into_iter().next();
    row.ok_or_else(|| crate::error::Failure::Unreadable("the clock gave no answer".to_owned()))?.moment()
}

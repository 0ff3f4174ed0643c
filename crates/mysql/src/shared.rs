//! What the transactions of one store have in common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_store::desk::{Fences, Hands, Turns, Wants};
use backstop_store::encryption::TransportEncryption;
use backstop_store::show::KnownTotals;
use backstop_store::{Clock, Observer, Silent};
use mysql_async::{Opts, Pool};
use tokio::runtime::Handle;

use crate::access::Access;
use crate::hold::Ground;
use crate::lanes::Lanes;
use crate::open::Place;
use crate::session::Prefix;
use crate::store::Options;
use crate::values::Value;

/// What the transactions of one store have in common.
pub(crate) struct Shared {
    /// Where the store is, without credentials.
    pub(crate) location: String,
    pub(crate) prefix: Prefix,
    pub(crate) pool: Pool,
    pub(crate) access: Access,
    /// Where a statement is ended that nobody waits for any more, and by whom.
    pub(crate) opts: Opts,
    /// How its connections are protected.
    pub(crate) encryption: TransportEncryption,
    pub(crate) runtime: Handle,
    /// None: the server's own clock.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// How long one verb may take.
    pub(crate) deadline: Duration,
    /// How long a lock is waited for.
    pub(crate) lock_wait: Duration,
    /// The age from which a transaction is worth a word.
    pub(crate) old_transaction: Duration,
    pub(crate) lanes: Lanes,
    pub(crate) totals: KnownTotals,
    pub(crate) hands: Hands,
    pub(crate) turns: Turns,
    /// What is known of the counter of fences.
    pub(crate) fences: Fences,
    /// Statements sent and transactions committed so far.
    pub(crate) statements: AtomicU64,
    pub(crate) commits: AtomicU64,
    observer: RwLock<Arc<dyn Observer>>,
}

impl Shared {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(place: Place, pool: Pool, options: Options) -> Self {
        let Options { clock, prefix, connections, deadline, lock_wait, old_transaction, .. } = options;
        Self {
            location: place.location,
            prefix,
            pool,
            access: Access::new(connections),
            opts: place.opts,
            encryption: place.encryption,
            runtime: Handle::current(),
            clock,
            deadline,
            lock_wait,
            old_transaction,
            lanes: Lanes::default(),
            totals: KnownTotals::default(),
            hands: Hands::default(),
            turns: Turns::default(),
            fences: Fences::default(),
            statements: AtomicU64::new(0),
            commits: AtomicU64::new(0),
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

    pub(crate) fn count_statements(&self, number: usize) {
        self.statements.fetch_add(u64::try_from(number).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// A moment that a statement answered.
pub(crate) fn moment_of(rows: Vec<crate::values::Row>) -> Result<Timestamp, crate::error::Failure> {
    let row = rows.into_iter().next();
    row.ok_or_else(|| crate::error::Failure::Unreadable("the clock gave no answer".to_owned()))?.moment()
}

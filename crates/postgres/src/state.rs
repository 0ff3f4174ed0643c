//! What one process knows of one PostgreSQL server beside what all stores know: how it is reached, where its claims
//! have come to, who waits for work here, and who is to be told of it elsewhere.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use backstop_sql::Shared;
use backstop_store::encryption::TransportEncryption;
use deadpool_postgres::Pool;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;

use crate::cursors::Cursors;
use crate::notice_pause::NoticePause;
use crate::offers::Offers;
use crate::options::Options;
use crate::schema::Schema;
use crate::waiting_submits::WaitingSubmits;

/// How long arrivals are kept after their transactions have ended, at least.
const ARRIVALS_KEPT: Duration = Duration::from_secs(60);

/// What one process knows of its server.
pub(crate) struct ServerState {
    pub(crate) schema: Schema,
    pub(crate) pool: Pool,
    /// How a statement is canceled that nobody waits for any more, and where that is done.
    pub(crate) connector: MakeRustlsConnect,
    pub(crate) runtime: Handle,
    /// Nothing stands between us and the server.
    pub(crate) direct: bool,
    /// How its connections are protected.
    pub(crate) encryption: TransportEncryption,
    keep_idle: Duration,
    /// What `doctor` calls an old transaction.
    pub(crate) old_transaction: Duration,
    /// See [`Options::long_way`].
    pub(crate) long_way: bool,
    pub(crate) cursors: Cursors,
    /// When this process last removed arrivals that nobody needs any more.
    arrivals_cleared: Mutex<Option<Instant>>,
    pub(crate) submits: WaitingSubmits,
    pub(crate) offers: Offers,
    /// Queues where work arrived that other processes have not heard of, and the signal for whoever tells them.
    arrivals: Mutex<BTreeSet<Arc<str>>>,
    pub(crate) arrived: Notify,
    /// Queues that workers of this process serve.
    served: RwLock<HashSet<Arc<str>>>,
    /// True while notices of other processes reach us.
    pub(crate) listening: AtomicBool,
    /// When they are followed.
    pub(crate) notices: NoticePause,
}

impl ServerState {
    /// Must be called inside a tokio runtime.
    pub(crate) fn new(
        pool: Pool,
        connector: MakeRustlsConnect,
        direct: bool,
        encryption: TransportEncryption,
        options: &Options,
    ) -> Self {
        Self {
            schema: options.schema.clone(),
            pool,
            connector,
            runtime: Handle::current(),
            direct,
            encryption,
            keep_idle: options.keep_idle,
            old_transaction: options.old_transaction,
            long_way: options.long_way,
            cursors: Cursors::default(),
            arrivals_cleared: Mutex::default(),
            submits: WaitingSubmits::default(),
            offers: Offers::default(),
            arrivals: Mutex::default(),
            arrived: Notify::new(),
            served: RwLock::default(),
            listening: AtomicBool::new(false),
            notices: NoticePause::new(Uuid::now_v7().as_bytes()[15]),
        }
    }

    /// Notes queues of which other processes are to be told.
    pub(crate) fn note_arrivals(&self, queues: BTreeSet<Arc<str>>) {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).extend(queues);
        self.arrived.notify_one();
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
}

/// A store, as those who work beside its verbs hold it.
#[derive(Clone)]
pub(crate) struct StoreHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<ServerState>,
}

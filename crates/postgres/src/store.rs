//! The store as callers open it.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::Refusal;
use backstop_sql::{ServerStore, Shared, SqlFailure, StoreSettings, look_at_fences};
use backstop_store::{
    Answer, Claim, Claimed, Error, Finding, InspectStore, Layer, NewWorker, Observer, Signal, Store, Submit,
    Submitted, WorkStore,
};
use tokio::task::JoinHandle;

use crate::backend::{PostgresBackend, no_connection};
use crate::cancel;
use crate::claim_at_submit;
use crate::error::of_driver;
use crate::group_commit;
use crate::listen::{self, WeakStoreHandle};
use crate::migrate;
use crate::open::{self, Place};
use crate::options::Options;
use crate::schema::roles::roles;
use crate::server::PostgresServer;
use crate::state::{ServerState, StoreHandle};

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    store: ServerStore,
    handle: StoreHandle,
    found: Option<i64>,
    listen: Option<Arc<Place>>,
    probe: Duration,
    token: Arc<str>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PostgresStore {
    /// Connects, and makes or migrates the tables as `options` allow. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Unusable`] says in one sentence what is wrong and what to do about it; [`Error::Unavailable`] when the
    /// server cannot be reached.
    pub async fn open(url: &str, mut options: Options) -> Result<Self, Error> {
        let place = open::place(url, &mut options)?;
        let listen = open::listen_place(&place, &options)?;
        let connector = open::connector(&place)?;
        let pool = open::pool(&place, connector.clone(), &options)?;
        let found = migrate::prepare(&pool, &place.location, &options).await?;
        let direct = cancel::is_direct(&pool, &place).await;
        let state = Arc::new(ServerState::new(pool, connector, direct, place.encryption, &options));
        let Options { clock, connections, deadline, lock_wait, probe, .. } = options;
        let settings = StoreSettings { location: place.location, connections, clock, deadline, lock_wait };
        let shared = Arc::new(Shared::new(Arc::new(PostgresBackend(state.clone())), settings));
        // What cannot be seen or raised now, or by this user, is found by the claim that meets it.
        let _ = look_at_fences(&shared).await;
        let store = ServerStore::new(shared.clone(), Arc::new(PostgresServer(state.clone())));
        let (handle, token) = (StoreHandle { shared, state }, listen::token());
        let notifier =
            handle.state.runtime.spawn(listen::notify(WeakStoreHandle::of(&handle), token.clone()));
        Ok(Self { store, handle, found, listen, probe, token, tasks: Mutex::new(vec![notifier]) })
    }

    /// The version of the tables when the store was opened; none when there were none.
    #[must_use]
    pub const fn found_version(&self) -> Option<i64> {
        self.found
    }

    /// Makes the roles of [`roles`], or brings them up to date.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the user may not.
    pub async fn apply_roles(&self) -> Result<(), Error> {
        let StoreHandle { shared, state } = &self.handle;
        let failed = |failure: SqlFailure| failure.into_error(shared.location(), false);
        let client = state.pool.get().await.map_err(|problem| failed(no_connection(problem)))?;
        client.batch_execute(&roles(&state.schema)).await.map_err(|error| failed(of_driver(error)))
    }

    /// Statements this store has sent, without those that begin and end transactions.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.handle.shared.statements()
    }

    /// Transactions this store has committed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.handle.shared.commits()
    }

    /// Workers of this process that wait to be handed what is stored.
    #[must_use]
    pub fn standing_offers(&self) -> usize {
        self.handle.state.offers.standing()
    }

    /// True while notices of other processes are heard.
    #[must_use]
    pub fn is_listening(&self) -> bool {
        self.handle.state.listening.load(Ordering::Acquire)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().for_each(JoinHandle::abort);
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = self.handle.shared.location();
        f.debug_struct("PostgresStore").field("location", &location).finish_non_exhaustive()
    }
}

/// What this store does beside what every one on a server does: it shares commits, and hears of other processes.
impl Layer for PostgresStore {
    fn below(&self) -> &dyn Store {
        &self.store
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.store.observe(observer);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // The first task tells others; the second one, started once somebody wants to hear, listens to them.
        if let Some(place) = self.listen.as_ref().filter(|_| tasks.len() == 1) {
            let (handle, token) = (WeakStoreHandle::of(&self.handle), self.token.clone());
            let listener = listen::listen(handle, place.clone(), token, self.probe);
            tasks.push(self.handle.state.runtime.spawn(listener));
        }
    }

    fn submit(&self, mut submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        match submit.jobs.pop() {
            Some(job) if submit.jobs.is_empty() => Box::pin(group_commit::submit_one(&self.handle, job)),
            last => {
                submit.jobs.extend(last);
                self.store.submit(submit)
            }
        }
    }

    fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
        Box::pin(claim_at_submit::offer(&self.handle, claim, withdrawn))
    }

    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()> {
        self.handle.state.serve(&worker.queues);
        self.store.enlist(worker)
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        let findings = self.store.check();
        // Notices may come another way, which the statements of the check have not gone.
        let another = self.listen.as_ref().map(|place| &place.encryption);
        let another = another.filter(|encryption| **encryption != self.handle.state.encryption);
        let notices = another.map(|encryption| Finding {
            subject: "notices".to_owned(),
            ..encryption.finding(encryption.promised(), None)
        });
        Box::pin(async move { Ok(findings.await?.into_iter().chain(notices).collect()) })
    }
}

//! The store as callers open it.

use std::fmt;
use std::sync::Arc;

use backstop_sql::{ServerStore, Shared, StoreSettings, look_at_fences};
use backstop_store::{Error, Layer, Store};
use tokio::runtime::Handle;

use crate::backend::MysqlBackend;
use crate::open;
use crate::options::Options;
use crate::packet::packets;
use crate::prefix::Prefix;
use crate::schema::{self, roles::roles};
use crate::server::MysqlServer;
use crate::state::ServerState;

/// A store in a MariaDB or MySQL database.
pub struct MysqlStore {
    store: ServerStore,
    shared: Arc<Shared>,
    found: Option<i64>,
}

impl MysqlStore {
    /// Connects, and makes or migrates the tables as `options` allow. Must be called inside a tokio runtime, which has
    /// to last as long as the store: its connections live there, and without them every call fails as unavailable.
    ///
    /// # Errors
    /// [`Error::Unusable`] says in one sentence what is wrong and what to do about it; [`Error::Unavailable`] when the
    /// server cannot be reached.
    pub async fn open(url: &str, mut options: Options) -> Result<Self, Error> {
        let place = open::protect(open::place(url, &mut options)?).await?;
        let pool = open::pool(&place, &options);
        let found = open::prepare(&pool, &place.location, &options).await?;
        let Options { clock, prefix, connections, deadline, lock_wait, old_transaction, .. } = options;
        let open::Place { opts, encryption, location } = place;
        let runtime = Handle::current();
        let state = Arc::new(ServerState { prefix, pool, opts, runtime, encryption, old_transaction });
        let settings = StoreSettings { location, connections, clock, deadline, lock_wait };
        let shared = Arc::new(Shared::new(Arc::new(MysqlBackend(state.clone())), settings));
        // What cannot be seen or raised now, or by this user, is found by the claim that meets it.
        let _ = look_at_fences(&shared).await;
        let store = ServerStore::new(shared.clone(), Arc::new(MysqlServer(state)));
        Ok(Self { store, shared, found })
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
    pub async fn apply_roles(url: &str) -> Result<(), Error> {
        let mut options = Options::default();
        let place = open::place(url, &mut options)?;
        open::apply(place, &options, roles(url)?).await
    }

    /// The statements that make the tables, for those who let only a person run such. Each can be run again; MySQL
    /// complains then of columns and indexes that are there already, which does no harm.
    #[must_use]
    pub fn migrations(prefix: &Prefix) -> Vec<String> {
        let each = |query| packets(&[query], prefix).into_iter().map(|packet| packet.text);
        schema::steps(0).flatten().flat_map(each).collect()
    }

    /// Statements this store has sent, without those that begin and end transactions.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.shared.statements()
    }

    /// Transactions this store has committed.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.shared.commits()
    }
}

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlStore").field("location", &self.shared.location()).finish_non_exhaustive()
    }
}

impl Layer for MysqlStore {
    fn below(&self) -> &dyn Store {
        &self.store
    }
}

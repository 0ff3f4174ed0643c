//! Where a campaign takes place: a file, or a database server that is shared or its own.
//!
//! Owns the store's address and the folder of the journals. A campaign is written once and run on every location.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use backstop::{Backstop, Config};
use backstop_testbed::{DatabaseSettings, Mariadb, Postgres, SteppedClock, TestbedError, shared};

use crate::CampaignFolder;
use crate::node::NodeStart;
use crate::stepped::{self, FileClock};

/// A store's place and the folder beside it.
#[derive(Debug)]
pub struct StoreLocation {
    url: String,
    // Declared before the folder: the server stops first.
    server: Mutex<Server>,
    folder: CampaignFolder,
}

/// The server that a location starts and may kill.
#[derive(Debug)]
enum Server {
    None,
    Postgres(Box<Postgres>),
    Mariadb(Box<Mariadb>),
}

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// A file.
    Sqlite,
    /// A schema or a server.
    Postgres,
    /// A database or a server.
    Mariadb,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Mariadb => "MariaDB",
        })
    }
}

/// What the testbed cannot do, no campaign can do without.
fn must<T>(done: Result<T, TestbedError>) -> T {
    done.unwrap_or_else(|trouble| panic!("{trouble}"))
}

impl StoreLocation {
    /// A store for faults that hit workers and clients: a file, or a place of its own on the shared server.
    #[must_use]
    pub fn new(kind: StoreKind, name: &str) -> Self {
        let folder = CampaignFolder::new(name);
        let own = format!("c{}_{}", std::process::id(), fastrand::u32(..));
        let url = match kind {
            StoreKind::Sqlite => format!("sqlite:{}", folder.join("jobs.db").display()),
            StoreKind::Postgres => format!("{}?schema={own}", shared::postgres()),
            StoreKind::Mariadb => format!("{}?prefix={own}_", shared::mariadb()),
        };
        Self { url, server: Mutex::new(Server::None), folder }
    }

    /// A durable server of its own, for faults that hit the server.
    ///
    /// # Panics
    /// When it cannot be started, or the kind has no server.
    #[must_use]
    pub fn durable(kind: StoreKind, name: &str) -> Self {
        let folder = CampaignFolder::new(name);
        let settings = DatabaseSettings::new(folder.join("server")).durable();
        let server = match kind {
            StoreKind::Sqlite => panic!("a file has no server"),
            StoreKind::Postgres => {
                // After a crash every file is written out, one by one or all at once; the data is as safe both ways.
                let settings = settings.with("recovery_init_sync_method", "syncfs");
                Server::Postgres(Box::new(must(Postgres::start(settings))))
            }
            StoreKind::Mariadb => Server::Mariadb(Box::new(must(Mariadb::start(settings)))),
        };
        let url = match &server {
            Server::None => String::new(),
            Server::Postgres(server) => server.url(),
            Server::Mariadb(server) => server.url(),
        };
        Self { url, server: Mutex::new(server), folder }
    }

    /// A store whose clock the test steps: see [`crate::stepped`].
    ///
    /// # Panics
    /// When libfaketime is not installed, or the folder cannot be written.
    #[must_use]
    pub fn stepped(kind: StoreKind, name: &str) -> (Self, SteppedClock) {
        let location = Self::new(kind, name);
        let clock = must(SteppedClock::new(location.folder()));
        (location, clock)
    }

    /// What the environment of a process says, so that the store it opens goes by this clock.
    #[must_use]
    pub fn variables(&self, clock: &SteppedClock) -> Vec<(&'static str, String)> {
        match self.kind() {
            StoreKind::Sqlite => clock.variables().to_vec(),
            StoreKind::Postgres | StoreKind::Mariadb => {
                vec![(stepped::VARIABLE, clock.file().display().to_string())]
            }
        }
    }

    /// Opens the store by this clock. This process goes by the machine's, and so does a file that it opens.
    ///
    /// # Panics
    /// When it does not open.
    pub async fn open_by(&self, clock: &SteppedClock) -> Backstop {
        let clock =
            Some(FileClock::new(clock.file().to_owned())).filter(|_| self.kind() != StoreKind::Sqlite);
        Backstop::on(stepped::open(&self.url, clock).await.expect("the store opens"), Config::default())
    }

    /// Which store it is.
    #[must_use]
    pub fn kind(&self) -> StoreKind {
        match self.url.split_once(':') {
            Some(("sqlite", _)) => StoreKind::Sqlite,
            Some(("postgres", _)) => StoreKind::Postgres,
            _ => StoreKind::Mariadb,
        }
    }

    /// The store's address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The value of a setting in the store's address, such as its schema.
    ///
    /// # Panics
    /// When it has no such setting.
    #[must_use]
    pub fn place(&self, setting: &str) -> &str {
        let settings = self.url.split_once('?').map_or("", |(_, settings)| settings);
        let value = settings.split('&').find_map(|one| one.strip_prefix(setting)?.strip_prefix('='));
        value.expect("the ground has a place of its own on the server")
    }

    /// The address with one more setting, such as `deadline=2`.
    #[must_use]
    pub fn url_with(&self, setting: &str) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{separator}{setting}", self.url)
    }

    /// Where the journals and the log are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where the server listens.
    ///
    /// # Panics
    /// When the address has no port, as that of a file.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let host = self.url.rsplit_once('@').map_or("", |(_, host)| host);
        let port = host.split(['/', '?']).next().and_then(|host| host.rsplit(':').next());
        let port = port.and_then(|port| port.parse().ok()).expect("the address of a server has a port");
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    /// How a process is started that works here and submits.
    #[must_use]
    pub fn node<'a>(&'a self, program: &'a str, lease_ms: u64) -> NodeStart<'a> {
        NodeStart { program, mode: "work-and-submit", url: &self.url, folder: self.folder(), lease_ms }
    }

    /// Opens the store, without a journal.
    ///
    /// # Panics
    /// When it does not open.
    pub async fn open(&self) -> Backstop {
        Backstop::open(&self.url).await.expect("the store opens")
    }

    /// Kills the server like a crash.
    ///
    /// # Panics
    /// When the location has no server of its own, or it does not end.
    pub fn kill(&self) {
        match &mut *self.server.lock().unwrap_or_else(PoisonError::into_inner) {
            Server::None => panic!("this ground has no server of its own"),
            Server::Postgres(server) => must(server.kill()),
            Server::Mariadb(server) => must(server.kill()),
        }
    }

    /// Starts the server again, on the same port and data.
    ///
    /// # Panics
    /// As [`StoreLocation::kill`].
    pub fn start_again(&self) {
        match &mut *self.server.lock().unwrap_or_else(PoisonError::into_inner) {
            Server::None => panic!("this ground has no server of its own"),
            Server::Postgres(server) => must(server.start_again()),
            Server::Mariadb(server) => must(server.start_again()),
        }
    }
}

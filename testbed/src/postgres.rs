//! A PostgreSQL server of our own.
//!
//! Owns how the cluster is made and configured. What concerns two servers is in `standby`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::account::{self, SystemUser};
use crate::daemon::{Daemon, DaemonLaunch};
use crate::port::{self, Port};
use crate::settings::DatabaseSettings;
use crate::trouble::TestbedError;
use crate::{client, find};

/// The superuser, and the database that every server begins with.
pub(crate) const NAME: &str = "backstop";

/// How often a start with another port is tried when somebody took the first.
const PORT_TRIES: usize = 5;

/// A running PostgreSQL; it is stopped when this value goes away, and killed when this process dies.
#[derive(Debug)]
pub struct Postgres {
    pub(crate) programs: PathBuf,
    pub(crate) account: Option<SystemUser>,
    pub(crate) settings: DatabaseSettings,
    port: Port,
    daemon: Daemon,
}

impl Postgres {
    /// Makes a cluster in the folder, starts it on a free loopback port and creates the database `backstop`.
    ///
    /// # Errors
    /// When PostgreSQL 15 or later is not installed, or the server does not come up within a minute; the message ends
    /// with the end of its log.
    pub fn start(settings: DatabaseSettings) -> Result<Self, TestbedError> {
        let programs = find::needed_postgres()?;
        let account = account::account("postgres")?;
        account::prepare(&settings.folder, account.as_ref())?;
        if !data(&settings.folder).join("PG_VERSION").is_file() {
            init(&programs, account.as_ref(), &settings.folder)?;
        }
        let server = Self::launch(programs, account, settings)?;
        let found = server
            .psql_in("postgres", &format!("select count(*) from pg_database where datname = '{NAME}'"))?;
        if found == "0" {
            server.create_database(NAME)?;
        }
        Ok(server)
    }

    /// Starts the server on data that is there, on the first reserved port that it can have.
    pub(crate) fn launch(
        programs: PathBuf,
        account: Option<SystemUser>,
        settings: DatabaseSettings,
    ) -> Result<Self, TestbedError> {
        let mut tries = 1;
        let given = settings.certificate.as_ref().map(|one| one.give(&settings.folder, account.as_ref()));
        let given = given.transpose()?;
        loop {
            let port = port::reserve()?;
            let launch = DaemonLaunch {
                program: programs.join("postgres"),
                arguments: arguments(&settings, port.number, given.as_ref()),
                account: account.clone(),
                folder: settings.folder.clone(),
                log: settings.folder.join("log"),
                stop_signal: "INT",
            };
            let mut daemon = Daemon::new(launch);
            match daemon.start(readiness(&settings.folder)) {
                Ok(()) => return Ok(Self { programs, account, settings, port, daemon }),
                Err(trouble) if trouble.is_taken_port() && tries < PORT_TRIES => tries += 1,
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// The address of the database `backstop`.
    pub fn url(&self) -> String {
        self.url_for(NAME)
    }

    /// The address of another database of this server.
    pub fn url_for(&self, database: &str) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{database}", self.port())
    }

    /// The loopback port; it stays the same over [`Postgres::start_again`].
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The id of the postmaster, when it runs.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.pid()
    }

    /// Where the server writes its log.
    pub fn log(&self) -> &Path {
        &self.daemon.launch.log
    }

    /// Creates an empty database.
    ///
    /// # Errors
    /// When the server refuses, for example because there is one of that name.
    pub fn create_database(&self, name: &str) -> Result<(), TestbedError> {
        self.psql_in("postgres", &format!("create database \"{name}\"")).map(drop)
    }

    /// Runs SQL in the database `backstop`; rows are lines, their columns separated by `|`.
    ///
    /// # Errors
    /// At the first statement that fails, with the server's words.
    pub fn psql(&self, sql: &str) -> Result<String, TestbedError> {
        self.psql_in(NAME, sql)
    }

    /// Runs SQL in another database of this server; see [`Postgres::psql`].
    ///
    /// # Errors
    /// At the first statement that fails, with the server's words.
    pub fn psql_in(&self, database: &str, sql: &str) -> Result<String, TestbedError> {
        self.psql_at(&self.url_for(database), sql)
    }

    /// Runs SQL at another address that leads to this server, such as that of a proxy; see [`Postgres::psql`].
    ///
    /// # Errors
    /// At the first statement that fails, with the server's words.
    pub fn psql_at(&self, url: &str, sql: &str) -> Result<String, TestbedError> {
        psql(&self.programs.join("psql"), url, sql)
    }

    /// Kills the postmaster and all its children without warning; returns when nothing of them is left.
    ///
    /// # Errors
    /// When a process does not end.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        self.daemon.kill()
    }

    /// Stops the server in order: clients are disconnected, everything is written.
    ///
    /// # Errors
    /// When a process does not end.
    pub fn stop(&mut self) -> Result<(), TestbedError> {
        self.daemon.stop()
    }

    /// Starts the server after [`Postgres::kill`] or [`Postgres::stop`], on the same port and data; a server that
    /// still runs is killed first.
    ///
    /// # Errors
    /// When the server does not come up within a minute.
    pub fn start_again(&mut self) -> Result<(), TestbedError> {
        self.daemon.start(readiness(&self.settings.folder))
    }
}

/// Runs SQL at an address. What the environment says about PostgreSQL is meant for other servers.
pub(crate) fn psql(program: &Path, url: &str, sql: &str) -> Result<String, TestbedError> {
    let mut command = std::process::Command::new(program);
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", "-"]);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PG")) {
            command.env_remove(name);
        }
    }
    client::run(command, sql)
}

/// Where the cluster is inside the server's folder.
pub(crate) fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn init(programs: &Path, account: Option<&SystemUser>, folder: &Path) -> Result<(), TestbedError> {
    let mut command = account::command(programs.join("initdb"), account, false);
    command.args(["--no-sync", "-A", "trust", "-U", NAME, "--encoding=UTF8", "--locale=C.UTF-8", "-D"]);
    command.arg(data(folder)).current_dir(folder);
    client::run(command, "").map(drop)
}

fn arguments(settings: &DatabaseSettings, port: u16, certificate: Option<&[PathBuf; 2]>) -> Vec<String> {
    let number = |name: &str, value: u32| (name.to_owned(), value.to_string());
    let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut all = vec![
        text("listen_addresses", "127.0.0.1"),
        // Clients come by TCP; a socket's path would have to be shorter than many test folders are.
        text("unix_socket_directories", ""),
        number("port", u32::from(port)),
        number("max_connections", settings.max_connections),
        text("logging_collector", "off"),
    ];
    if !settings.durable {
        all.extend(["fsync", "synchronous_commit", "full_page_writes"].map(|name| text(name, "off")));
    }
    if let Some([file, key]) = certificate {
        all.push(text("ssl", "on"));
        all.push(text("ssl_cert_file", &file.display().to_string()));
        all.push(text("ssl_key_file", &key.display().to_string()));
    }
    all.extend(settings.extra.iter().cloned());
    let words = all.into_iter().flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]);
    ["-D".to_owned(), data(&settings.folder).display().to_string()].into_iter().chain(words).collect()
}

/// The postmaster says in line 8 of its own file whether it accepts clients; line 1 tells an old file from ours.
fn readiness(folder: &Path) -> impl FnMut(u32) -> bool + use<> {
    let file = data(folder).join("postmaster.pid");
    move |pid| {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let line = |number: usize| text.lines().nth(number).unwrap_or_default().trim();
        line(0) == pid.to_string() && line(7) == "ready"
    }
}

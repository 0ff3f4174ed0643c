//! A PgBouncer in front of one of our PostgreSQL servers.
//!
//! It runs in transaction mode, where two statements of one client may reach two sessions of the server. Version 1.18,
//! that of Debian 12, knows nothing of prepared statements: clients that rely on named ones fail, as in the field.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};

use crate::account;
use crate::daemon::{Daemon, DaemonLaunch};
use crate::find;
use crate::port::{self, Port};
use crate::postgres::{NAME, Postgres, psql};
use crate::trouble::TestbedError;

/// How many sessions of the server a database's clients share.
const POOL: u32 = 20;

/// How often a start with another port is tried when somebody took the first.
const PORT_TRIES: usize = 5;

/// A running PgBouncer; it ends when this value goes away, and is killed when this process dies.
#[derive(Debug)]
pub struct Pgbouncer {
    port: Port,
    daemon: Daemon,
    client: PathBuf,
}

impl Pgbouncer {
    /// Starts a pool for all databases of the server; its configuration and log are in the folder.
    ///
    /// # Errors
    /// When PgBouncer is not installed or does not come up within a minute.
    pub fn start(folder: impl Into<PathBuf>, server: &Postgres) -> Result<Self, TestbedError> {
        let folder = folder.into();
        let program = find::needed("pgbouncer", "pgbouncer")?;
        account::prepare(&folder, server.account.as_ref())?;
        let file = folder.join("pgbouncer.ini");
        let mut tries = 1;
        loop {
            let port = port::reserve()?;
            fs::write(&file, configuration(port.number, server.port()))
                .map_err(TestbedError::io(format!("cannot write {}", file.display())))?;
            let mut daemon = Daemon::new(DaemonLaunch {
                program: program.clone(),
                arguments: vec![file.display().to_string()],
                account: server.account.clone(),
                folder: folder.clone(),
                log: folder.join("log"),
                // It has nothing to write, and the polite signal waits for the clients.
                stop_signal: "KILL",
            });
            match daemon.start(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port.number)).is_ok()) {
                Ok(()) => return Ok(Self { port, daemon, client: server.programs.join("psql") }),
                Err(trouble) if trouble.is_taken_port() && tries < PORT_TRIES => tries += 1,
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// The address of the database `backstop` through the pool.
    pub fn url(&self) -> String {
        self.url_for(NAME)
    }

    /// The address of another database of the server through the pool.
    pub fn url_for(&self, database: &str) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{database}", self.port())
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Where it writes its log.
    pub fn log(&self) -> &Path {
        &self.daemon.launch.log
    }

    /// Runs SQL in the database `backstop` through the pool; see [`Postgres::psql`].
    ///
    /// # Errors
    /// At the first statement that fails, with the server's words.
    pub fn psql(&self, sql: &str) -> Result<String, TestbedError> {
        psql(&self.client, &self.url(), sql)
    }
}

fn configuration(port: u16, server: u16) -> String {
    let lines = [
        "[databases]".to_owned(),
        // `auth_type = any` asks nobody for a name, so the name for the server is given here.
        format!("* = host=127.0.0.1 port={server} user={NAME}"),
        "[pgbouncer]".to_owned(),
        "listen_addr = 127.0.0.1".to_owned(),
        format!("listen_port = {port}"),
        "unix_socket_dir =".to_owned(),
        "auth_type = any".to_owned(),
        "pool_mode = transaction".to_owned(),
        "max_client_conn = 500".to_owned(),
        format!("default_pool_size = {POOL}"),
        // Many drivers send it at the start, and everyone who runs a pool lets it pass.
        "ignore_startup_parameters = extra_float_digits".to_owned(),
    ];
    lines.join("\n") + "\n"
}

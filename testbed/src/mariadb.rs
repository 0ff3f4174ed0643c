//! A MariaDB server of our own.
//!
//! Owns how the data folder is made and the server configured.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::account::{self, SystemUser};
use crate::daemon::{Daemon, DaemonLaunch};
use crate::port::{self, Port};
use crate::settings::DatabaseSettings;
use crate::trouble::TestbedError;
use crate::{client, find};

/// The user of the tests, and the database that every server begins with.
const NAME: &str = "backstop";

/// The socket of the administrator, relative to the data folder: a socket's path may have 107 bytes, which the path of
/// a test folder easily exceeds.
const SOCKET: &str = "admin.sock";

/// How often a start with another port is tried when somebody took the first.
const PORT_TRIES: usize = 5;

/// A running MariaDB; it is stopped when this value goes away, and killed when this process dies.
#[derive(Debug)]
pub struct Mariadb {
    settings: DatabaseSettings,
    port: Port,
    daemon: Daemon,
}

impl Mariadb {
    /// Makes a data folder, starts the server on a free loopback port, creates the database `backstop` and a user of
    /// the same name who may do everything.
    ///
    /// # Errors
    /// When MariaDB is not installed, or the server does not come up within a minute; the message ends with the end of
    /// its log.
    pub fn start(settings: DatabaseSettings) -> Result<Self, TestbedError> {
        let program = find::needed("mariadbd", "mariadb-server")?;
        let account = account::account("mysql")?;
        account::prepare(&settings.folder, account.as_ref())?;
        if !data(&settings.folder).join("mysql").is_dir() {
            init(account.as_ref(), &settings.folder)?;
        }
        let server = Self::launch(program, account, settings)?;
        server.administer(&first_statements())?;
        Ok(server)
    }

    fn launch(
        program: PathBuf,
        account: Option<SystemUser>,
        settings: DatabaseSettings,
    ) -> Result<Self, TestbedError> {
        let mut tries = 1;
        let given = settings.certificate.as_ref().map(|one| one.give(&settings.folder, account.as_ref()));
        let given = given.transpose()?;
        loop {
            let port = port::reserve()?;
            let launch = DaemonLaunch {
                program: program.clone(),
                arguments: arguments(&settings, port.number, given.as_ref()),
                account: account.clone(),
                folder: settings.folder.clone(),
                log: settings.folder.join("log"),
                stop_signal: "TERM",
            };
            let mut daemon = Daemon::new(launch);
            match daemon.start(|_| greets(port.number)) {
                Ok(()) => return Ok(Self { settings, port, daemon }),
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
        format!("mysql://{NAME}@127.0.0.1:{}/{database}", self.port())
    }

    /// The loopback port; it stays the same over [`Mariadb::start_again`].
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The id of the server's process, when it runs.
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
        self.sql(&format!("create database `{name}`")).map(drop)
    }

    /// Runs SQL as the user of the tests in the database `backstop`; rows are lines, their columns separated by tabs.
    ///
    /// # Errors
    /// At the first statement that fails, with the server's words.
    pub fn sql(&self, text: &str) -> Result<String, TestbedError> {
        let mut command = self.client()?;
        command.args(["--protocol=tcp", "--host=127.0.0.1", &format!("--port={}", self.port())]);
        command.args([&format!("--user={NAME}"), NAME]);
        client::run(command, text)
    }

    /// Kills the server without warning; returns when nothing of it is left.
    ///
    /// # Errors
    /// When the process does not end.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        self.daemon.kill()
    }

    /// Stops the server in order.
    ///
    /// # Errors
    /// When the process does not end.
    pub fn stop(&mut self) -> Result<(), TestbedError> {
        self.daemon.stop()
    }

    /// Starts the server after [`Mariadb::kill`] or [`Mariadb::stop`], on the same port and data; a server that still
    /// runs is killed first.
    ///
    /// # Errors
    /// When the server does not come up within a minute.
    pub fn start_again(&mut self) -> Result<(), TestbedError> {
        let port = self.port();
        self.daemon.start(|_| greets(port))
    }

    /// Runs SQL as root, who is let in by the socket only.
    fn administer(&self, text: &str) -> Result<String, TestbedError> {
        let mut command = self.client()?;
        command.args([&format!("--socket={SOCKET}"), "--user=root"]).current_dir(data(&self.settings.folder));
        client::run(command, text)
    }

    fn client(&self) -> Result<Command, TestbedError> {
        let mut command = Command::new(find::needed("mariadb", "mariadb-client")?);
        command.args(["--no-defaults", "--batch", "--skip-column-names", "--default-character-set=utf8mb4"]);
        Ok(command)
    }
}

fn first_statements() -> String {
    let users = ["127.0.0.1", "localhost"].map(|host| {
        let user = format!("'{NAME}'@'{host}'");
        format!("create user if not exists {user}; grant all on *.* to {user} with grant option;")
    });
    format!("create database if not exists {NAME}; {}", users.join(" "))
}

/// Where the databases are inside the server's folder.
fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn init(account: Option<&SystemUser>, folder: &Path) -> Result<(), TestbedError> {
    let installer = find::needed("mariadb-install-db", "mariadb-server")?;
    let data = data(folder);
    account::prepare(&data, account)?;
    let mut command = account::command(installer, account, false);
    command.args([
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
    ]);
    command.arg(format!("--datadir={}", data.display())).current_dir(folder);
    // It starts a server too, and that one removes the temporary files of others when they share a folder.
    command.env("TMPDIR", &data);
    client::run(command, "").map(drop)
}

fn arguments(settings: &DatabaseSettings, port: u16, certificate: Option<&[PathBuf; 2]>) -> Vec<String> {
    let mut all: Vec<String> = ["--no-defaults".to_owned()].into();
    let mut set = |name: &str, value: &str| all.push(format!("--{name}={value}"));
    set("datadir", &data(&settings.folder).display().to_string());
    // Servers that share a folder for temporary files take them away from each other.
    set("tmpdir", &data(&settings.folder).display().to_string());
    set("socket", SOCKET);
    set("pid-file", "server.pid");
    set("bind-address", "127.0.0.1");
    set("port", &port.to_string());
    set("max-connections", &settings.max_connections.to_string());
    // Names are of no use here, and looking them up costs a new connection seconds where there is no name server.
    set("skip-name-resolve", "1");
    // What Debian's own configuration says; the built-in default is latin1.
    set("character-set-server", "utf8mb4");
    set("innodb-buffer-pool-size", "128M");
    let flush = if settings.durable { "1" } else { "0" };
    set("innodb-flush-log-at-trx-commit", flush);
    set("sync-binlog", flush);
    set("innodb-doublewrite", flush);
    if let Some([file, key]) = certificate {
        set("ssl-cert", &file.display().to_string());
        set("ssl-key", &key.display().to_string());
    }
    if !settings.extra.iter().any(|(name, _)| matches!(name.as_str(), "log-bin" | "log_bin")) {
        set("skip-log-bin", "1");
    }
    settings.extra.iter().for_each(|(name, value)| set(name, value));
    all
}

/// Whether the server sends its greeting, whose fifth byte is the version of the protocol. The port alone is open
/// before the server can serve.
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    let mut greeting = [0; 5];
    let patience = stream.set_read_timeout(Some(Duration::from_secs(1)));
    patience.is_ok() && stream.read_exact(&mut greeting).is_ok() && greeting[4] == 10
}

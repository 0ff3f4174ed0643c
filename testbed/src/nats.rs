//! A NATS server of our own with JetStream, which writes every message to disk before it confirms it.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;

use crate::account;
use crate::daemon::{Daemon, DaemonLaunch};
use crate::find;
use crate::port::{self, Port};
use crate::trouble::TestbedError;

/// How often a start with another port is tried when somebody took the first.
const PORT_TRIES: usize = 5;

/// A running NATS server; it is stopped when this value goes away, and killed when this process dies.
#[derive(Debug)]
pub struct Nats {
    port: Port,
    daemon: Daemon,
}

impl Nats {
    /// Starts the server on a free loopback port; its configuration, data and log are in the folder.
    ///
    /// # Errors
    /// When NATS is not installed or does not come up within a minute.
    pub fn start(folder: impl Into<PathBuf>) -> Result<Self, TestbedError> {
        let folder = folder.into();
        let program = find::needed("nats-server", "nats-server")?;
        let account = account::account("nats")?;
        account::prepare(&folder, account.as_ref())?;
        let file = folder.join("nats.conf");
        let mut tries = 1;
        loop {
            let port = port::reserve()?;
            let data = folder.join("data");
            let text = format!(
                "listen: \"127.0.0.1:{}\"\nmax_payload: 8388608\njetstream {{ store_dir: \"{}\" }}\n",
                port.number,
                data.display()
            );
            fs::write(&file, text).map_err(TestbedError::io(format!("cannot write {}", file.display())))?;
            let mut daemon = Daemon::new(DaemonLaunch {
                program: program.clone(),
                arguments: vec!["-c".to_owned(), file.display().to_string()],
                account: account.clone(),
                folder: folder.clone(),
                log: folder.join("log"),
                stop_signal: "TERM",
            });
            match daemon.start(|_| answers(port.number)) {
                Ok(()) => return Ok(Self { port, daemon }),
                Err(trouble) if trouble.is_taken_port() && tries < PORT_TRIES => tries += 1,
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port())
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Ends the server like a crash.
    ///
    /// # Errors
    /// When a process does not end.
    pub fn kill(&mut self) -> Result<(), TestbedError> {
        self.daemon.kill()
    }

    /// Starts the server again on the same port and data.
    ///
    /// # Errors
    /// When it does not come up within a minute.
    pub fn start_again(&mut self) -> Result<(), TestbedError> {
        let port = self.port();
        self.daemon.start(|_| answers(port))
    }
}

fn answers(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

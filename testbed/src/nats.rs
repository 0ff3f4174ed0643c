//! A NATS server of our own with JetStream, which writes every message to disk before it confirms it.

use std::fs;
use std::path::PathBuf;

use crate::account;
use crate::authority::Certificate;
use crate::daemon::{self, Daemon, DaemonLaunch};
use crate::find;
use crate::port::Port;
use crate::trouble::TestbedError;

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
        Self::start_with(folder.into(), None)
    }

    /// The same for clients that speak TLS alone, to whom it shows this certificate: see [`Nats::encrypted_url`].
    ///
    /// # Errors
    /// As [`Nats::start`].
    pub fn start_encrypted(
        folder: impl Into<PathBuf>,
        certificate: &Certificate,
    ) -> Result<Self, TestbedError> {
        Self::start_with(folder.into(), Some(certificate))
    }

    fn start_with(folder: PathBuf, certificate: Option<&Certificate>) -> Result<Self, TestbedError> {
        let program = find::needed("nats-server", "nats-server")?;
        let account = account::account("nats")?;
        account::prepare(&folder, account.as_ref())?;
        let file = folder.join("nats.conf");
        let tls = match certificate {
            Some(certificate) => {
                let [cert, key] = certificate.give(&folder, account.as_ref())?;
                format!("tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n", cert.display(), key.display())
            }
            None => String::new(),
        };
        let (port, daemon) = daemon::on_free_port(|port| {
            let text = format!(
                "listen: \"127.0.0.1:{port}\"\nmax_payload: 8388608\njetstream {{ store_dir: \"{}\" }}\n{tls}",
                folder.join("data").display()
            );
            fs::write(&file, text).map_err(TestbedError::io(format!("cannot write {}", file.display())))?;
            Ok(DaemonLaunch {
                program: program.clone(),
                arguments: vec!["-c".to_owned(), file.display().to_string()],
                account: account.clone(),
                folder: folder.clone(),
                log: folder.join("log"),
                stop_signal: "TERM",
            })
        })?;
        Ok(Self { port, daemon })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port())
    }

    /// Its address with TLS.
    pub fn encrypted_url(&self) -> String {
        format!("tls://localhost:{}", self.port())
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
        self.daemon.start(|_| daemon::listens(port))
    }
}

//! A beanstalkd of our own, which writes every job to its log before it confirms it.

use std::path::PathBuf;

use crate::account;
use crate::daemon::{self, Daemon, DaemonLaunch};
use crate::find;
use crate::port::Port;
use crate::trouble::TestbedError;

/// Bytes of the largest job: enough for tests of large messages.
const LARGEST_JOB: usize = 8 * 1024 * 1024;

/// A running beanstalkd; it is stopped when this value goes away, and killed when this process dies.
#[derive(Debug)]
pub struct Beanstalkd {
    port: Port,
    daemon: Daemon,
}

impl Beanstalkd {
    /// Starts the server on a free loopback port; its log is in the folder.
    ///
    /// # Errors
    /// When beanstalkd is not installed or does not come up within a minute.
    pub fn start(folder: impl Into<PathBuf>) -> Result<Self, TestbedError> {
        let folder = folder.into();
        let program = find::needed("beanstalkd", "beanstalkd")?;
        let account = account::account("beanstalkd")?;
        account::prepare(&folder, account.as_ref())?;
        let (port, daemon) = daemon::on_free_port(|port| {
            let (port, jobs, largest) =
                (port.to_string(), folder.display().to_string(), LARGEST_JOB.to_string());
            let words = ["-l", "127.0.0.1", "-p", &port, "-b", &jobs, "-f", "0", "-z", &largest];
            Ok(DaemonLaunch {
                program: program.clone(),
                arguments: words.map(str::to_owned).to_vec(),
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
        format!("beanstalk://127.0.0.1:{}", self.port())
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

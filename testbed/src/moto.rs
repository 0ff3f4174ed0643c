//! A server of moto, which speaks like SQS. It keeps everything in memory: what is killed is lost.

use std::path::PathBuf;

use crate::account;
use crate::daemon::{self, Daemon, DaemonLaunch};
use crate::port::Port;
use crate::shared;
use crate::trouble::TestbedError;

/// A running moto; it ends when this value goes away, and is killed when this process dies.
#[derive(Debug)]
pub struct Moto {
    port: Port,
    _daemon: Daemon,
}

impl Moto {
    /// Starts the server on a free loopback port; its log is in the folder.
    ///
    /// # Errors
    /// When it does not come up within a minute.
    ///
    /// # Panics
    /// When nobody says where the program is: see [`shared::moto`].
    pub fn start(folder: impl Into<PathBuf>) -> Result<Self, TestbedError> {
        let folder = folder.into();
        account::prepare(&folder, None)?;
        let (port, daemon) = daemon::on_free_port(|port| {
            Ok(DaemonLaunch {
                program: shared::moto().to_path_buf(),
                arguments: ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec(),
                account: None,
                folder: folder.clone(),
                log: folder.join("log"),
                // It has nothing to write.
                stop_signal: "KILL",
            })
        })?;
        Ok(Self { port, _daemon: daemon })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port())
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port.number
    }
}

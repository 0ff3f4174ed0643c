//! A server of moto, which speaks like SQS. It keeps everything in memory: what is killed is lost.

use std::path::PathBuf;

use crate::account;
use crate::authority::Certificate;
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
        Self::start_with(folder.into(), None)
    }

    /// The same over TLS, with this certificate.
    ///
    /// # Errors
    /// As [`Moto::start`].
    ///
    /// # Panics
    /// As [`Moto::start`].
    pub fn start_encrypted(
        folder: impl Into<PathBuf>,
        certificate: &Certificate,
    ) -> Result<Self, TestbedError> {
        Self::start_with(folder.into(), Some(certificate))
    }

    fn start_with(folder: PathBuf, certificate: Option<&Certificate>) -> Result<Self, TestbedError> {
        account::prepare(&folder, None)?;
        let encrypted = match certificate {
            Some(certificate) => {
                let [cert, key] = certificate.give(&folder, None)?.map(|path| path.display().to_string());
                vec!["-c".to_owned(), cert, "-k".to_owned(), key]
            }
            None => Vec::new(),
        };
        let (port, daemon) = daemon::on_free_port(|port| {
            Ok(DaemonLaunch {
                program: shared::moto().to_path_buf(),
                arguments: {
                    let own = ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned);
                    own.into_iter().chain(encrypted.clone()).collect()
                },
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

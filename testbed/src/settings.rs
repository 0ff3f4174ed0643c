//! What a caller may choose about a server.

use std::path::PathBuf;

use crate::authority::Certificate;

/// The choices for one server; everything else is decided by the testbed.
#[derive(Clone, Debug)]
pub struct DatabaseSettings {
    /// Holds the server's data and log. Data that is already there is kept and used.
    pub folder: PathBuf,
    /// Whether a confirmed commit survives the death of the server and of the machine. Without it the last commits
    /// are lost when the server is killed, and tests run several times faster.
    pub durable: bool,
    /// Server settings beyond those of the testbed, which they override.
    pub extra: Vec<(String, String)>,
    /// How many clients may be connected at once.
    pub max_connections: u32,
    /// What the server shows to clients that want TLS; without it, it speaks none.
    pub certificate: Option<Certificate>,
}

impl DatabaseSettings {
    /// A server that is quick and not durable, with room for 300 connections.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        Self { folder, durable: false, extra: Vec::new(), max_connections: 300, certificate: None }
    }

    /// Makes every commit reach the disk before it is confirmed.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Lets the server speak TLS.
    #[must_use]
    pub fn certified(mut self, certificate: Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// Adds a setting of the server, such as `("wal_level", "logical")`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.extra.push((name.to_owned(), value.to_owned()));
        self
    }
}

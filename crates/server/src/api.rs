//! What every handler has at hand.

use std::sync::Arc;
use std::time::Duration;

use backstop::Backstop;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessSettings, Tokens};
use crate::door::Door;
use crate::limits::ServerLimits;
use crate::listen::TlsSettings;

/// Settings of the server. Every field has a safe default: take `ServerSettings::default()` and change what you need.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ServerSettings {
    /// Events, figures and webhooks.
    pub reporting: crate::reporting::ReportSettings,
    /// Who may call.
    pub access: AccessSettings,
    /// How much of everything at once.
    pub limits: ServerLimits,
    /// The certificate to show; none for plain HTTP.
    pub tls: Option<TlsSettings>,
    /// How long this process may be silent before others take over the maintenance that it leads; as long as a worker
    /// unless told.
    pub lease: Option<Duration>,
}

/// The engine behind the API and how it is served. Clones are cheap and share everything.
#[derive(Debug, Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Backstop,
    settings: ServerSettings,
    leases: crate::lease::LeaseSigner,
    reporting: crate::reporting::Reporting,
    door: Door,
}

impl Api {
    /// An API on an engine.
    #[must_use]
    pub fn new(engine: Backstop, settings: ServerSettings) -> Self {
        let leases = crate::lease::LeaseSigner::default();
        let loops = engine.loops();
        let reporting = crate::reporting::Reporting::new(&settings.reporting, &loops);
        let door = Door::new(&engine, &settings, &loops);
        Self { inner: Arc::new(Inner { engine, settings, leases, reporting, door }) }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Backstop {
        &self.inner.engine
    }

    /// What signs and reads the leases of remote workers.
    pub(crate) fn leases(&self) -> &crate::lease::LeaseSigner {
        &self.inner.leases
    }

    /// What tells the outside of it.
    pub(crate) fn reporting(&self) -> &crate::reporting::Reporting {
        &self.inner.reporting
    }

    /// How it is served.
    #[must_use]
    pub fn settings(&self) -> &ServerSettings {
        &self.inner.settings
    }

    /// Every token there is.
    #[must_use]
    pub fn tokens(&self) -> &Tokens {
        &self.inner.door.tokens
    }

    /// Cancelled when the server goes down: a handler that waits for something to happen stops waiting then.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.door.stopping
    }

    pub(crate) fn door(&self) -> &Door {
        &self.inner.door
    }
}

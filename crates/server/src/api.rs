//! What every handler has at hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop::standard_webhooks::Secret;
use backstop::{Backstop, Health};
use backstop_core::scale::ScaleSettings;
use tokio_util::sync::CancellationToken;

use crate::access::{AccessSettings, Tokens};
use crate::door::Door;
use crate::figures::AnsweredRequest;
use crate::lease::LeaseSigner;
use crate::limits::ServerLimits;
use crate::listen::TlsSettings;
use crate::reporting::{ReportSettings, Reporting};

/// Settings of the server. Every field has a safe default: take `ServerSettings::default()` and change what you need.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ServerSettings {
    /// Events, figures and webhooks.
    pub reporting: ReportSettings,
    /// Who may call.
    pub access: AccessSettings,
    /// How much of everything at once.
    pub limits: ServerLimits,
    /// The certificate to show; none for plain HTTP.
    pub tls: Option<TlsSettings>,
    /// How long this process may be silent before others take over the maintenance that it leads; as long as a worker
    /// unless told.
    pub lease: Option<Duration>,
    /// How others reach this server, such as `https://jobs.example.com`: links begin with it. Without it they begin at
    /// the root.
    pub public_url: Option<String>,
    /// What one worker process takes, to say how many are wanted.
    pub scale: ScaleSettings,
    /// Secrets by publication: what is handed off under one of these names is taken only when one of them signed it
    /// (B7). Others are taken for whoever has a token.
    pub publications: BTreeMap<String, Vec<Secret>>,
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
    leases: LeaseSigner,
    reporting: Reporting,
    door: Door,
}

impl Api {
    /// An API on an engine.
    #[must_use]
    pub fn new(engine: Backstop, settings: ServerSettings) -> Self {
        let leases = LeaseSigner::default();
        let loops = engine.loops();
        let reporting = Reporting::new(&settings.reporting, &loops);
        let door = Door::new(&engine, &settings.access, &settings.limits, &loops);
        Self { inner: Arc::new(Inner { engine, settings, leases, reporting, door }) }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Backstop {
        &self.inner.engine
    }

    /// What signs and reads the leases of remote workers.
    pub(crate) fn leases(&self) -> &LeaseSigner {
        &self.inner.leases
    }

    /// What tells the outside of it.
    pub(crate) fn reporting(&self) -> &Reporting {
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

    /// Lets readiness rest on a worker too (H2). `health` says how its loops are, and none when it has stopped; pass
    /// `let watch = handle.watch(); move || watch.health()`. The name is shown to everybody who asks for readiness.
    pub fn watch(
        &self,
        name: impl Into<String>,
        health: impl Fn() -> Option<Health> + Send + Sync + 'static,
    ) {
        self.reporting().checks.watch(name.into(), Box::new(health));
    }

    /// Lets somebody hear of every request that was answered, such as an exporter of traces. It is called on the
    /// request's own task and must not wait for anything; the first one stays.
    pub fn on_answer(&self, listener: impl Fn(AnsweredRequest) + Send + Sync + 'static) {
        // A second listener would silently cost every request twice.
        let _ = self.reporting().requests.listener.set(Box::new(listener));
    }

    /// Ends every event stream, now and for good: they would otherwise keep a server that stops waiting.
    pub fn close_streams(&self) {
        self.reporting().hub.close();
    }
}

//! What every handler has at hand.

use std::sync::Arc;

use backstop::Backstop;

/// Settings of the server. Every field has a safe default; build it with `Settings::default()` and change what you need.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// Events, figures and webhooks.
    pub telling: crate::tell::Telling,
}

/// The engine behind the API and how it is served. Clones are cheap and share everything.
#[derive(Debug, Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Backstop,
    settings: Settings,
    leases: crate::lease::Leases,
    closing: tokio_util::sync::CancellationToken,
    tell: crate::tell::Tell,
}

impl Api {
    /// An API on an engine.
    #[must_use]
    pub fn new(engine: Backstop, settings: Settings) -> Self {
        let leases = crate::lease::Leases::default();
        let closing = tokio_util::sync::CancellationToken::new();
        let tell = crate::tell::Tell::new(&settings.telling);
        Self { inner: Arc::new(Inner { engine, settings, leases, closing, tell }) }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Backstop {
        &self.inner.engine
    }

    /// What signs and reads the leases of remote workers.
    pub(crate) fn leases(&self) -> &crate::lease::Leases {
        &self.inner.leases
    }

    /// Fires when the server stops: whoever waits for something to happen answers at once.
    pub(crate) fn closing(&self) -> &tokio_util::sync::CancellationToken {
        &self.inner.closing
    }

    /// What tells the outside of it.
    pub(crate) fn tell(&self) -> &crate::tell::Tell {
        &self.inner.tell
    }

    /// How it is served.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }
}

//! What every handler has at hand.

use std::sync::Arc;

use backstop::Backstop;

/// Settings of the server. Every field has a safe default; build it with `Settings::default()` and change what you need.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {}

/// The engine behind the API and how it is served. Clones are cheap and share everything.
#[derive(Debug, Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    engine: Backstop,
    settings: Settings,
}

impl Api {
    /// An API on an engine.
    #[must_use]
    pub fn new(engine: Backstop, settings: Settings) -> Self {
        Self { inner: Arc::new(Inner { engine, settings }) }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Backstop {
        &self.inner.engine
    }

    /// How it is served.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }
}

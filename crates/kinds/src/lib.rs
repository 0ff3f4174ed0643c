//! Kinds of jobs that come with Backstop: `command` runs an allowed program (E4, E3), `http` sends a request to a
//! public address (E5), `event` publishes a named event (E6).
//!
//! Owns what these kinds may do and how they end; it must not know any store. Everything is closed until it is opened:
//! no program, no private address and no event is allowed by default.
//!
//! ```
//! use backstop::prelude::*;
//! use backstop_kinds::{Command, EventSettings, Kinds};
//!
//! # async fn start(engine: Backstop) -> Result<(), Box<dyn std::error::Error>> {
//! let kinds = Kinds { event: EventSettings::default().allow("orders.*")?, ..Kinds::default() };
//! let worker = backstop_kinds::register(engine.worker(kinds)).queue("default", 4).start().await?;
//! engine.enqueue(<Command>::new(["/usr/bin/true"])).submit().await?;
//! # worker.stop().await;
//! # Ok(()) }
//! ```
//!
//! # Layout
//! - [`command`]: payload, settings and run of `command`. [`http`]: the same of `http`. [`event`]: of `event`.
//! - [`Kinds`]: the settings of all three; a worker's context is one, or lends one by `AsRef<Kinds>`.

pub mod command;
mod error;
pub mod event;
pub mod http;
mod refusal;

use backstop::WorkerBuilder;

pub use command::{Command, CommandSettings, Program};
pub use error::SettingsError;
pub use event::{EventSettings, Publish};
pub use http::{Http, HttpSettings};
pub use refusal::{PayloadRefusal, RefusalCode};

/// What the built-in kinds of a worker may do.
#[derive(Debug, Clone, Default)]
pub struct Kinds {
    /// Programs, their directories, environment and limits; none is allowed by default.
    pub command: CommandSettings,
    /// Addresses, ports, times and secrets; public addresses only by default.
    pub http: HttpSettings,
    /// Names of events; none is allowed by default.
    pub event: EventSettings,
}

impl AsRef<Self> for Kinds {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// Teaches a worker all built-in kinds. Its context lends their settings.
pub fn register<C: AsRef<Kinds> + Send + Sync + 'static>(worker: WorkerBuilder<C>) -> WorkerBuilder<C> {
    worker.register::<Command<C>>().register::<Http<C>>().register::<Publish<C>>()
}

/// The start of a text that somebody else wrote, for a sentence about it.
fn brief(text: &str) -> String {
    const CHARS: usize = 80;
    let mut shown: String = text.chars().take(CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS).is_some() {
        shown.push('…');
    }
    shown
}

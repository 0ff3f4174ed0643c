//! Kinds of jobs that come with Backstop: `command` runs an allowed program (E4, E3), `http` sends a request to a
//! public address (E5), `event` publishes a named event (E6), `publish` sends a message to a broker (B2).
//!
//! Owns what these kinds may do and how they end; it must not know any store. Everything is closed until it is opened:
//! no program, no private address, no event and no queue of a broker is allowed by default.
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
//! - [`command`]: payload, settings and run of `command`. [`http`], [`event`], [`publish`]: the same of `http`, `event`
//!   and `publish`.
//! - [`Kinds`]: the settings of all four; a worker's context is one, or lends one by `AsRef<Kinds>`.

pub mod command;
mod error;
pub mod event;
pub mod http;
mod kinds;
pub mod publish;
mod refusal;

use backstop::WorkerBuilder;

pub use command::{Command, CommandSettings, Program};
pub use error::SettingsError;
pub use event::{EventSettings, Publish};
pub use http::{Http, HttpSettings};
pub use kinds::Kinds;
pub use publish::{PublishMessage, PublishSettings};
pub use refusal::{PayloadRefusal, RefusalCode};

/// Teaches a worker all built-in kinds. Its context lends their settings.
pub fn register<C: AsRef<Kinds> + Send + Sync + 'static>(worker: WorkerBuilder<C>) -> WorkerBuilder<C> {
    worker
        .register::<Command<C>>()
        .register::<Http<C>>()
        .register::<Publish<C>>()
        .register::<PublishMessage<C>>()
}

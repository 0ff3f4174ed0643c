//! The HTTP API of Backstop: everything the library can do, for every language, behind a door that is closed by default.
//!
//! [`router`] is the whole API on an engine; [`serve`] lets it listen. The program's own commands talk to the same
//! router without a socket, so that what works with a store works with a server.
//!
//! # Layout
//! - [`routes`](mod@routes): every route with what it needs of its caller; nothing is served that has no such line.
//! - [`access`](mod@access): who calls, and what they may do. [`error`](mod@error): the one shape of every refusal.
//! - `resources`: one file per resource. `shape`: what requests and answers look like.

mod access;
mod api;
mod body;
mod error;
mod lease;
mod figures;
mod listen;
mod openapi;
mod ready;
mod resources;
mod routes;
pub mod shape;
mod stream;
mod tell;
mod webhooks;

pub use access::{Caller, Scope};
pub use api::{Api, Settings};
pub use body::Limit;
pub use error::ApiError;
pub use figures::Answered;
pub use listen::{ListenError, serve};
pub use openapi::document;
pub use routes::{Needs, Route, router, table};
pub use tell::Telling;
pub use webhooks::Webhooks;

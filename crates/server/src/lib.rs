//! The HTTP API of Backstop: everything the library can do, for every language, behind a door that is shut by default.
//!
//! [`router`] is the whole API on an engine; [`serve`] lets it listen. The program's own commands talk to the same
//! router without a socket, so that what works with a store works with a server.
//!
//! # Layout
//! - `route`, `routes`: every route with what it needs of its caller; nothing is served that has no such line.
//! - `access`: who calls, and what they may do. `error`: the one shape of every refusal.
//! - `door`: what every request passes; `limits`, `headers`, `audit`: what it does on the way. `listen`: sockets.
//! - `ways_out`: where data of jobs leaves, and how much of it.
//! - `web`: the page for people, which is a client of the API in the same process.
//! - `resources`: one file per resource. `shape`: what requests and answers look like.

mod access;
mod api;
mod audit;
mod body;
mod data;
mod door;
pub mod drawing;
mod error;
mod figures;
mod handed_in;
mod headers;
mod lease;
mod limits;
mod listen;
mod openapi;
mod page;
mod ready;
mod reporting;
mod resources;
mod route;
mod routes;
pub mod shape;
mod stream;
pub mod ways_out;
mod web;
mod webhooks;

pub use access::{
    AccessSettings, Caller, HashError, Network, NetworkError, NoRandomness, Peer, Rate, Scope, Token,
    TokenError, TokenGrant, TokenGrantError, TokenHash, TokenInfo, TokenOrigin, TokenRequest, Tokens,
    UnknownScope, looks_like_token,
};
pub use api::{Api, ServerSettings};
pub use body::PageLimit;
pub use data::DataLimit;
pub use error::ApiError;
pub use figures::AnsweredRequest;
pub use limits::{ServerLimits, Share};
pub use listen::{ListenError, TlsSettings, bind, serve};
pub use openapi::document;
pub use reporting::ReportSettings;
pub use route::RouteNeeds;
pub use routes::{Route, router, table};
pub use webhooks::Webhooks;

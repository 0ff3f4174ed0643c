//! One store for database servers, over a small dialect.
//!
//! Rules of the domain live in `backstop_core`; this crate loads jobs into a `backstop_store::working_set`, lets the
//! core move them, and writes the sum of it in a handful of statements. It contains no SQL and knows no driver: a
//! server's crate brings its [`Dialect`], its [`ServerConnection`]s, and what it does in its own way as a [`Server`].
//! Everything here is behind objects, so it is built once for all of them.
//!
//! # Layout
//! - [`ServerStore`]: the store. [`submit_in`], [`finish_in`]: inside the caller's transaction, over any [`Session`].
//! - [`value`], [`row`], [`columns`], [`failure`]: what goes into statements, what comes out, and what goes wrong.
//! - [`statement`], [`dialect`], [`session`], [`connection`], [`server`]: what is asked, how it is said, and who
//!   carries it.
//! - [`encode`], [`decode`]: values of the core as rows, and back.
//! - [`shared`], [`transaction`], [`access`], `write`, `counting`: one transaction, and what all of them have in
//!   common.
//! - [`load`], [`lanes`], `hold`: how jobs are found and locked, and what is remembered between transactions.
//! - [`submit`], [`claim`], `finish`, `operate`, `worker`, `duty`, `term`, `fence`, `archive`, `purge`, `incident`,
//!   `document`: the verbs that write. `query`, `list`: those that read. [`check`], [`open`]: for `doctor`, and for
//!   URLs.

pub mod access;
mod archive;
mod caller;
pub mod check;
pub mod claim;
pub mod columns;
pub mod connection;
mod counting;
pub mod decode;
pub mod dialect;
mod document;
mod duty;
pub mod encode;
pub mod failure;
mod fence;
mod finish;
mod hold;
mod incident;
pub mod lanes;
mod lines;
mod list;
pub mod load;
pub mod open;
mod operate;
pub mod plain_ends;
mod purge;
mod query;
pub mod row;
pub mod run_limits;
pub mod server;
pub mod session;
pub mod shared;
pub mod sharing;
pub mod statement;
mod store;
pub mod submit;
mod term;
pub mod transaction;
mod turn_memory;
pub mod value;
mod worker;
mod write;

pub use caller::{finish_in, finish_in_with, submit_in, submit_in_with};
pub use connection::ServerConnection;
pub use dialect::Dialect;
pub use failure::{Meaning, SqlFailure};
pub use fence::look as look_at_fences;
pub use row::{Cell, Row};
pub use server::Server;
pub use session::{Pending, Session};
pub use shared::{Shared, StoreSettings};
pub use store::ServerStore;
pub use transaction::{Call, Transaction};
pub use value::{Query, Value};

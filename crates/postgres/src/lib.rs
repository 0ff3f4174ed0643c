//! Backstop's store on PostgreSQL, for any number of hosts.
//!
//! Rules of the domain live in `backstop_core`; this crate loads jobs onto a `backstop_store::desk`, lets the core move
//! them, and writes the sum of it in a handful of statements. Every statement is unnamed and every setting local to its
//! transaction, so all of it works through a pooler in transaction mode.
//!
//! # Layout
//! - [`PostgresStore`], [`Options`]: what callers see. [`submit_in`], [`finish_in`]: inside the caller's transaction,
//!   over any [`Session`].
//! - `open`, `tls`, `migrate`, `schema`, `sql`, `error`: the server, its tables, every statement, what errors mean.
//! - `session`, `values`, `rows`: statements on any driver, and what goes in and comes out.
//! - `shared`, `unit`, `flush`, `load`, `hold`, `lanes`: one transaction, how it writes, how it finds jobs, and what is
//!   remembered between transactions.
//! - `submit`, `collect`, `offers`, `claim`, `take`, `finish`, `operate`, `worker`, `duty`, `archive`, `purge`,
//!   `incident`, `document`: the verbs that write.
//! - `query`, `list`, `check`: the verbs that read. `listen`: wake-ups between processes.

mod access;
mod archive;
mod cancel;
mod check;
mod claim;
mod collect;
mod columns;
mod cursors;
mod document;
mod duty;
mod error;
mod fence;
mod finish;
mod flush;
mod hold;
mod incident;
mod lanes;
mod list;
mod listen;
mod load;
mod migrate;
mod offers;
mod open;
mod operate;
mod purge;
mod query;
mod rows;
mod schema;
mod session;
mod shared;
mod sql;
mod store;
mod submit;
mod take;
mod tls;
mod tx;
mod unit;
mod values;
mod worker;

#[cfg(feature = "diesel-async")]
pub use diesel_async;
pub use error::Failure;
pub use open::schema_of;
pub use schema::roles::roles;
pub use session::{Query, Schema, Session};
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use store::{Listen, Options, PostgresStore};
pub use tokio_postgres;
#[cfg(feature = "diesel-async")]
pub use tx::InDiesel;
#[cfg(feature = "sqlx")]
pub use tx::InSqlx;
pub use tx::{InTransaction, finish_in, submit_in};
pub use values::{Cell, Row, Value};

#[cfg(test)]
mod online_tests;
#[cfg(test)]
mod schema_tests;

//! Backstop's store on MariaDB and MySQL, for any number of hosts.
//!
//! Rules of the domain live in `backstop_core`; this crate loads jobs onto a `backstop_store::desk`, lets the core move
//! them, and writes the sum of it in a handful of statements. Other processes hear of new work by their polling: the
//! server has no way to tell them.
//!
//! # Layout
//! - [`MysqlStore`], [`Options`]: what callers see. [`submit_in`], [`finish_in`]: inside the caller's transaction,
//!   over any [`Session`].
//! - `open`, `tls`, `schema`, `sql`, `error`: the server, its tables, every statement, what errors mean.
//! - `session`, `values`, `rows`: statements on any driver, and what goes in and comes out.
//! - `shared`, `unit`, `flush`, `load`, `hold`, `lanes`: one transaction, how it writes, how it finds jobs, and what is
//!   remembered between transactions.
//! - `submit`, `claim`, `finish`, `operate`, `worker`, `duty`, `archive`, `purge`: the verbs that write.
//! - `incident`, `document`: what belongs to failures and to the engine itself.
//! - `query`, `list`, `check`: the verbs that read.

mod access;
mod archive;
mod cancel;
mod check;
mod claim;
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
mod load;
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
mod tls;
mod tx;
mod unit;
mod values;
mod worker;

pub use error::Failure;
pub use mysql_async;
pub use schema::roles::roles;
pub use session::{Prefix, Query, Session};
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use store::{MysqlStore, Options};
#[cfg(feature = "sqlx")]
pub use tx::InSqlx;
pub use tx::{InTransaction, finish_in, submit_in};
pub use values::{Cell, Row, Value};

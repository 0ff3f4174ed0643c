//! Backstop's store on MariaDB and MySQL, for any number of hosts.
//!
//! What it has in common with other database servers is in `backstop_sql`; this crate says it in the words of these
//! two. Other processes hear of new work by their polling: the server has no way to tell them.
//!
//! # Layout
//! - [`MysqlStore`], [`Options`]: what callers see. [`submit_in`], [`finish_in`]: inside the caller's transaction,
//!   over any [`Session`].
//! - `dialect`, `sql`, `list`, `shape`, `packet`, `error`: how the server is asked, and what its errors mean.
//! - `open`, `tls`, `schema`, `backend`, `session`, `prefix`, `state`, `cancel`: the server, its tables and
//!   connections.
//! - `server`, `claim`: what it does in its own way. `check`: what `doctor` says.

mod backend;
mod cancel;
mod check;
mod claim;
mod dialect;
mod error;
mod list;
mod open;
mod options;
mod packet;
mod prefix;
mod schema;
mod server;
mod session;
mod shape;
mod sql;
mod state;
mod store;
mod tls;
mod tx;

pub use backstop_sql::{
    Cell, Pending, Query, Row, Session, SqlFailure, Value, finish_in, finish_in_with, submit_in,
    submit_in_with,
};
pub use dialect::MysqlDialect;
pub use error::of_database;
pub use mysql_async;
pub use options::Options;
pub use prefix::Prefix;
/// The tables of the first version, for campaigns that migrate a store of that time.
#[doc(hidden)]
pub use schema::FIRST as TABLES_OF_VERSION_1;
pub use schema::roles::roles;
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use store::MysqlStore;
#[cfg(feature = "sqlx")]
pub use tx::InSqlx;
pub use tx::InTransaction;

//! Backstop's store on PostgreSQL, for any number of hosts.
//!
//! What it has in common with other database servers is in `backstop_sql`; this crate says it in PostgreSQL's words.
//! Every statement is unnamed and every setting local to its transaction, so all of it works through a pooler in
//! transaction mode.
//!
//! # Layout
//! - [`PostgresStore`], [`Options`]: what callers see. [`submit_in`], [`finish_in`]: inside the caller's transaction,
//!   over any [`Session`].
//! - `dialect`, `sql`, `list`, `bind`, `error`: how PostgreSQL is asked, what goes in and comes out, what errors mean.
//! - `open`, `tls`, `migrate`, `schema`, `backend`, `session`, `cancel`: the server, its tables and its connections.
//! - `server`, `state`: what it does in its own way. `claim`, `short_claim`, `cursors`: how jobs are claimed.
//! - `short_end`: how most runs end.
//! - `group_commit`, `waiting_submits`: submits that share a commit. `claim_at_submit`, `offers`: claims that share it
//!   with them.
//! - `listen`, `notice_pause`: wake-ups between processes. `check`: what `doctor` says.

mod backend;
mod bind;
mod cancel;
mod check;
mod claim;
mod claim_at_submit;
mod cursors;
mod dialect;
mod error;
mod group_commit;
mod list;
mod listen;
mod migrate;
mod notice_pause;
mod offers;
mod open;
mod options;
mod schema;
mod server;
mod session;
mod short_claim;
mod short_end;
mod sql;
mod state;
mod store;
mod tls;
mod tx;
mod waiting_submits;

pub use backstop_sql::{
    Cell, Pending, Query, Row, Session, SqlFailure, Value, finish_in, finish_in_with, submit_in,
    submit_in_with,
};
pub use dialect::PostgresDialect;
#[cfg(feature = "diesel-async")]
pub use diesel_async;
pub use error::of_database;
pub use open::schema_of;
pub use options::{Listen, Options};
/// The tables of the first version, for campaigns that migrate a store of that time.
#[doc(hidden)]
pub use schema::FIRST as TABLES_OF_VERSION_1;
pub use schema::Schema;
pub use schema::roles::roles;
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use store::PostgresStore;
pub use tokio_postgres;
#[cfg(feature = "diesel-async")]
pub use tx::InDiesel;
#[cfg(feature = "sqlx")]
pub use tx::InSqlx;
pub use tx::InTransaction;

#[cfg(test)]
mod online_tests;
#[cfg(test)]
mod schema_tests;

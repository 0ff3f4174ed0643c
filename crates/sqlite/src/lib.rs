//! Backstop's embedded store: SQLite with one writer thread and group commit.
//!
//! A file is all it needs. Every acknowledged call is synced to the disk; many calls at once share one sync.
//! Several processes may open one file. Rules of the domain live in `backstop_core`; this crate loads records,
//! lets the core move them, and writes them back.
//!
//! # Layout
//! Each line uses those above it.
//! - `options`, `error`, `sql`, `rows`: what callers choose, what errors mean, every statement, every row.
//! - `schema`, `open`, `fence`: the tables, the file, the counter of fences.
//! - `lanes`, `held_records`, `tally`, `update_batch`, `transaction`: one transaction, what it writes together, the
//!   counts it keeps, and what is remembered between transactions.
//! - `submit`, `claim`, `finish`, `operate`, `worker`, `queue`, `duty`, `archive`, `purge`, `idempotency`, `incident`,
//!   `document`: the verbs that write, with the questions about the same tables.
//! - `query`, `list`, `survey`, `check`: the verbs that read.
//! - `context`, `writer`, `readers`: the threads.
//! - [`SqliteStore`], [`Options`]: what callers see. [`submit_in`], [`finish_in`]: inside the caller's transaction.
//! - `floor` (feature): hand-written SQL on the same tables, to measure the store against.

mod archive;
mod check;
mod claim;
mod context;
mod document;
mod duty;
mod error;
mod fence;
mod finish;
#[cfg(feature = "floor")]
pub mod floor;
mod held_records;
mod idempotency;
mod incident;
mod lanes;
mod lines;
mod list;
mod open;
mod operate;
mod options;
mod purge;
mod query;
mod queue;
mod readers;
mod rows;
mod run_limits;
mod schema;
mod sharing;
mod sharing_work;
mod sql;
mod store;
mod submit;
mod survey;
mod tally;
mod transaction;
mod tx;
mod update_batch;
mod worker;
mod writer;

pub use options::{Options, Synchronous};
pub use rusqlite;
/// The tables of the first version, for campaigns that migrate a store of that time.
#[doc(hidden)]
pub use schema::FIRST as TABLES_OF_VERSION_1;
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use store::SqliteStore;
pub use tx::{finish_in, finish_in_with, submit_in, submit_in_with};
#[cfg(feature = "sqlx")]
pub use tx::{finish_in_sqlx, finish_in_sqlx_with, submit_in_sqlx, submit_in_sqlx_with};

#[cfg(test)]
mod claim_tests;
#[cfg(test)]
mod migration_tests;
#[cfg(test)]
mod schema_tests;
#[cfg(test)]
#[path = "../tests/scratch/mod.rs"]
mod scratch;
#[cfg(test)]
mod writer_tests;

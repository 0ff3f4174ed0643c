//! Backstop's embedded store: SQLite with one writer thread and group commit.
//!
//! A file is all it needs. Every acknowledged call is synced to the disk; many calls at once share one sync.
//! Several processes may open one file. Rules of the domain live in `backstop_core`; this crate loads records,
//! lets the core move them, and writes them back.
//!
//! # Layout
//! - [`SqliteStore`], [`Options`]: what callers see. [`submit_in`], [`finish_in`]: inside the caller's transaction.
//! - `open`, `schema`, `sql`, `rows`, `error`: the file, its tables, every statement, rows, what errors mean.
//! - `writer`, `readers`, `shared`: the threads. `unit`, `stretch`, `lanes`, `held`: one transaction, what it writes
//!   together, the counts it keeps, and what is remembered between transactions.
//! - `submit`, `claim`, `finish`, `operate`, `worker`, `duty`, `archive`, `purge`, `incident`, `document`: the verbs
//!   that write, with the questions about the same tables.
//! - `query`, `list`, `survey`, `check`: the verbs that read.
//! - `floor` (feature): hand-written SQL on the same tables, to measure the store against.

mod archive;
mod check;
mod claim;
mod document;
mod duty;
mod error;
mod fence;
mod finish;
#[cfg(feature = "floor")]
pub mod floor;
mod held;
mod incident;
mod lanes;
mod list;
mod open;
mod operate;
mod purge;
mod query;
mod readers;
mod rows;
mod schema;
mod shared;
mod sql;
mod store;
mod stretch;
mod submit;
mod survey;
mod tx;
mod unit;
mod worker;
mod writer;

pub use rusqlite;
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use store::{Options, SqliteStore, Synchronous};
pub use tx::{finish_in, submit_in};
#[cfg(feature = "sqlx")]
pub use tx::{finish_in_sqlx, submit_in_sqlx};

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

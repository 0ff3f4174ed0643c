//! `backstop.toml`: what may stand in it, what stands in it, and what comes of it together with flags and environment.
//!
//! - [`schema`]: every key by name, with its shape and whether this version uses it.
//! - [`read`]: walks a file along the schema; finds values with their places, and every fault at once.
//! - [`settings`]: the typed result, each value with its [`source`].
//! - [`env`]: the same keys as variables of the environment.
//! - [`defaults`]: retries, backoff and times by kind and queue. [`isolation`]: processes of their own. [`limits`]:
//!   `[limits]`.
//! - [`dependencies`]: what jobs need that may be away.
//! - [`alerts`]: the channels of `[alerts]`. [`handlers`]: what the built-in kinds may do.
//! - [`bridges`]: brokers that jobs come from, and that are told what became of them.
//! - [`handoffs`]: finished jobs that another Backstop goes on with.
//! - [`rejects`]: where rejects of items go, and how many a run may make.
//! - [`scale`]: how many worker processes there are to be.
//! - [`init`]: a first file to start from. [`reference`]: every key with its default and meaning, as a page.
//! - [`server`]: the door of the HTTP API. [`keys`]: `[signing]`, `[encryption]` and `[masking]`.
//! - [`veil`]: the file without its secrets, to quote from.
//! - [`nearest`]: the known word that a wrong one probably meant.

mod alerts;
pub(crate) mod bridges;
mod circuits;
mod defaults;
mod dependencies;
pub(crate) mod env;
mod handlers;
pub(crate) mod handoffs;
pub(crate) mod init;
mod isolation;
mod keys;
mod limits;
pub(crate) mod nearest;
pub(crate) mod rate;
pub(crate) mod read;
pub(crate) mod reference;
mod rejects;
mod run_limits;
mod scale;
pub(crate) mod schedules;
pub(crate) mod schema;
pub(crate) mod server;
pub(crate) mod settings;
mod source;
mod veil;

#[cfg(test)]
mod known;
#[cfg(test)]
mod tests;

pub(crate) use settings::{FILE_NAME, GivenSettings, Settings};
pub(crate) use source::SettingSource;

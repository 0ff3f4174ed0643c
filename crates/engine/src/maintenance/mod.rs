//! Duties that one node at a time does for all (L17), one file each.
//!
//! Every process that serves the store takes part, with a worker in it or not: [`handle`] starts the loops, once for
//! each engine. [`leadership_loop`] asks for what somebody has to lead all the time; [`rescue`], [`redrive`],
//! [`counts`], [`lines`], [`schedules`], [`signals`] and [`workflows`] do it while they lead. [`upkeep`] leads the rest
//! for as long as it takes, and tells the store what queues let in ([`gates`]); what each duty is stands in
//! [`perform`]. Nothing that takes long holds up a rescue. [`died`] is for whoever has seen a process die, and needs no
//! leader. [`sinks`] is done by every process, and a part of it by a leader.

mod alert;
mod alert_loop;
mod archive;
mod audit;
mod buckets;
mod counts;
pub(crate) mod died;
mod expire;
mod forget;
mod gates;
mod handle;
mod leadership;
mod leadership_loop;
mod lines;
mod perform;
mod prune;
mod redrive;
mod rescue;
mod retire;
mod retirement_line;
pub(crate) mod running;
mod schedules;
mod signals;
mod sinks;
mod state;
mod unled;
mod upkeep;
mod watch_code;
mod workflows;

pub use handle::{Maintenance, MaintenanceHandle};
pub use unled::DutyHealth;

/// Rows that one step of a duty touches at most, so that no transaction is long.
const BATCH: usize = 500;

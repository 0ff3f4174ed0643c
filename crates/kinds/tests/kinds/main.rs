//! The built-in kinds, run by real workers: real processes, real sockets on this machine, a store in memory.

mod command;
mod event;
mod http;
mod injection;
mod publish;
mod refusals;
mod server;
mod ssrf;
mod stage;
mod tls;
mod trees;

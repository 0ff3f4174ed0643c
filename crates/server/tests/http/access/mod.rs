//! The door: who gets in, what they may, what is written down of it, and how much of anything fits.

mod answers;
mod audit;
mod bounds;
mod extremes;
mod fuzz;
mod keys;
mod leaks;
mod logins;
mod matrix;
mod memory;
mod sockets;
pub(crate) mod stage;
mod strangers;
mod tokens;

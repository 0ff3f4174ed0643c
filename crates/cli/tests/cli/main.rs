//! The program `backstop` from outside: the real binary, every command, for people and for machines.
//!
//! One test binary for all of it, because each would link the whole program's libraries again.

mod archive;
mod bench;
mod both;
mod bridges;
mod config;
mod deploy;
mod every;
mod exposure;
mod extremes;
mod failures;
mod handoffs;
mod jobs;
mod masking;
mod operate;
mod people;
mod program;
mod purge;
mod redrive;
mod rejects;
mod served;
mod server;
mod servers;
mod signals;
mod steps;
mod supervised;
mod terminal;
mod up;
mod usage;
mod work;
mod workflows;

//! What travels with a job: signatures (E9), sealed data (E12), traces and tenants (V1, E13), on every SQL store and the
//! model.

#![cfg(all(feature = "mysql", feature = "postgres", feature = "sqlite"))]

#[path = "papers/changed.rs"]
mod changed;
#[path = "papers/damaged.rs"]
mod damaged;
#[path = "papers/place.rs"]
mod place;
#[path = "papers/sealing.rs"]
mod sealing;
#[path = "papers/signing.rs"]
mod signing;
#[path = "papers/travel.rs"]
mod travel;

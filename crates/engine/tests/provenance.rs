//! What travels with a job: signatures (E9), sealed data (E12), traces and tenants (V1, E13), on every SQL store and the
//! model.

#![cfg(all(feature = "mysql", feature = "postgres", feature = "sqlite"))]

#[path = "provenance/changed.rs"]
mod changed;
#[path = "provenance/damaged.rs"]
mod damaged;
#[path = "provenance/place.rs"]
mod place;
#[path = "provenance/sealing.rs"]
mod sealing;
#[path = "provenance/signing.rs"]
mod signing;
#[path = "provenance/travel.rs"]
mod travel;

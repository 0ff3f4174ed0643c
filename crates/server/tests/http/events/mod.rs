//! What the server tells the outside: events, figures, readiness, webhooks.

mod health;
mod inside;
mod metrics;
mod processes;
mod reader;
mod sink;
mod streams;
mod tenants;
mod ways_out;
mod webhooks;

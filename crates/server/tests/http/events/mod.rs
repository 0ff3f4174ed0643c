//! What the server tells the outside: events, figures, readiness, webhooks.

mod health;
mod metrics;
mod reader;
mod sink;
mod streams;
mod tenants;
mod webhooks;

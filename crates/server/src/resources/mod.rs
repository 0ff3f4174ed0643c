//! One file per resource: its routes, and handlers that translate between requests and the engine.

pub(crate) mod alerts;
pub(crate) mod archive;
pub(crate) mod audit;
pub(crate) mod circuits;
pub(crate) mod clock;
pub(crate) mod dead;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod health;
mod ids;
pub(crate) mod incidents;
pub(crate) mod jobs;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod openapi;
pub(crate) mod ordering_keys;
pub(crate) mod queues;
pub(crate) mod redrives;
pub(crate) mod routes;
pub(crate) mod rules;
pub(crate) mod scale;
pub(crate) mod submit;
pub(crate) mod tokens;
pub(crate) mod webhooks;
pub(crate) mod work;
pub(crate) mod workers;

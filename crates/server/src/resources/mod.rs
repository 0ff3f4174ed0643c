//! One file per resource: its routes, and handlers that translate between requests and the engine.

pub(crate) mod clock;
pub(crate) mod health;
pub(crate) mod queues;
pub(crate) mod work;

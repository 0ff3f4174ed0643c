//! Alerts through the engine: on the model store, with clocks that the tests move (D3).

#[path = "alerts/stage.rs"]
mod stage;

#[path = "alerts/circuits.rs"]
mod circuits;
#[path = "alerts/delivery.rs"]
mod delivery;
#[path = "alerts/isolation.rs"]
mod isolation;
#[cfg(feature = "webhook")]
#[path = "alerts/webhook.rs"]
mod webhook;

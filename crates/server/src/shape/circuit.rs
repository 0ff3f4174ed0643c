//! Circuits of dependencies (H3).

use backstop::Timestamp;
use backstop::circuits::{CircuitState, CircuitView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The circuit of a dependency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Circuit)]
pub struct CircuitJson {
    /// The dependency.
    pub key: String,
    /// What it lets through.
    pub state: CircuitState,
    /// Since when; absent when it has never been otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// When it is tried again, while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Timestamp>,
    /// Calls of the last time, while it is closed.
    pub calls: u64,
    /// Those of a hundred that failed.
    pub failure_rate: u64,
    /// Jobs that wait for it.
    pub parked: u64,
    /// Grows with every change of the state.
    pub generation: u64,
    /// Who opened or closed it by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl From<CircuitView> for CircuitJson {
    fn from(view: CircuitView) -> Self {
        let CircuitView { key, circuit, counts, waiting, .. } = view;
        Self {
            key,
            state: circuit.state,
            since: circuit.since,
            until: circuit.until,
            calls: counts.calls,
            failure_rate: counts.failure_rate(),
            parked: waiting,
            generation: circuit.generation,
            by: circuit.by,
        }
    }
}

/// How long a circuit stays open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenCircuit {
    /// For so long; as its settings say unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_592_000_000_u64)]
    pub for_ms: Option<u64>,
    /// Who says so, where the token does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

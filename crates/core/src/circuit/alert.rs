//! What people are told of a circuit that opened or closed (H3).

use serde::{Deserialize, Serialize};

use super::{CircuitChange, CircuitState};
use crate::time::Timestamp;

/// What is told of a circuit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CircuitAlert {
    /// The dependency.
    pub key: String,
    /// Whether it is open or closed now.
    pub state: CircuitState,
    /// The number of this change.
    pub generation: u64,
    /// Calls that were counted, when they led to it.
    pub calls: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// When it is tried again, if it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who changed it by hand; none when calls did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A circuit that opened or closed, waiting to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CircuitNotice {
    /// When it did.
    pub at: Timestamp,
    /// What it did.
    pub circuit: CircuitAlert,
}

impl CircuitNotice {
    /// The notice of a change from a state; none when that is no news: a circuit that is only tried is open still, and
    /// one that is opened again after a try was so before.
    #[must_use]
    pub fn of(
        key: &str,
        before: CircuitState,
        change: &CircuitChange,
        by: Option<&str>,
        at: Timestamp,
    ) -> Option<Self> {
        let is_news = match change.state {
            CircuitState::Open => before == CircuitState::Closed,
            CircuitState::Closed => before != CircuitState::Closed,
            CircuitState::HalfOpen => false,
        };
        is_news.then(|| Self {
            at,
            circuit: CircuitAlert {
                key: key.to_owned(),
                state: change.state,
                generation: change.generation,
                calls: change.counts.calls,
                failures: change.counts.failures,
                until: change.until,
                by: by.map(str::to_owned),
            },
        })
    }

    /// Its key in the outbox: in the order of time, one for each change.
    #[must_use]
    pub fn outbox_key(&self) -> String {
        let micros = self.at.as_micros().saturating_sub(Timestamp::MIN.as_micros());
        format!("{micros:020}-circuit-{}-{}", self.circuit.generation, self.circuit.key)
    }
}

impl CircuitAlert {
    /// What its messages are gathered by.
    #[must_use]
    pub fn about(key: &str) -> String {
        format!("circuit:{key}")
    }

    /// It in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { key, calls, failures, .. } = self;
        let by = self.by.as_ref().map(|by| format!("{by} did it by hand"));
        match self.state {
            CircuitState::Closed => {
                let why = by.unwrap_or_else(|| "the runs that tried it went well".to_owned());
                format!("the circuit of `{key}` is closed again: {why}")
            }
            CircuitState::Open | CircuitState::HalfOpen => {
                let why = by.unwrap_or_else(|| format!("{failures} of {calls} calls failed"));
                let until =
                    self.until.map_or_else(String::new, |at| format!(", and it is tried again at {at}"));
                format!("the circuit of `{key}` is open: {why}; its jobs wait{until}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuit::CallCounts;

    #[test]
    fn opening_and_closing_are_news_and_tries_are_not() {
        // H3
        let (closed, open, half) = (CircuitState::Closed, CircuitState::Open, CircuitState::HalfOpen);
        for (before, state, is_news) in [
            (closed, open, true),
            (open, open, false),
            (open, half, false),
            (half, open, false),
            (half, closed, true),
            (open, closed, true),
            (closed, closed, false),
        ] {
            let counts = CallCounts { calls: 20, failures: 12 };
            let change = CircuitChange { state, generation: 7, counts, until: None };
            let notice = CircuitNotice::of("partner", before, &change, None, Timestamp::EPOCH);
            assert_eq!(notice.is_some(), is_news, "{before:?} to {state:?}");
            let Some(notice) = notice else { continue };
            let text = serde_json::to_string(&notice).unwrap();
            assert_eq!(serde_json::from_str::<CircuitNotice>(&text).unwrap(), notice);
            let words = if state == open { "12 of 20 calls failed" } else { "went well" };
            assert!(notice.circuit.sentence().contains(words), "{}", notice.circuit.sentence());
        }
        let change = CircuitChange { state: open, generation: 1, counts: CallCounts::default(), until: None };
        let by_hand = CircuitNotice::of("partner", closed, &change, Some("ann"), Timestamp::EPOCH).unwrap();
        assert!(by_hand.circuit.sentence().contains("ann did it by hand"));
    }
}

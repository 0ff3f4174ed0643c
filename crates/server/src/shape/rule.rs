//! Failure rules as they are asked for, and how one fares against the past.

use backstop::{JobId, Timestamp};
use backstop_core::failure::{RuleAction, RuleId, RuleMatch};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A rule to be kept.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "id": "stolen-cards", "matches": { "text": "card is stolen" }, "action": "permanent", "note": "no retry helps"
}))]
pub struct NewRule {
    /// Its name.
    pub id: RuleId,
    /// Why it exists, for the next person.
    #[serde(default)]
    #[schema(max_length = 1000)]
    pub note: String,
    /// Which failures it is about; at least one condition.
    #[serde(deserialize_with = "listless")]
    pub matches: RuleMatch,
    /// What becomes of them.
    #[serde(deserialize_with = "listless")]
    pub action: RuleAction,
    /// False to keep it switched off for now.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Its place: the lowest is asked first.
    #[serde(default)]
    pub position: i64,
    /// Who adds it, when the caller speaks for somebody else. A token's own name stays in front of it.
    #[serde(default)]
    pub by: Option<String>,
}

const fn yes() -> bool {
    true
}

/// Reads a value that has no list in it: readers of structs would also take a list of the values in order, at every
/// depth, which no description of the API allows.
fn listless<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    fn has_list(value: &Value) -> bool {
        match value {
            Value::Array(_) => true,
            Value::Object(fields) => fields.values().any(has_list),
            _ => false,
        }
    }
    let value = Value::deserialize(deserializer)?;
    if has_list(&value) {
        return Err(D::Error::custom("expected an object, got a list"));
    }
    serde_json::from_value(value).map_err(D::Error::custom)
}

/// A rule to be tried on past failures: a kept one by its name, or conditions before they are kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "matches": { "text": "card is stolen" } }))]
pub struct RuleTest {
    /// The name of a kept rule.
    pub id: Option<RuleId>,
    /// Conditions to try.
    #[serde(deserialize_with = "listless")]
    pub matches: Option<RuleMatch>,
    /// Failed jobs to look at, the newest first; 1,000 when it is left out.
    #[schema(minimum = 1, maximum = 10_000)]
    pub most: Option<u32>,
}

/// How a rule fared against past failures.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Rehearsal)]
pub struct RuleRehearsal {
    /// Failed runs that were looked at.
    pub looked_at: u64,
    /// Those it would have decided about, newest job first.
    pub matched: Vec<RuleTrial>,
}

/// What a rule would have done to a failure of the past.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Trial)]
pub struct RuleTrial {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Which run failed.
    pub run: u32,
    /// When.
    pub at: Timestamp,
    /// The sanitized error.
    pub error: String,
    /// What was decided then.
    pub decided: String,
}

impl From<backstop::rule::Rehearsal> for RuleRehearsal {
    fn from(tried: backstop::rule::Rehearsal) -> Self {
        let matched = tried.matched.into_iter().map(|trial| RuleTrial {
            job: trial.job,
            kind: trial.kind,
            queue: trial.queue,
            run: trial.run,
            at: trial.at,
            error: trial.error,
            decided: trial.decided,
        });
        Self { looked_at: u64::try_from(tried.looked_at).unwrap_or(u64::MAX), matched: matched.collect() }
    }
}

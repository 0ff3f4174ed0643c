//! The branches of a campaign: predicates that its workers know, and which branches a result must take (W2).

use std::sync::Arc;

use backstop::{JobResult, WorkerBuilder};
use serde_json::{Value, json};

use crate::journal::Journal;

/// What the kinds of jobs that ask predicates begin with.
pub const ASKING: &str = "predicate:";

/// The branches, in their order: two by predicates of the same names, one by the value of the result, and one that
/// every success takes.
pub const BRANCHES: [&str; 4] = ["odd", "four", "large", "other"];

/// The branches that are predicates.
pub const PREDICATES: [&str; 2] = ["odd", "large"];

/// True when a result takes a branch, if no earlier one excludes it.
#[must_use]
pub fn matches(branch: &str, result: u64) -> bool {
    match branch {
        "odd" => !result.is_multiple_of(2),
        "four" => result == 4,
        "large" => result >= 6,
        _ => branch == "other",
    }
}

/// The branches that a result takes: all that match it, or the first of them only.
#[must_use]
pub fn taken(result: u64, first_match: bool) -> Vec<&'static str> {
    let matching = BRANCHES.into_iter().filter(|branch| matches(branch, result));
    matching.take(if first_match { 1 } else { BRANCHES.len() }).collect()
}

/// Teaches a worker the predicates.
pub fn known_to(worker: WorkerBuilder<Arc<Journal>>) -> WorkerBuilder<Arc<Journal>> {
    PREDICATES.into_iter().fold(worker, |worker, name| {
        worker.predicate(name, move |result: u64| async move { JobResult::Ok(matches(name, result)) })
    })
}

/// The same question, answered by a remote worker: its job is given the one result that it is about.
#[must_use]
pub fn remotely(claimed: &Value) -> Option<Value> {
    let name = claimed["kind"].as_str()?.strip_prefix(ASKING)?;
    let result = claimed["inputs"].as_object()?.values().next()?.as_u64()?;
    Some(json!({ "type": "succeeded", "result": matches(name, result) }))
}

#[cfg(test)]
mod tests {
    use super::taken;

    #[test]
    fn every_result_takes_the_branches_that_match_it() {
        assert_eq!(taken(7, false), ["odd", "large", "other"]);
        assert_eq!(taken(7, true), ["odd"]);
        assert_eq!(taken(4, true), ["four"]);
        assert_eq!(taken(0, true), ["other"]);
    }
}

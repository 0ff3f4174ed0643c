//! A job as people name it: by its whole id, or by as many of its first characters as tell it apart.

use std::str::FromStr;

use backstop::JobId;
use backstop_core::JobIdPrefix;
use backstop_core::id::ParsePrefixError;
use serde_json::Value;

use super::Client;
use crate::problem::Problem;

/// A job that was named on the command line.
#[derive(Debug, Clone)]
pub(crate) enum JobRef {
    Whole(JobId),
    Prefix(JobIdPrefix),
}

impl FromStr for JobRef {
    type Err = ParsePrefixError;

    fn from_str(text: &str) -> Result<Self, ParsePrefixError> {
        match text.parse() {
            Ok(id) => Ok(Self::Whole(id)),
            Err(_) => text.parse().map(Self::Prefix),
        }
    }
}

impl Client {
    /// The id of a job that was named. Whatever follows is asked with the whole id, so that the audit log has it.
    pub(crate) async fn job_id(&self, named: &JobRef) -> Result<JobId, Problem> {
        let prefix = match named {
            JobRef::Whole(id) => return Ok(*id),
            JobRef::Prefix(prefix) => prefix,
        };
        let found = match self.get::<Value>(&format!("/api/v1/jobs/{prefix}")).await {
            Ok(job) => job["id"].clone(),
            Err(problem) if problem.is("archived") => problem.facts()["id"].clone(),
            Err(problem) if problem.is("ambiguous_id") => return Err(listed(problem)),
            Err(problem) => return Err(problem),
        };
        serde_json::from_value(found).map_err(|problem| super::unexpected(&problem.to_string()))
    }
}

/// The same problem with its candidates, one a line, for people to choose from.
fn listed(problem: Problem) -> Problem {
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or("-").to_owned();
    let candidates = problem.facts()["candidates"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = candidates
        .map(|one| format!("{}  {}  {}", text(one, "id"), text(one, "kind"), text(one, "status")))
        .collect();
    if lines.is_empty() {
        return problem;
    }
    if problem.facts()["more"] == true {
        lines.push("…".to_owned());
    }
    problem.hint(format!("give more of the id:\n{}", lines.join("\n")))
}

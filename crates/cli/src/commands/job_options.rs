//! What people say of a job that is submitted now, or again and again by a schedule.

use std::io::Read;
use std::time::Duration;

use backstop::{Jitter, OnConflict, Priority, Refusal};
use backstop_core::failure::Growth;
use backstop_server::shape::BackoffPart;
use clap::Args;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::output::span;
use crate::problem::Problem;

/// Options of a job.
#[derive(Debug, Args)]
pub(crate) struct JobOptions {
    /// The queue [default: default].
    #[arg(long)]
    pub(super) queue: Option<String>,
    /// The priority: lowest, low, normal, high, critical, or 0 to 4.
    #[arg(long)]
    pub(super) priority: Option<Priority>,
    /// Run it no earlier than this long after it is submitted, such as 30s.
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    pub(super) delay: Option<Duration>,
    /// Charged runs after the first.
    #[arg(long, value_name = "N")]
    pub(super) max_retries: Option<u32>,
    /// How the wait between charged runs grows: none, fixed, linear or exponential.
    #[arg(long, value_name = "POLICY")]
    backoff: Option<Growth>,
    /// The wait after the first failure.
    #[arg(long, value_name = "MS")]
    base_ms: Option<u64>,
    /// The longest wait.
    #[arg(long, value_name = "MS")]
    cap_ms: Option<u64>,
    /// How waits are spread: none, full, equal or a percentage such as 20%.
    #[arg(long)]
    jitter: Option<Jitter>,
    /// How long one run may take.
    #[arg(long, value_name = "MS")]
    pub(super) timeout_ms: Option<u64>,
    /// Fail it if it has not started this long after it was due.
    #[arg(long, value_name = "MS")]
    pub(super) max_wait_ms: Option<u64>,
    /// Allow only one live job with this key.
    #[arg(long, value_name = "KEY")]
    pub(super) business_key: Option<String>,
    /// Run jobs with the same key one at a time, in the order they were submitted.
    #[arg(long, value_name = "KEY")]
    pub(super) ordering_key: Option<String>,
    /// What limits by key count, such as a customer: keys share a queue by turns.
    #[arg(long, value_name = "KEY")]
    pub(super) limit_key: Option<String>,
    /// Run one job with this name at a time.
    #[arg(long, value_name = "NAME")]
    pub(super) single_instance: Option<String>,
    /// Permits of a pool that its run holds; may be repeated.
    #[arg(long = "permits", value_name = "POOL=N", value_parser = permits)]
    pub(super) permits: Vec<(String, u32)>,
    /// Fail it if limits, a circuit or a dependency keep it from running this long.
    #[arg(long, value_name = "MS")]
    pub(super) max_deferral_ms: Option<u64>,
    /// What it needs that may be unavailable, in place of what its kind needs.
    #[arg(long, value_name = "NAME")]
    pub(super) dependency: Option<String>,
    /// What to do when a live job holds the business key: reject, skip or replace.
    #[arg(long, value_name = "POLICY", value_parser = on_conflict)]
    pub(super) on_conflict: Option<OnConflict>,
    /// A tag to find it by; may be repeated.
    #[arg(long = "tag", value_name = "TAG")]
    pub(super) tags: Vec<String>,
    /// A parameter beside the payload; the value is JSON if it parses, else text; may be repeated.
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = param)]
    params: Vec<(String, Value)>,
    /// The id of the request or trace it belongs to.
    #[arg(long, value_name = "ID")]
    pub(super) correlation_id: Option<String>,
}

impl JobOptions {
    /// The parameters as one object, if any were given.
    pub(super) fn params(&self) -> Result<Option<Box<RawValue>>, Problem> {
        if self.params.is_empty() {
            return Ok(None);
        }
        let params: Map<String, Value> = self.params.iter().cloned().collect();
        let text =
            to_raw_value(&params).map_err(|problem| Refusal::invalid("params", problem.to_string()))?;
        Ok(Some(text))
    }

    /// The backoff, if any part of it was given; the rest stays as the configuration has it.
    pub(super) fn backoff(&self) -> Option<BackoffPart> {
        let part = BackoffPart {
            policy: self.backoff,
            base_ms: self.base_ms,
            cap_ms: self.cap_ms,
            jitter: self.jitter,
        };
        (part != BackoffPart::default()).then_some(part)
    }
}

/// A payload as it was given, or as stdin has it.
pub(super) fn payload(given: &str) -> Result<Box<RawValue>, Problem> {
    let text = if given == "-" { stdin()? } else { given.to_owned() };
    let read = RawValue::from_string(text.trim().to_owned());
    let invalid =
        |problem: serde_json::Error| Refusal::invalid("payload", format!("it is not valid JSON: {problem}"));
    Ok(read.map_err(invalid)?)
}

fn stdin() -> Result<String, Problem> {
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .read_to_string(&mut text)
        .map_err(|error| Problem::failed("stdin", format!("cannot read the payload from stdin: {error}")))?;
    Ok(text)
}

/// A span as requests have it.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Reads permits of a pool, such as `gpu=2`.
fn permits(text: &str) -> Result<(String, u32), String> {
    let (pool, permits) = text.split_once('=').ok_or("say it as POOL=N, such as gpu=2")?;
    let permits = permits.parse().map_err(|_| format!("`{permits}` is not a number of permits"))?;
    Ok((pool.to_owned(), permits))
}

fn on_conflict(word: &str) -> Result<OnConflict, String> {
    let known =
        [("reject", OnConflict::Reject), ("skip", OnConflict::Skip), ("replace", OnConflict::Replace)];
    let found = known.into_iter().find(|(name, _)| *name == word);
    found.map(|(_, policy)| policy).ok_or_else(|| "use reject, skip or replace".to_owned())
}

fn param(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    if key.is_empty() {
        return Err("the key is missing: write KEY=VALUE".to_owned());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok((key.to_owned(), value))
}

//! `backstop enqueue KIND [JSON]`: every option of a submit.

use std::borrow::Cow;
use std::io::Read;
use std::time::Duration;

use backstop::{Jitter, OnConflict, Priority, Refusal, Timestamp};
use backstop_core::failure::Growth;
use backstop_server::shape::{BackoffPart, Items, JobsBatch, SubmitJob, SubmittedJob};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::app::App;
use crate::client::{Client, JobRef};
use crate::output::figures::counted;
use crate::output::{clean, span};
use crate::problem::{Exit, Problem};

/// Jobs of one transaction when many are stored.
const BATCH: u64 = 1_000;

/// Options of `enqueue`.
#[derive(Debug, Args)]
pub(crate) struct EnqueueOptions {
    /// The kind of job.
    kind: String,
    /// The payload as JSON; `-` reads it from stdin.
    #[arg(value_name = "JSON", default_value = "{}", allow_negative_numbers = true)]
    payload: String,
    /// The queue [default: default].
    #[arg(long)]
    queue: Option<String>,
    /// The priority: lowest, low, normal, high, critical, or 0 to 4.
    #[arg(long)]
    priority: Option<Priority>,
    /// Run it no earlier than this long from now, such as 30s.
    #[arg(long, value_name = "DURATION", value_parser = span::parse, conflicts_with = "run_at")]
    delay: Option<Duration>,
    /// Run it no earlier than this moment.
    #[arg(long, value_name = "MOMENT")]
    run_at: Option<Timestamp>,
    /// Never start it later than this moment.
    #[arg(long, value_name = "MOMENT")]
    expires_at: Option<Timestamp>,
    /// Charged runs after the first.
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
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
    timeout_ms: Option<u64>,
    /// Fail it if it has not started this long after it was due.
    #[arg(long, value_name = "MS")]
    max_wait_ms: Option<u64>,
    /// Enqueue only once with this key: the same key again returns the first job.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Allow only one live job with this key.
    #[arg(long, value_name = "KEY")]
    business_key: Option<String>,
    /// Run jobs with the same key one at a time, in the order they were submitted.
    #[arg(long, value_name = "KEY")]
    ordering_key: Option<String>,
    /// What limits by key count, such as a customer: keys share a queue by turns.
    #[arg(long, value_name = "KEY")]
    limit_key: Option<String>,
    /// Run one job with this name at a time.
    #[arg(long, value_name = "NAME")]
    single_instance: Option<String>,
    /// Permits of a pool that its run holds; may be repeated.
    #[arg(long = "permits", value_name = "POOL=N", value_parser = permits)]
    permits: Vec<(String, u32)>,
    /// Fail it if limits, a circuit or a dependency keep it from running this long.
    #[arg(long, value_name = "MS")]
    max_deferral_ms: Option<u64>,
    /// What it needs that may be unavailable, in place of what its kind needs.
    #[arg(long, value_name = "NAME")]
    dependency: Option<String>,
    /// What to do when a live job holds the business key: reject, skip or replace.
    #[arg(long, value_name = "POLICY", value_parser = on_conflict)]
    on_conflict: Option<OnConflict>,
    /// Cancel this unstarted job and take its place, in one transaction.
    #[arg(long, value_name = "ID")]
    replaces: Option<JobRef>,
    /// A tag to find it by; may be repeated.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// A parameter beside the payload; the value is JSON if it parses, else text; may be repeated.
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = param)]
    params: Vec<(String, Value)>,
    /// The id of the request or trace it belongs to.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Enqueue this many identical jobs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["idempotency_key", "business_key", "replaces"])]
    count: Option<u64>,
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

pub(crate) async fn run(args: EnqueueOptions, app: &App) -> Result<Exit, Problem> {
    let payload = payload(&args.payload)?;
    let payload: &RawValue = serde_json::from_str(&payload)
        .map_err(|problem| Refusal::invalid("payload", format!("it is not valid JSON: {problem}")))?;
    let params = args.params()?;
    let mut job = args.job(payload, params.as_deref());
    let client = app.client().await?;
    if let Some(named) = &args.replaces {
        job.replaces = Some(client.job_id(named).await?);
    }
    match args.count {
        None => one(&job, &client, app).await?,
        Some(count) => many(&job, count, &client, app).await?,
    }
    Ok(Exit::Done)
}

fn payload(given: &str) -> Result<String, Problem> {
    if given != "-" {
        return Ok(given.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .read_to_string(&mut text)
        .map_err(|error| Problem::failed("stdin", format!("cannot read the payload from stdin: {error}")))?;
    Ok(text)
}

async fn one(job: &SubmitJob<'_>, client: &Client, app: &App) -> Result<(), Problem> {
    let stored: SubmittedJob = client.post("/api/v1/jobs", job).await?;
    if app.out.json {
        return app.out.document(&stored);
    }
    let id = stored.id;
    app.out.page(&id.to_string())?;
    if stored.deduplicated {
        app.out.note(&format!("already enqueued, now {}: `backstop job show {id}`", stored.status));
    } else {
        let kind = clean(&job.kind);
        app.out.note(&format!("enqueued `{kind}`: `backstop job explain {id}` says what happens next"));
    }
    Ok(())
}

async fn many(job: &SubmitJob<'_>, count: u64, client: &Client, app: &App) -> Result<(), Problem> {
    let bar = if app.out.live { ProgressBar::new(count) } else { ProgressBar::hidden() };
    let mut stored: Vec<SubmittedJob> = Vec::new();
    let mut left = count;
    while left > 0 {
        let size = left.min(BATCH);
        let jobs = (0..size).map(|_| job.clone()).collect();
        let answers: Items<SubmittedJob> =
            client.post("/api/v1/jobs/batch", &JobsBatch { jobs, partial: false }).await?;
        if app.out.json {
            stored.extend(answers.items);
        }
        left -= size;
        bar.inc(size);
    }
    bar.finish_and_clear();
    if app.out.json {
        return app.out.items(&stored, None);
    }
    let (kind, queue) = (clean(&job.kind), clean(job.queue.as_deref().unwrap_or("default")));
    app.out.page(&format!("enqueued {} of kind `{kind}` on queue `{queue}`", counted(count, "job")))
}

impl EnqueueOptions {
    /// The submit with every option that was given.
    fn job<'a>(&'a self, payload: &'a RawValue, params: Option<&'a RawValue>) -> SubmitJob<'a> {
        SubmitJob {
            kind: Cow::Borrowed(&self.kind),
            payload: Some(payload),
            queue: self.queue.clone(),
            priority: self.priority,
            run_at: self.run_at,
            delay_ms: self.delay.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)),
            expires_at: self.expires_at,
            max_retries: self.max_retries,
            backoff: self.backoff(),
            timeout_ms: self.timeout_ms,
            max_wait_ms: self.max_wait_ms,
            idempotency_key: self.idempotency_key.clone(),
            business_key: self.business_key.clone(),
            ordering_key: self.ordering_key.clone(),
            limit_key: self.limit_key.clone(),
            single_instance: self.single_instance.clone(),
            permits: self.permits.iter().cloned().collect(),
            max_deferral_ms: self.max_deferral_ms,
            dependency: self.dependency.clone(),
            on_conflict: self.on_conflict,
            tags: self.tags.clone(),
            params,
            correlation_id: self.correlation_id.clone(),
            ..SubmitJob::default()
        }
    }

    /// The parameters as one object, if any were given.
    fn params(&self) -> Result<Option<Box<RawValue>>, Problem> {
        if self.params.is_empty() {
            return Ok(None);
        }
        let params: Map<String, Value> = self.params.iter().cloned().collect();
        let text =
            to_raw_value(&params).map_err(|problem| Refusal::invalid("params", problem.to_string()))?;
        Ok(Some(text))
    }

    /// The backoff, if any part of it was given; the rest stays as the configuration has it.
    fn backoff(&self) -> Option<BackoffPart> {
        let part = BackoffPart {
            policy: self.backoff,
            base_ms: self.base_ms,
            cap_ms: self.cap_ms,
            jitter: self.jitter,
        };
        (part != BackoffPart::default()).then_some(part)
    }
}

//! `backstop enqueue KIND [JSON]`: every option of a submit.

use std::borrow::Cow;

use backstop::Timestamp;
use backstop_server::shape::{Items, JobsBatch, SubmitJob, SubmittedJob};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::value::RawValue;

use super::job_options::{JobOptions, millis, payload};
use crate::app::App;
use crate::client::{Client, JobRef};
use crate::output::clean;
use crate::output::figures::counted;
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
    #[command(flatten)]
    job: JobOptions,
    /// Run it no earlier than this moment.
    #[arg(long, value_name = "MOMENT", conflicts_with = "delay")]
    run_at: Option<Timestamp>,
    /// Never start it later than this moment.
    #[arg(long, value_name = "MOMENT")]
    expires_at: Option<Timestamp>,
    /// Enqueue only once with this key: the same key again returns the first job.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Cancel this unstarted job and take its place, in one transaction.
    #[arg(long, value_name = "ID")]
    replaces: Option<JobRef>,
    /// Enqueue this many identical jobs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["idempotency_key", "business_key", "replaces"])]
    count: Option<u64>,
}

pub(crate) async fn run(args: EnqueueOptions, app: &App) -> Result<Exit, Problem> {
    let payload = payload(&args.payload)?;
    let params = args.job.params()?;
    let mut job = args.job(&payload, params.as_deref());
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
        let job = &self.job;
        SubmitJob {
            kind: Cow::Borrowed(&self.kind),
            payload: Some(payload),
            queue: job.queue.clone(),
            priority: job.priority,
            run_at: self.run_at,
            delay_ms: job.delay.map(millis),
            expires_at: self.expires_at,
            max_retries: job.max_retries,
            backoff: job.backoff(),
            timeout_ms: job.timeout_ms,
            max_wait_ms: job.max_wait_ms,
            idempotency_key: self.idempotency_key.clone(),
            business_key: job.business_key.clone(),
            ordering_key: job.ordering_key.clone(),
            limit_key: job.limit_key.clone(),
            single_instance: job.single_instance.clone(),
            permits: job.permits.iter().cloned().collect(),
            max_deferral_ms: job.max_deferral_ms,
            dependency: job.dependency.clone(),
            on_conflict: job.on_conflict,
            tags: job.tags.clone(),
            params,
            correlation_id: job.correlation_id.clone(),
            ..SubmitJob::default()
        }
    }
}

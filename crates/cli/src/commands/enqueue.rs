//! `backstop enqueue KIND [JSON]`: every option of a submit.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use backstop::core::failure::Growth;
use backstop::{Backoff, Backstop, Jitter, JobId, OnConflict, Priority, Submitted, Timestamp};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::output::figures::counted;
use crate::output::{clean, span};
use crate::problem::{Exit, Problem};

/// Jobs of one transaction when many are stored.
const BATCH: u64 = 1_000;

/// Options of `enqueue`.
#[derive(Debug, Args)]
pub(crate) struct Enqueue {
    /// Which code runs it.
    kind: String,
    /// Its input as JSON; `-` reads it from stdin.
    #[arg(value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    payload: String,
    /// Where it waits [default: default].
    #[arg(long)]
    queue: Option<String>,
    /// lowest, low, normal, high, critical, or 0 to 4.
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
    /// Fail it when it has been due this long without starting.
    #[arg(long, value_name = "MS")]
    max_wait_ms: Option<u64>,
    /// Submitting the same key again, ever, answers with the first job.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// No two live jobs share this key.
    #[arg(long, value_name = "KEY")]
    business_key: Option<String>,
    /// When a live job holds the business key: reject, skip or replace.
    #[arg(long, value_name = "POLICY", value_parser = on_conflict)]
    on_conflict: Option<OnConflict>,
    /// Cancel this unstarted job and take its place, in one transaction.
    #[arg(long, value_name = "ID")]
    replaces: Option<JobId>,
    /// A word to find it by; may be repeated.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// A setting beside the input; the value is JSON if it can be, else text; may be repeated.
    #[arg(long = "param", value_name = "KEY=VALUE", value_parser = param)]
    params: Vec<(String, Value)>,
    /// Ties it to a request or a trace outside.
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// Store this many jobs alike.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          conflicts_with_all = ["idempotency_key", "business_key", "replaces"])]
    count: Option<u64>,
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

pub(crate) async fn run(args: Enqueue, app: &App) -> Result<Exit, Problem> {
    let payload: Arc<str> = payload(&args.payload)?.into();
    let engine = app.open().await?;
    match args.count {
        None => one(&args, payload, &engine, app).await?,
        Some(count) => many(&args, &payload, count, &engine, app).await?,
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

async fn one(args: &Enqueue, payload: Arc<str>, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let submitted = args.prepare(engine, payload).submit().await?;
    if app.out.json {
        return app.out.document(&answer(&submitted));
    }
    app.out.page(&submitted.id.to_string())?;
    let id = submitted.id;
    if submitted.deduplicated {
        app.out.note(&format!(
            "this job was there already, and is {}: `backstop job show {id}`",
            submitted.state
        ));
    } else {
        let kind = clean(&args.kind);
        app.out.note(&format!("stored `{kind}`; `backstop job explain {id}` says what happens next"));
    }
    Ok(())
}

async fn many(
    args: &Enqueue,
    payload: &Arc<str>,
    count: u64,
    engine: &Backstop,
    app: &App,
) -> Result<(), Problem> {
    let bar = if app.out.live { ProgressBar::new(count) } else { ProgressBar::hidden() };
    let mut stored = Vec::new();
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        let jobs = (0..batch).map(|_| args.prepare(engine, payload.clone())).collect();
        let mut answers = engine.submit_all(jobs, true).await?;
        // The items are alike: when one is refused, the first one says why.
        if answers.iter().any(Result::is_err) {
            return Err(answers.swap_remove(0).err().map_or_else(
                || Problem::failed("batch_refused", "a batch of jobs was refused"),
                Problem::from,
            ));
        }
        if app.out.json {
            stored.extend(answers.into_iter().flatten().map(|submitted| answer(&submitted)));
        }
        left -= batch;
        bar.inc(batch);
    }
    bar.finish_and_clear();
    if app.out.json {
        return app.out.items(&stored, None);
    }
    let queue = clean(args.queue.as_deref().unwrap_or("default"));
    app.out.page(&format!(
        "stored {} of kind `{}` on queue `{queue}`",
        counted(count, "job"),
        clean(&args.kind)
    ))
}

fn answer(submitted: &Submitted) -> Value {
    json!({ "id": submitted.id, "status": submitted.state, "deduplicated": submitted.deduplicated })
}

impl Enqueue {
    /// The submit with every option that was given.
    fn prepare(&self, engine: &Backstop, payload: Arc<str>) -> backstop::Enqueue {
        let mut job = engine.enqueue_raw(&self.kind, payload);
        macro_rules! set {
            ($($option:ident => $method:ident),* $(,)?) => {
                $(if let Some(value) = self.$option.clone() { job = job.$method(value); })*
            };
        }
        set! {
            queue => queue, priority => priority, delay => delay, run_at => run_at, expires_at => expires_at,
            max_retries => max_retries, idempotency_key => idempotency_key, business_key => business_key,
            on_conflict => on_conflict, replaces => replaces, correlation_id => correlation_id,
        }
        if let Some(timeout) = self.timeout_ms {
            job = job.timeout(Duration::from_millis(timeout));
        }
        if let Some(wait) = self.max_wait_ms {
            job = job.max_wait(Duration::from_millis(wait));
        }
        if let Some(backoff) = self.own_backoff(engine) {
            job = job.backoff(backoff);
        }
        for tag in &self.tags {
            job = job.tag(tag);
        }
        if !self.params.is_empty() {
            let params: Map<String, Value> = self.params.iter().cloned().collect();
            job = job.params(params);
        }
        job
    }

    /// The backoff, if any part of it was given; the rest stays as the configuration has it.
    fn own_backoff(&self, engine: &Backstop) -> Option<Backoff> {
        if self.backoff.is_none() && self.base_ms.is_none() && self.cap_ms.is_none() && self.jitter.is_none()
        {
            return None;
        }
        let config = engine.config();
        let queue = config.queues.get(self.queue.as_deref().unwrap_or("default"));
        let policy = config.kinds.get(&self.kind).or_else(|| queue?.policy.as_ref());
        let mut backoff = policy.map(|policy| policy.backoff).unwrap_or_default();
        backoff.growth = self.backoff.unwrap_or(backoff.growth);
        backoff.base = self.base_ms.map_or(backoff.base, Duration::from_millis);
        backoff.cap = self.cap_ms.map_or(backoff.cap, Duration::from_millis).max(backoff.base);
        backoff.jitter = self.jitter.unwrap_or(backoff.jitter);
        Some(backoff)
    }
}

//! A pipeline of The Pipeline Framework as jobs, and the checkpoint that another pipeline goes on with.
//!
//! Run with `cargo run -p backstop-bridges --example tpf`. Both pipelines are in this process, each with a store of its
//! own, and HTTP between them. Above each part stands what it was there; the table of names is in docs/migrate/tpf.md.

#![allow(clippy::print_stdout, reason = "it tells what it does")]

use std::error::Error;

use backstop::prelude::*;
use backstop::rejects::NewReject;
use backstop::workflows::SubmittedWorkflow;
use backstop_bridges::handoff::{HandOffLoop, HandOffRunState, HandOffSettings};
use backstop_server::{Api, Scope, ServerSettings, TokenRequest, bind, serve};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A step that reads items.
#[job]
async fn read(cx: JobContext<()>, rows: Vec<String>) -> JobResult<Vec<u64>> {
    let mut cents = Vec::new();
    for row in &rows {
        match row.parse::<u64>() {
            Ok(number) => cents.push(number),
            // rejectItem(row, error)
            Err(error) => cx.reject_with(NewReject::new(row, error).keep_item()).await?,
        }
    }
    Ok(cents)
}

/// A step of its own, with its own retries: retry-limit 3.
#[job(max_retries = 3)]
async fn price(cx: JobContext<()>, file: String) -> JobResult<Value> {
    let cents: Vec<u64> = cx.input("read")?;
    if cents.is_empty() {
        // throw new NonRetryableException("…")
        return Err(Outcome::permanent("there is no order in it").into());
    }
    Ok(json!({ "file": file, "cents": cents.iter().sum::<u64>() }))
}

/// The first step of the other pipeline.
#[job]
async fn ship(file: String, cents: u64) -> JobResult<String> {
    Ok(format!("{file}: goods for {cents} cents"))
}

/// One execution of the pipeline.
async fn execute(engine: &Backstop, key: &str, rows: &[&str]) -> Result<SubmittedWorkflow, Box<dyn Error>> {
    let rows = rows.iter().map(ToString::to_string).collect();
    // createOrGetExecution(key): the same key is the same execution, for ever.
    let pipeline = engine
        .chain("orders", engine.enqueue(Read { rows }))
        .then(engine.enqueue(Price { file: "november.csv".to_owned() }))
        .key(key);
    let submitted = pipeline.submit().await?;
    let worker = engine.worker(()).register::<Read>().register::<Price>().queue("default", 2).inline()?;
    worker.drain(10).await?;
    Ok(submitted)
}

/// Runs both pipelines, and answers what came of it.
pub(crate) async fn play() -> Result<Vec<String>, Box<dyn Error>> {
    let mut told = Vec::new();
    let (orders, warehouse) = (Backstop::open("memory:").await?, Backstop::open("memory:").await?);

    // input.subscription { publication: "priced" }: the other team serves its API, and gives a token away.
    let api = Api::new(warehouse.clone(), ServerSettings::default());
    let listener = bind(([127, 0, 0, 1], 0).into(), &api).await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(listener, api.clone(), async { drop(stopped.await) }));
    let wish = TokenRequest {
        name: "orders".to_owned(),
        scopes: [Scope::Submit].into(),
        tenant: None,
        queues: None,
        expires: None,
    };
    let (token, _) = api.tokens().create(wish, "example").await?;

    // output.checkpoint { publication: "priced", idempotencyKeyFields: ["file"] }
    let mut checkpoint = HandOffSettings::to(format!("http://{address}")).token(token.reveal());
    checkpoint.kinds = ["price".to_owned()].into();
    checkpoint.kind = Some("ship".to_owned());
    checkpoint.key = vec!["file".to_owned()];
    let priced = HandOffLoop::new(&orders, "priced", &checkpoint)?.start();
    priced.until(|status| status.state == HandOffRunState::Publishing).await;

    let first = execute(&orders, "november", &["990", "n/a", "10"]).await?;
    let again = execute(&orders, "november", &["990", "n/a", "10"]).await?;
    told.push(format!("november again: the same execution, {}", again.deduplicated && again.id == first.id));
    let (_, reading) = first.nodes.first().ok_or("it has steps")?;
    for reject in orders.rejects().of_job(*reading, 10).await? {
        told.push(format!("rejected item {}: {}", reject.item.unwrap_or_default(), reject.error));
    }

    // Another execution with the same hand-off key: one checkpoint there.
    execute(&orders, "november-late", &["990", "10"]).await?;
    let sent = priced.until(|status| status.admitted + status.duplicates == 2).await;
    told.push(format!("checkpoints: {} admitted, {} suppressed", sent.admitted, sent.duplicates));
    let worker = warehouse.worker(()).register::<Ship>().queue("default", 1).inline()?;
    for ran in worker.drain(10).await? {
        let done = warehouse.job(ran.job).await?.ok_or("a job is never lost")?;
        told.push(format!("there: {}", done.view.result.unwrap_or_default()));
    }

    // The execution DLQ, and neither a checkpoint nor a reject.
    let empty = execute(&orders, "december", &[]).await?;
    let (_, pricing) = empty.nodes.last().ok_or("it has steps")?;
    let dead = orders.job(*pricing).await?.ok_or("a dead letter is never lost")?.view.record;
    let reason = dead.reason.ok_or("it has failed for good")?;
    told.push(format!("december: {} after {} run, {reason}", dead.state, dead.runs));

    priced.stop().await;
    drop(stop);
    served.await??;
    Ok(told)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in play().await? {
        println!("{line}");
    }
    Ok(())
}

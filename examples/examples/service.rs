// A service that charges orders in the background. Run it with: cargo run -p backstop-examples --example service
use std::time::Duration;

use backstop::prelude::*;

#[derive(Debug, thiserror::Error, JobError)]
enum ChargeError {
    #[error("the card was declined")]
    #[job(permanent = "asking again does not change the bank's mind")]
    Declined,
    #[error("the bank answered {0}")]
    Bank(u16), // no mark: retried by the job's backoff
}

#[job(queue = "billing", max_retries = 8, timeout = "30s")]
async fn charge(cx: JobContext<Bank>, order: u64, cents: u64) -> Result<String, ChargeError> {
    // The key is the same in every run of this job, so the bank books it once, however often it is asked.
    cx.app().book(&cx.effect_key(), order, cents).await
}

#[tokio::main]
async fn main() -> JobResult {
    let store = std::env::var("STORE").unwrap_or_else(|_| "sqlite:shop.db".to_owned());
    let engine = Backstop::open(&store).await?;

    // Belongs in a request handler. `Ok` means that the job is durable; the same key never makes a second one.
    engine.enqueue(Charge { order: 17, cents: 4_200 }).idempotency_key("order-17").submit().await?;

    // Runs until SIGTERM. Then it claims no more, lets running work finish and hands the rest back uncharged.
    let worker = engine.worker(Bank).register_all().queue("billing", 16);
    let worker = worker.code_version(env!("CARGO_PKG_VERSION")).grace(Duration::from_secs(20));
    let stopped = worker.run().await?;
    println!("stopped, {} runs handed back", stopped.interrupted);
    Ok(())
}

/// Stands for the client of a real bank.
struct Bank;

impl Bank {
    async fn book(&self, key: &str, order: u64, cents: u64) -> Result<String, ChargeError> {
        match cents {
            0 => Err(ChargeError::Declined),
            1_000_000.. => Err(ChargeError::Bank(503)),
            _ => {
                println!("order {order}: booked {cents} cents");
                Ok(format!("receipt-{key}"))
            }
        }
    }
}

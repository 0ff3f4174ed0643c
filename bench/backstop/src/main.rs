//! Backstop in `cargo xtask bench compare`, on whichever store the URL names, by its public interface only.
//!
//! Everything is as any program has it: full history, every acknowledged job durable, maintenance on.
//! - [`work`]: the jobs. [`served`]: the queues, their worker and their counts.
//! - [`store`]: jobs are stored. [`drain`]: they are run. [`redrive`]: they are driven again.
//! - [`steady`]: they come one by one, with or without a storm beside them. [`idle`]: none come.

mod drain;
mod idle;
mod redrive;
mod served;
mod steady;
mod store;
mod work;

use backstop::Config;
use backstop::prelude::*;
use backstop_contest::{DriverAnswer, DriverCall, DriverError, DriverPhase};

use served::{CONCURRENCY, ServedQueues};
use work::HandlerBehaviour;

/// As in the program `backstop`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), DriverError> {
    let arguments = DriverCall::read()?;
    if arguments.phase == DriverPhase::Version {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let settings = format!("one worker, {CONCURRENCY} runs at once, full history, defaults otherwise");
        DriverAnswer::Version { version, settings }.print();
        return Ok(());
    }
    let engine = Backstop::open_with(&arguments.url, config(arguments.phase)).await?;
    answer(&engine, &arguments).await?.print();
    Ok(())
}

fn config(phase: DriverPhase) -> Config {
    match phase {
        // What a storm may do to others is a matter of the defaults.
        DriverPhase::Storm => Config::default(),
        // A budget is there to hold retries back, and here they are what is measured.
        _ => Config::default().retry_budget(None),
    }
}

async fn answer(engine: &Backstop, arguments: &DriverCall) -> Result<DriverAnswer, DriverError> {
    let served = ServedQueues::new(arguments);
    match arguments.phase {
        DriverPhase::Version | DriverPhase::Setup => Ok(DriverAnswer::Done),
        DriverPhase::EnqueueBulk => store::bulk(engine, arguments, &served).await,
        DriverPhase::EnqueueSingle => store::single(engine, arguments).await,
        DriverPhase::Drain => {
            drain::drain(engine, arguments, &served, HandlerBehaviour::Well, |queue| queue.succeeded).await
        }
        DriverPhase::Fail => {
            drain::drain(engine, arguments, &served, HandlerBehaviour::Broken, |queue| queue.failed).await
        }
        DriverPhase::Retry => {
            drain::drain(engine, arguments, &served, HandlerBehaviour::Stumbling, |queue| queue.succeeded)
                .await
        }
        DriverPhase::Redrive => redrive::redrive(engine, arguments, &served).await,
        DriverPhase::Latency => steady::latency(engine, arguments, &served).await,
        DriverPhase::Storm => steady::storm(engine, arguments).await,
        DriverPhase::Idle => idle::idle(engine, arguments, &served).await,
    }
}

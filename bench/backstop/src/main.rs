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
use backstop_contest::{Answer, Arguments, Failure, Phase};

use served::{CONCURRENCY, Served};
use work::Mood;

/// As in the program `backstop`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments = Arguments::read()?;
    if arguments.phase == Phase::Version {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let settings = format!("one worker, {CONCURRENCY} runs at once, full history, defaults otherwise");
        Answer::Version { version, settings }.print();
        return Ok(());
    }
    let engine = Backstop::open_with(&arguments.url, config(arguments.phase)).await?;
    answer(&engine, &arguments).await?.print();
    Ok(())
}

fn config(phase: Phase) -> Config {
    match phase {
        // What a storm may do to others is a matter of the defaults.
        Phase::Storm => Config::default(),
        // A budget is there to hold retries back, and here they are what is measured.
        _ => Config::default().retry_budget(None),
    }
}

async fn answer(engine: &Backstop, arguments: &Arguments) -> Result<Answer, Failure> {
    let served = Served::new(arguments);
    match arguments.phase {
        Phase::Version | Phase::Setup => Ok(Answer::Done),
        Phase::EnqueueBulk => store::bulk(engine, arguments, &served).await,
        Phase::EnqueueSingle => store::single(engine, arguments).await,
        Phase::Drain => drain::drain(engine, arguments, &served, Mood::Well, |queue| queue.succeeded).await,
        Phase::Fail => drain::drain(engine, arguments, &served, Mood::Broken, |queue| queue.failed).await,
        Phase::Retry => {
            drain::drain(engine, arguments, &served, Mood::Stumbling, |queue| queue.succeeded).await
        }
        Phase::Redrive => redrive::redrive(engine, arguments, &served).await,
        Phase::Latency => steady::latency(engine, arguments, &served).await,
        Phase::Storm => steady::storm(engine, arguments).await,
        Phase::Idle => idle::idle(engine, arguments, &served).await,
    }
}

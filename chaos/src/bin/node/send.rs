//! Sends signals one after the other, and begins with the first one whenever it is started again.

use backstop::prelude::*;
use backstop_chaos::errand::SignalJob;

/// Sends what jobs with the numbers of `CHAOS_SIGNALS` wait for, and says so. Each signal goes out twice: with its id
/// it is one, and so it is when another process repeats it.
pub(super) async fn run(engine: &Backstop) -> JobResult {
    for number in std::env::var("CHAOS_SIGNALS")?.split(',') {
        let number: u64 = number.parse()?;
        let signal = SignalJob { number }.signal();
        for _ in 0..2 {
            engine.signals().send(&signal, &number).id("once").await?;
        }
        println!("{number}");
    }
    Ok(())
}

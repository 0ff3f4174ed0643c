//! Worker processes that work side by side, of which some may be broken (H8).

use std::time::Duration;

use backstop::prelude::*;

/// Fails where its process is broken.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct FleetJob {}

/// Says to a process which queue it serves: each has its own, so that each has its share.
pub const QUEUE: &str = "CHAOS_QUEUE";

/// Says to a process that it is broken.
pub const BROKEN: &str = "CHAOS_BROKEN";

impl Job for FleetJob {
    const KIND: &'static str = "fleet";
    /// Whether the process is broken.
    type Context = bool;
    type Output = JobResult;

    async fn run(self, cx: JobContext<bool>) -> JobResult {
        if *cx.app() { Err("no space left on device".into()) } else { Ok(()) }
    }
}

/// Works until it is told to stop.
///
/// # Errors
/// When the store cannot be opened.
pub async fn work(url: &str, lease: Duration) -> JobResult {
    let (queue, broken) = (std::env::var(QUEUE)?, std::env::var_os(BROKEN).is_some());
    let worker = Backstop::open(url).await?.worker(broken).register::<FleetJob>().queue(queue.clone(), 4);
    worker.name(queue).lease(lease).poll(Duration::from_millis(200)).run().await?;
    Ok(())
}

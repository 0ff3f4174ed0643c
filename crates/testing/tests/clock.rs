//! A real worker and its store in one paused time.

use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, Config, State};
use backstop_store::PageRequest;
use backstop_testing::TokioClock;

#[derive(Serialize, Deserialize)]
struct Slow {
    seconds: u64,
}

impl Job for Slow {
    const KIND: &'static str = "slow";
    type Context = ();
    type Output = JobResult;

    async fn run(self, cx: JobContext<()>) -> JobResult {
        tokio::time::sleep(Duration::from_secs(self.seconds)).await;
        if cx.attempt() == 1 { Err("the first attempt fails".into()) } else { Ok(()) }
    }
}

#[tokio::test(start_paused = true)]
async fn retries_become_due_as_paused_time_goes_on() {
    // F8: the wait is an hour, by the store's clock and by nobody's watch.
    let hour = Duration::from_secs(3_600);
    let config = Config::default().kind("slow", Policy::default().backoff(Backoff::fixed(hour)));
    let engine = TokioClock::engine_with(config);
    let id = engine.enqueue(Slow { seconds: 10 }).submit().await.expect("admitted").id;
    let worker = engine.worker(()).register::<Slow>().queue("default", 1);
    worker.run_until(tokio::time::sleep(2 * hour)).await.expect("the model is there");
    let job = engine.job(id).await.expect("the model is there").expect("stored");
    assert_eq!(job.view.state(), State::Succeeded);
    let runs = engine.attempts(id, PageRequest::first(10)).await.expect("the model is there").items;
    assert_eq!((runs[1].cause, runs[0].cause), (Cause::Error, Cause::Succeeded));
    assert_eq!(runs[0].due_at.since(runs[1].finished_at), hour);
    let took = runs[1].finished_at.since(runs[1].started_at);
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
}

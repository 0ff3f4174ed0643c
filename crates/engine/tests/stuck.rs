//! A handler that blocks its thread and ignores that it was told to stop: reported, and its slot is not given away.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, EventKind};
use backstop_core::job::State;

/// What releases the blocked handler.
struct Gate(Mutex<Receiver<()>>);

#[derive(Serialize, Deserialize)]
struct Block;

impl Job for Block {
    const KIND: &'static str = "block";
    type Context = Arc<Gate>;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Arc<Gate>>) -> JobResult {
        cx.app().0.lock().expect("one handler at a time").recv()?;
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Next;

impl Job for Next {
    const KIND: &'static str = "next";
    type Context = Arc<Gate>;
    type Output = JobResult;

    async fn run(self, _: JobContext<Arc<Gate>>) -> JobResult {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_handler_that_ignores_its_end_is_reported_with_its_slot() {
    // F10
    let (release, gate): (Sender<()>, _) = channel();
    let engine = Backstop::open("memory:").await.expect("memory is always there");
    let mut events = engine.events();
    let blocked = engine.enqueue(Block).max_retries(0).timeout(Duration::from_millis(20));
    let blocked = blocked.submit().await.expect("admitted").id;
    let app = Arc::new(Gate(Mutex::new(gate)));
    let worker = engine.worker(app).register::<Block>().register::<Next>().queue("default", 1);
    let worker = worker.stuck_after(Duration::from_millis(20)).start().await.expect("started");
    let slot = loop {
        let event = events.next().await.expect("the engine is there");
        if let EventKind::Stuck { slot, .. } = event.what {
            break slot;
        }
    };
    assert_eq!(slot, 0);
    let job = engine.wait(blocked).await.expect("readable").expect("there");
    assert_eq!(
        (job.view.state(), job.counters[&Cause::Timeout]),
        (State::Failed, 1),
        "its end is recorded on time"
    );

    let next = engine.enqueue(Next).submit().await.expect("admitted").id;
    assert_eq!(engine.job(next).await.expect("readable").expect("there").view.state(), State::Pending);
    release.send(()).expect("the handler still waits");
    let job = engine.wait(next).await.expect("readable").expect("there");
    assert_eq!(job.view.state(), State::Succeeded, "the slot came back with the handler's real end");
    worker.stop().await;
}

//! A handler that blocks its thread and ignores that it was told to stop: reported, and its slot is not given away.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::bulk::{BulkContext, BulkItem, BulkJob, BulkSettings, LONGEST_WAIT};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_handler_that_ignores_its_end_is_reported_with_its_own_slot() {
    // F10
    let (release, gate): (Sender<()>, _) = channel();
    let engine = Backstop::open("memory:").await.expect("memory is always there");
    let mut events = engine.events();
    for _ in 0..2 {
        let blocked = engine.enqueue(Block).max_retries(0).timeout(Duration::from_millis(20));
        blocked.submit().await.expect("admitted");
    }
    let app = Arc::new(Gate(Mutex::new(gate)));
    let worker = engine.worker(app).register::<Block>().queue("default", 2);
    let worker = worker.stuck_after(Duration::from_millis(20)).start().await.expect("started");
    let mut slots = Vec::new();
    while slots.len() < 2 {
        let event = events.next().await.expect("the engine is there");
        if let EventKind::Stuck { slot, .. } = event.what {
            slots.push(slot);
        }
    }
    slots.sort_unstable();
    assert_eq!(slots, [0, 1]);
    for _ in 0..2 {
        release.send(()).expect("a handler still waits");
    }
    worker.stop().await;
}

/// What releases the blocked call.
struct CallGate {
    calls: AtomicUsize,
    gate: Mutex<Receiver<()>>,
}

#[derive(Serialize, Deserialize)]
struct BlockTogether;

impl BulkJob for BlockTogether {
    const KIND: &'static str = "block_together";
    type Context = CallGate;
    type Output = JobResult;

    async fn run(jobs: Vec<BulkItem<Self>>, cx: BulkContext<CallGate>) -> JobResult {
        if cx.app().calls.fetch_add(1, Ordering::SeqCst) == 0 {
            cx.app().gate.lock().expect("one call blocks").recv()?;
        }
        jobs.into_iter().for_each(|item| item.answer(Ok(())));
        Ok(())
    }

    /// Both jobs are in the first call, however far apart they come: it is full then.
    fn bulk() -> BulkSettings {
        BulkSettings::default().most(2).wait(LONGEST_WAIT)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bulk_call_that_ignores_its_end_is_reported_and_keeps_the_slots_of_its_jobs() {
    // W12, F10
    let (release, gate): (Sender<()>, _) = channel();
    let engine = Backstop::open("memory:").await.expect("memory is always there");
    let mut events = engine.events();
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let job = engine.enqueue(BlockTogether).max_retries(0).timeout(Duration::from_millis(200));
        jobs.push(job.submit().await.expect("admitted").id);
    }
    let app = Arc::new(CallGate { calls: AtomicUsize::new(0), gate: Mutex::new(gate) });
    let worker = engine.worker_sharing(app.clone()).register::<BlockTogether>().queue("default", 2);
    let worker = worker.stuck_after(Duration::from_millis(20)).start().await.expect("started");
    let mut slots = Vec::new();
    while slots.len() < 2 {
        let event = events.next().await.expect("the engine is there");
        if let EventKind::Stuck { slot, .. } = event.what {
            slots.push(slot);
        }
    }
    slots.sort_unstable();
    assert_eq!(slots, [0, 1]);
    for id in jobs {
        let job = engine.wait(id).await.expect("readable").expect("there");
        assert_eq!(job.view.state(), State::Succeeded, "the halves were called all the same");
    }
    assert_eq!(app.calls.load(Ordering::SeqCst), 3);

    let next = engine.enqueue(BlockTogether).submit().await.expect("admitted").id;
    engine.enqueue(BlockTogether).submit().await.expect("admitted");
    assert_eq!(engine.job(next).await.expect("readable").expect("there").view.state(), State::Pending);
    release.send(()).expect("the call still waits");
    let job = engine.wait(next).await.expect("readable").expect("there");
    assert_eq!(job.view.state(), State::Succeeded, "the slots came back with the call's real end");
    worker.stop().await;
}

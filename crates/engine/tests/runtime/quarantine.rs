//! Suspects: jobs whose process died run alone until it is known that they are harmless.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, JobId, WorkerBuilder, WorkerHandle};
use backstop_core::job::State;
use tokio::sync::Semaphore;

use crate::fixture::{detail, engine, ledger, pass, quick, reach, settle, state};

/// What the handlers share.
struct Stage {
    /// Each run needs one to end.
    permits: Semaphore,
    started: AtomicUsize,
}

impl Stage {
    fn new() -> Arc<Self> {
        Arc::new(Self { permits: Semaphore::new(0), started: AtomicUsize::new(0) })
    }

    fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }
}

/// Ends when it is let; in its first run never, if it is to die.
#[derive(Serialize, Deserialize)]
struct Waits {
    dies: bool,
}

impl Job for Waits {
    const KIND: &'static str = "waits";
    type Context = Arc<Stage>;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Arc<Stage>>) -> JobResult {
        cx.app().started.fetch_add(1, Ordering::SeqCst);
        if self.dies && cx.run_number() == 1 {
            std::future::pending::<()>().await;
        }
        cx.app().permits.acquire().await?.forget();
        Ok(())
    }
}

fn worker(engine: &Backstop, stage: &Arc<Stage>) -> WorkerBuilder<Arc<Stage>> {
    engine.worker(stage.clone()).register::<Waits>().queue("default", 4).lease(Duration::from_secs(30))
}

async fn submit(engine: &Backstop, dies: bool, policy: Policy) -> JobId {
    engine.enqueue(Waits { dies }).policy(policy).submit().await.expect("admitted").id
}

/// Jobs that were started together in a worker that died, and are pending again.
async fn died_together(engine: &Backstop, count: usize, policy: Policy) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(submit(engine, true, policy.clone()).await);
    }
    let stage = Stage::new();
    let doomed = worker(engine, &stage).without_maintenance().start().await.expect("started");
    pass(1).await;
    assert_eq!(stage.started(), count);
    drop(doomed);
    let caretaker = engine.maintenance().start();
    for id in &ids {
        reach(engine, *id, State::Pending).await;
    }
    caretaker.stop().await;
    pass(2).await;
    ids
}

async fn succeeded(engine: &Backstop, ids: &[JobId]) -> usize {
    let mut count = 0;
    for id in ids {
        count += usize::from(state(engine, *id).await == State::Succeeded);
    }
    count
}

async fn start(engine: &Backstop, stage: &Arc<Stage>) -> WorkerHandle {
    worker(engine, stage).start().await.expect("started")
}

#[tokio::test(start_paused = true)]
async fn a_suspect_runs_alone_and_its_success_clears_those_that_died_beside_it() {
    // C3, C2
    let engine = engine();
    let suspects = died_together(&engine, 4, quick()).await;
    let fresh = submit(&engine, false, quick()).await;
    let stage = Stage::new();
    let running = start(&engine, &stage).await;
    pass(5).await;
    assert_eq!((running.running(), stage.started()), (1, 1), "one suspect, and nothing beside it");
    assert_eq!(state(&engine, fresh).await, State::Pending, "nothing else is even taken");
    let mut waits = 0;
    for id in &suspects {
        let said = engine.explain(*id).await.expect("the model is there").expect("the job is there");
        let because = "has not started it: it has crashed (1 so far), and may have to run alone";
        waits += usize::from(said.1.because.ends_with(because));
    }
    assert_eq!(waits, 3, "people are told why the others wait");
    stage.permits.add_permits(1);
    pass(1).await;
    assert_eq!(succeeded(&engine, &suspects).await, 1);
    assert!(running.running() >= 3, "the others are suspects no longer: {}", running.running());
    stage.permits.add_permits(4);
    reach(&engine, fresh, State::Succeeded).await;
    pass(1).await;
    assert_eq!(succeeded(&engine, &suspects).await, 4);
    running.stop().await;
    for id in suspects {
        let record = detail(&engine, id).await.view.record;
        assert_eq!((record.runs, record.attempt, record.crashes), (2, 0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn who_can_spare_no_crash_runs_alone_whatever_became_of_the_others() {
    // C3
    let engine = engine();
    let suspects = died_together(&engine, 3, quick().crashes(1)).await;
    let stage = Stage::new();
    let running = start(&engine, &stage).await;
    for done in 0..3 {
        pass(2).await;
        assert_eq!((running.running(), stage.started()), (1, done + 1));
        stage.permits.add_permits(1);
    }
    pass(1).await;
    assert_eq!(succeeded(&engine, &suspects).await, 3);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn suspects_that_wait_are_not_blamed_for_the_death_of_another() {
    // C3, C2, C5
    let engine = engine();
    let suspects = died_together(&engine, 3, quick().crashes(1)).await;
    let stage = Stage::new();
    let doomed = worker(&engine, &stage).without_maintenance().start().await.expect("started");
    pass(1).await;
    assert_eq!(stage.started(), 1);
    drop(doomed);
    let caretaker = engine.maintenance().start();
    pass(40).await;
    caretaker.stop().await;
    let mut ends = Vec::new();
    for id in &suspects {
        let record = detail(&engine, *id).await.view.record;
        ends.push((record.state, record.crashes, record.runs));
    }
    ends.sort_unstable_by_key(|(_, crashes, _)| *crashes);
    assert_eq!(ends, [(State::Pending, 1, 1), (State::Pending, 1, 1), (State::Failed, 2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_worker_is_emptied_for_a_suspect_and_does_not_wait_for_ever() {
    // C3
    let engine = engine();
    let stage = Stage::new();
    let suspect = died_together(&engine, 1, quick()).await[0];
    engine.pause(suspect).await.expect("it waits");
    let busy = submit(&engine, false, quick()).await;
    let running = start(&engine, &stage).await;
    reach(&engine, busy, State::Running).await;
    engine.resume(suspect).await.expect("it is paused");
    pass(2).await;
    let late = submit(&engine, false, quick()).await;
    pass(20).await;
    assert_eq!(stage.started(), 1, "neither the suspect nor what came after it");
    pass(15).await;
    assert_eq!(state(&engine, late).await, State::Running, "the worker goes on for a while");
    let record = detail(&engine, suspect).await.view.record;
    assert_eq!((record.state, record.runs, record.deferrals), (State::Pending, 1, 0), "for another worker");
    stage.permits.add_permits(2);
    pass(35).await;
    assert_eq!((running.running(), stage.started()), (1, 3), "now it is alone");
    stage.permits.add_permits(1);
    reach(&engine, suspect, State::Succeeded).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stops_hands_waiting_suspects_back() {
    // C3, C2, L18
    let engine = engine();
    let suspects = died_together(&engine, 3, quick()).await;
    let stage = Stage::new();
    let running = start(&engine, &stage).await;
    pass(1).await;
    stage.permits.add_permits(1);
    assert!(running.stop().await.clean);
    settle().await;
    for id in suspects {
        let record = detail(&engine, id).await.view.record;
        let causes: Vec<Cause> = ledger(&engine, id).await.iter().map(|run| run.cause).collect();
        match record.state {
            State::Succeeded => assert_eq!(causes, [Cause::Crash, Cause::Succeeded]),
            _ => assert_eq!((record.state, record.hold, causes), (State::Pending, None, vec![Cause::Crash])),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_came_to_an_end_is_one_no_longer() {
    // C3
    let engine = engine();
    let app = Arc::new(crate::fixture::App::default());
    let job = engine.enqueue(crate::fixture::act(&["hang", "error", "hang"])).policy(quick());
    let first = job.submit().await.expect("admitted").id;
    let building = || engine.worker(app.clone()).register::<crate::fixture::Act>().queue("default", 4);
    let doomed = building().start().await.expect("started");
    reach(&engine, first, State::Running).await;
    drop(doomed);
    let running = building().start().await.expect("started");
    while detail(&engine, first).await.view.record.runs < 3 {
        pass(1).await;
    }
    let beside = engine.enqueue(crate::fixture::act(&["ok"])).submit().await.expect("admitted").id;
    reach(&engine, beside, State::Succeeded).await;
    assert_eq!(state(&engine, first).await, State::Running, "beside the one that was a suspect");
    drop(running);
}

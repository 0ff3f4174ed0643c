//! Bulk kinds in the tests of an application (W12).

use std::sync::{Arc, Mutex};

use backstop::bulk::{BulkContext, BulkItem, BulkJob, BulkSettings};
use backstop::prelude::*;
use backstop::{Cause, Config, QueueConfig, State, WorkerBuilder};
use backstop_testing::{TestEngine, crash_everywhere};

/// The numbers of every call.
#[derive(Default)]
struct Calls(Mutex<Vec<Vec<u32>>>);

impl Calls {
    fn seen(&self) -> Vec<Vec<u32>> {
        self.0.lock().expect("no panic").clone()
    }
}

/// Adds one; thirteen cannot be stored, and no call that has it can.
#[derive(Serialize, Deserialize)]
struct Store {
    number: u32,
}

impl BulkJob for Store {
    const KIND: &'static str = "store";
    type Context = Calls;
    type Output = JobResult<u32>;

    async fn run(jobs: Vec<BulkItem<Self>>, cx: BulkContext<Calls>) -> JobResult {
        cx.app().0.lock().expect("no panic").push(jobs.iter().map(|item| item.job().number).collect());
        if jobs.iter().any(|item| item.job().number == 13) {
            return Err("13 cannot be stored".into());
        }
        for item in jobs {
            let next = item.job().number + 1;
            item.answer(Ok(next));
        }
        Ok(())
    }

    fn bulk() -> BulkSettings {
        BulkSettings::default().most(5)
    }
}

#[tokio::test]
async fn one_job_of_a_bulk_kind_runs_in_a_call_of_its_own() {
    // W12
    let app = Arc::new(Calls::default());
    let test = TestEngine::new();
    let run = test.run_job(app.clone(), Store { number: 7 }).await;
    assert_eq!(run.assert_succeeded().result_as::<u32>(), 8);
    let run = test.run_job_with(app.clone(), Store { number: 13 }, |job| job.max_retries(0)).await;
    assert_eq!((run.state, run.cause), (State::Failed, Cause::Error));
    assert_eq!(app.seen(), [[7], [13]]);
}

#[tokio::test]
async fn what_is_due_runs_together_and_a_bad_job_is_found() {
    // W12
    let (app, test) = (Arc::new(Calls::default()), TestEngine::new());
    for number in 11..=17 {
        test.engine().enqueue(Store { number }).max_retries(0).submit().await.expect("admitted");
    }
    let ran = test.drain(app.clone(), |worker| worker.register::<Store>()).await;
    let causes: Vec<Cause> = ran.iter().map(|run| run.cause).collect();
    let mut expected = vec![Cause::Succeeded; 7];
    expected[2] = Cause::Error;
    assert_eq!(causes, expected, "in the order in which they were claimed");
    assert_eq!(
        app.seen(),
        [vec![11, 12, 13, 14, 15], vec![11, 12, 13], vec![11, 12], vec![13], vec![14, 15], vec![16, 17]]
    );
}

#[tokio::test]
async fn nothing_of_a_call_is_lost_wherever_the_process_dies() {
    // W12, C6, C3
    let app = Arc::new(Calls::default());
    let submit = async |engine: &Backstop| -> JobResult {
        for number in [12, 13, 14, 15] {
            let job = engine.enqueue(Store { number }).max_retries(0).idempotency_key(number.to_string());
            job.submit().await?;
        }
        Ok(())
    };
    let crashes = crash_everywhere(
        async |engine: Backstop| -> JobResult {
            submit(&engine).await?;
            let worker = engine.worker_sharing(app.clone()).register::<Store>().queue("default", 8);
            worker.inline()?.drain(8).await?;
            Ok(())
        },
        async |test, point| {
            submit(test.engine()).await.expect("the model is there");
            test.run_to_end(app.clone(), |worker| worker.register::<Store>()).await;
            let queue = test.engine().queues().list().await.expect("the model is there").remove(0);
            assert_eq!(
                (queue.succeeded, queue.failed, queue.pending, queue.running),
                (3, 1, 0, 0),
                "{point}"
            );
        },
    )
    .await;
    assert!(crashes >= 2 * (4 + 6), "{crashes}");
}

/// Has nothing to do with the others.
#[job]
async fn other() {}

#[tokio::test]
async fn other_kinds_of_the_queue_are_in_no_call() {
    // W12, H10
    let queue = QueueConfig::default().fail_unknown_kind();
    let (app, test) =
        (Arc::new(Calls::default()), TestEngine::with_config(Config::default().queue("default", queue)));
    test.engine().enqueue(Store { number: 1 }).submit().await.expect("admitted");
    test.engine().enqueue(Other {}).submit().await.expect("admitted");
    test.engine().enqueue_raw("unknown", "{}").max_retries(0).submit().await.expect("admitted");
    test.engine().enqueue(Store { number: 2 }).submit().await.expect("admitted");
    let register =
        |worker: WorkerBuilder<Calls>| worker.register::<Store>().register_without_context::<Other>();
    let ran = test.drain(app.clone(), register).await;
    let kinds: Vec<&str> = ran.iter().map(|run| run.kind.as_str()).collect();
    assert_eq!(kinds, ["store", "store", "other", "unknown"]);
    assert_eq!(app.seen(), [[1, 2]]);
}

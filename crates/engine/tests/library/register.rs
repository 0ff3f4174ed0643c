//! Workers that take every job of the program, and those that could run nothing.

use backstop::Error;
use backstop::prelude::*;

struct Shop {
    name: &'static str,
}

#[job]
async fn open_shop(cx: JobContext<Shop>) -> JobResult<String> {
    Ok(cx.app().name.to_owned())
}

#[job(kind = "register_plain")]
async fn plain(number: u32) -> JobResult<u32> {
    Ok(number + 1)
}

/// A job by hand that has the kind of another one.
#[derive(Serialize, Deserialize)]
struct Impostor {}

impl Job for Impostor {
    const KIND: &'static str = "open_shop";
    type Context = Shop;
    type Output = ();

    async fn run(self, _: JobContext<Shop>) {}
}

async fn engine() -> Backstop {
    Backstop::open("memory:").await.expect("always there")
}

#[tokio::test]
async fn a_worker_takes_every_job_of_the_program_that_it_can_run() {
    // H10
    let engine = engine().await;
    let with = engine.enqueue(OpenShop {}).submit().await.expect("admitted");
    let without = engine.enqueue(Plain { number: 4 }).submit().await.expect("admitted");
    let worker = engine.worker(Shop { name: "corner" }).register_all().queue("default", 1);
    worker.inline().expect("complete").drain(10).await.expect("memory is there");
    assert_eq!(with.result().await.expect("it ran"), "corner");
    assert_eq!(without.result().await.expect("it ran"), 5);
}

#[tokio::test]
async fn a_job_without_context_runs_beside_jobs_with_one() {
    let engine = engine().await;
    let job = engine.enqueue(Plain { number: 1 }).submit().await.expect("admitted");
    let worker = engine.worker(Shop { name: "corner" }).register_without_context::<Plain>();
    worker.queue("default", 1).inline().expect("complete").drain(10).await.expect("memory is there");
    assert_eq!(job.result().await.expect("it ran"), 2);
}

#[tokio::test]
async fn a_worker_that_could_run_nothing_does_not_start() {
    let engine = engine().await;
    let error = engine.worker(()).queue("default", 1).start().await.map(drop).expect_err("it knows no kind");
    assert_eq!(
        error.to_string(),
        "the worker has no kind of job: call `.register::<MyJob>()` before it runs"
    );
    let error = engine.worker(()).register_all().inline().map(drop).expect_err("it has no queue");
    assert!(matches!(error, Error::NothingToDo { what: "queue", .. }), "{error}");
}

#[tokio::test]
async fn two_types_of_one_kind_are_refused() {
    let worker = engine().await.worker(Shop { name: "x" }).register_all().register::<Impostor>();
    let error = worker.queue("default", 1).inline().map(drop).expect_err("a clash").to_string();
    assert!(error.starts_with("the worker has two handlers for kind `open_shop`"), "{error}");
    assert!(error.contains("OpenShop") && error.contains("Impostor"), "{error}");
    let twice = engine().await.worker(Shop { name: "x" }).register::<OpenShop>().register_all();
    assert!(twice.queue("default", 1).inline().is_ok(), "the same type twice is fine");
}

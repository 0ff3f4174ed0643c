//! Running jobs in a test: one by itself, all that is due, all to their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, Config, QueueConfig, State, TerminalReason};
use backstop_testing::{TestEngine, all_enqueued, run_job};

#[derive(Default)]
struct App {
    runs: AtomicU32,
}

/// Does what its word says.
#[derive(Serialize, Deserialize)]
struct Act {
    word: String,
}

impl Job for Act {
    const KIND: &'static str = "act";
    type Context = App;
    type Output = JobResult<u32>;

    async fn run(self, cx: JobContext<App>) -> JobResult<u32> {
        let runs = cx.app().runs.fetch_add(1, Ordering::SeqCst) + 1;
        cx.log(format!("{} on {}", self.word, cx.queue()));
        match self.word.as_str() {
            "ok" => Ok(runs),
            "error" => Err("the server said 503 to ada@example.org".into()),
            "panic" => panic!("out of cheese"),
            "snooze" => Err(Outcome::snooze(Duration::from_secs(60)).into()),
            "permanent" => Err(Outcome::permanent("it cannot work").into()),
            "again" => Err(Outcome::snooze(Duration::ZERO).into()),
            other => Err(Outcome::invalid(format!("no such act: {other}")).into()),
        }
    }

    fn validate(&self) -> Result<(), String> {
        if self.word.is_empty() { Err("the word is empty".to_owned()) } else { Ok(()) }
    }
}

fn act(word: &str) -> Act {
    Act { word: word.to_owned() }
}

#[tokio::test]
async fn a_run_reports_its_cause_state_error_and_output() {
    // F2, F11, F15, E11
    let cases = [
        ("ok", Cause::Succeeded, State::Succeeded, None),
        ("error", Cause::Error, State::Pending, Some("503")),
        ("panic", Cause::Panic, State::Pending, Some("out of cheese")),
        ("snooze", Cause::Snoozed, State::Pending, None),
        ("permanent", Cause::Permanent, State::Failed, Some("it cannot work")),
        ("dance", Cause::Invalid, State::Failed, Some("no such act: dance")),
    ];
    for (word, cause, state, error) in cases {
        let run = run_job(App::default(), act(word)).await;
        run.assert_cause(cause);
        assert_eq!((run.state, run.run), (state, 1), "{run}");
        assert_eq!(run.output, format!("{word} on default\n"));
        assert_eq!(run.error.is_some(), error.is_some(), "{run}");
        let text = run.error.clone().unwrap_or_default();
        assert!(text.contains(error.unwrap_or_default()) && !text.contains("ada@example.org"), "{run}");
    }
}

#[tokio::test]
async fn a_job_is_validated_before_its_handler() {
    // E11
    let app = Arc::new(App::default());
    let run = run_job(app.clone(), act("")).await;
    run.assert_cause(Cause::Invalid);
    assert_eq!(run.reason, Some(TerminalReason::Invalid));
    assert_eq!(app.runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn one_run_leaves_the_jobs_of_the_engine_alone() {
    let test = TestEngine::new();
    test.engine().enqueue(act("ok")).submit().await.expect("admitted");
    let run = test.run_job(App::default(), act("error")).await;
    assert_eq!(all_enqueued::<Act>(test.engine()).await.len(), 1);
    assert!(test.engine().job(run.job).await.expect("the model is there").is_none());
}

#[tokio::test]
async fn one_run_has_the_settings_of_its_engine_and_its_own_options() {
    // L19, F5
    let config = Config::default().kind("act", Policy::default().retries(0));
    let test = TestEngine::with_config(config);
    let dead = test.run_job(App::default(), act("error")).await;
    assert_eq!((dead.state, dead.reason), (State::Failed, Some(TerminalReason::RetryExhausted)));
    let delay = Duration::from_secs(7);
    let backoff = Backoff::fixed(delay);
    let options =
        |job: backstop::Enqueue<u32>| job.queue("later").delay(delay).max_retries(1).backoff(backoff);
    let again = test.run_job_with(App::default(), act("error"), options).await;
    assert_eq!((again.state, again.due_in), (State::Pending, Some(delay)));
    assert_eq!(again.output, "error on later\n");
}

#[tokio::test]
#[should_panic(expected = "the `act` job was refused: kind `act` is not allowed on queue `default`")]
async fn a_refused_job_fails_the_test_in_words() {
    // E8
    let config = Config::default().queue("default", QueueConfig::default().allow(["other"]));
    TestEngine::with_config(config).run_job(App::default(), act("ok")).await;
}

#[tokio::test]
#[should_panic(expected = "expected a run that ended as succeeded, but\nrun 1 of `act` ended as permanent")]
async fn an_unexpected_end_fails_the_test_with_the_whole_story() {
    run_job(App::default(), act("permanent")).await.assert_succeeded();
}

/// Submits another one on a queue that nobody has heard of.
#[derive(Serialize, Deserialize)]
struct Parent;

impl Job for Parent {
    const KIND: &'static str = "parent";
    type Context = Backstop;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Backstop>) -> JobResult {
        cx.app().enqueue(Child).queue("fresh").submit().await?;
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct Child;

impl Job for Child {
    const KIND: &'static str = "child";
    type Context = Backstop;
    type Output = JobResult;

    async fn run(self, _: JobContext<Backstop>) -> JobResult {
        Ok(())
    }
}

#[tokio::test]
async fn a_drain_follows_jobs_to_queues_that_are_new() {
    let test = TestEngine::new();
    test.engine().enqueue(Parent).submit().await.expect("admitted");
    let app = test.engine().clone();
    let ran = test.drain(app, |worker| worker.register::<Parent>().register::<Child>()).await;
    let kinds: Vec<_> = ran.iter().map(|run| run.kind.as_str()).collect();
    assert_eq!(kinds, ["parent", "child"]);
}

#[tokio::test]
async fn a_drain_leaves_what_is_not_due_and_what_it_does_not_know() {
    // L2, H10
    let test = TestEngine::new();
    test.engine().enqueue(act("ok")).delay(Duration::from_secs(5)).submit().await.expect("admitted");
    test.engine().enqueue(Child).submit().await.expect("admitted");
    let app = Arc::new(App::default());
    assert_eq!(test.drain(app.clone(), |worker| worker.register::<Act>()).await, []);
    test.advance(Duration::from_secs(5));
    assert_eq!(test.drain(app, |worker| worker.register::<Act>()).await.len(), 1);
    assert_eq!(all_enqueued::<Child>(test.engine()).await.len(), 1);
}

#[tokio::test]
async fn everything_runs_to_its_end_however_long_that_takes() {
    // F4, F5, F8
    let test = TestEngine::new();
    test.engine().enqueue(act("error")).max_retries(9).submit().await.expect("admitted");
    test.engine().enqueue(act("ok")).delay(Duration::from_secs(86_400)).submit().await.expect("admitted");
    // Nobody here can run this one; the others must not wait for it.
    test.engine().enqueue(Child).submit().await.expect("admitted");
    let ran = test.run_to_end(App::default(), |worker| worker.register::<Act>()).await;
    assert_eq!(ran.len(), 11);
    assert_eq!(ran.iter().filter(|run| run.state == State::Succeeded).count(), 1);
    let dead = ran.iter().find(|run| run.state == State::Failed).expect("a dead letter");
    assert_eq!((dead.run, dead.reason), (10, Some(TerminalReason::RetryExhausted)));
}

#[tokio::test]
#[should_panic(expected = "5000 runs were not enough; the latest:\nrun 5000 of `act` ended as snoozed")]
async fn a_drain_that_never_ends_is_stopped() {
    let test = TestEngine::new();
    test.engine().enqueue(act("again")).submit().await.expect("admitted");
    test.drain(App::default(), |worker| worker.register::<Act>()).await;
}

#[tokio::test]
async fn a_canceled_run_is_reported_as_canceled() {
    // L7
    #[derive(Serialize, Deserialize)]
    struct Quitter;
    impl Job for Quitter {
        const KIND: &'static str = "quitter";
        type Context = Backstop;
        type Output = JobResult;
        async fn run(self, cx: JobContext<Backstop>) -> JobResult {
            cx.app().cancel(cx.id(), "from inside").await?;
            Ok(())
        }
    }
    let test = TestEngine::new();
    test.engine().enqueue(Quitter).submit().await.expect("admitted");
    let ran = test.drain(test.engine().clone(), |worker| worker.register::<Quitter>()).await;
    assert_eq!((ran[0].cause, ran[0].state), (Cause::Canceled, State::Canceled));
}

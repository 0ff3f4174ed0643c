//! Durable steps and effects: what is called again, what is answered from the store, and what stops for a person.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::redrive::PlanSelector;
use backstop::{Cause, Config, JobId, StepError, TerminalReason, WorkerBuilder};
use backstop_core::envelope::{envelope, transition_key};
use backstop_core::job::{NoteError, State};
use backstop_store::{Answer, Error, Layer, Note, Store};

use crate::fixture::{Plain, detail, engine, ledger, quick, reach};

/// What handlers of these tests did, and what the outside has seen.
#[derive(Default)]
struct World {
    calls: Mutex<Vec<String>>,
    outside: Mutex<BTreeSet<String>>,
}

impl World {
    fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("no panic").clone()
    }
}

/// Calls steps as its payload says, one line a run; the last line repeats. `a` is a step, `a?` one that fails, `a~` one
/// whose error is not passed on, `a=k` an effect with key `k`, `!` an error of the handler. An effect's name ends with
/// its policy (`.safe`, `.verify`), and with `?` its code fails after it happened, with `%` before, with `#` it hangs.
#[derive(Serialize, Deserialize)]
struct Walk {
    runs: Vec<String>,
}

impl Job for Walk {
    const KIND: &'static str = "walk";
    type Context = Arc<World>;
    type Output = JobResult<Vec<String>>;

    async fn run(self, cx: JobContext<Arc<World>>) -> JobResult<Vec<String>> {
        let run = (cx.run_number() as usize - 1).min(self.runs.len() - 1);
        let mut results = Vec::new();
        for word in self.runs[run].split_whitespace() {
            match word.split_once('=') {
                _ if word == "!" => return Err(Plain.into()),
                Some((name, key)) => results.push(effect(&cx, name, key).await?),
                None if word.ends_with('~') => drop(step(&cx, word.trim_end_matches('~')).await),
                None => results.push(step(&cx, word).await?),
            }
        }
        Ok(results)
    }
}

async fn step(cx: &JobContext<Arc<World>>, word: &str) -> Result<String, StepError> {
    let name = word.trim_end_matches('?');
    cx.step(name, || async {
        cx.app().calls.lock().expect("no panic").push(name.to_owned());
        if word.ends_with('?') { Err(Plain) } else { Ok(format!("{name}{}", cx.run_number())) }
    })
    .await
}

async fn effect(cx: &JobContext<Arc<World>>, word: &str, key: &str) -> Result<String, StepError> {
    let (name, policy) = word.split_once('.').unwrap_or((word, ""));
    let (how, key) = (key.trim_matches(char::is_alphanumeric), key.trim_end_matches(['?', '%', '#']));
    let effect = cx.effect(name, key, || async {
        cx.app().calls.lock().expect("no panic").push(name.to_owned());
        if how == "%" {
            return Err(backstop::not_done(Plain));
        }
        cx.app().outside.lock().expect("no panic").insert(key.to_owned());
        match how {
            "?" => Err(Plain.into()),
            "#" => std::future::pending().await,
            _ => Ok(format!("{name}{}", cx.run_number())),
        }
    });
    let look = || async {
        let seen = cx.app().outside.lock().expect("no panic").contains(key);
        JobResult::Ok(seen.then(|| "seen".to_owned()))
    };
    match policy {
        "safe" => effect.retry_safe().await,
        "verify" => effect.verify(look).await,
        _ => effect.await,
    }
}

fn worker(engine: &Backstop, world: &Arc<World>) -> WorkerBuilder<Arc<World>> {
    engine.worker(world.clone()).register::<Walk>().queue("default", 4)
}

async fn submit(engine: &Backstop, runs: &[&str]) -> JobId {
    let runs = runs.iter().map(ToString::to_string).collect();
    engine.enqueue(Walk { runs }).policy(quick().retries(5)).submit().await.expect("admitted").id
}

/// Plays these runs, and answers what was called and what the job came to.
async fn play(engine: &Backstop, runs: &[&str], wanted: State) -> (JobId, Arc<World>) {
    let world = Arc::new(World::default());
    let id = submit(engine, runs).await;
    let running = worker(engine, &world).start().await.expect("started");
    reach(engine, id, wanted).await;
    running.stop().await;
    (id, world)
}

async fn result(engine: &Backstop, id: JobId) -> Vec<String> {
    let result = detail(engine, id).await.view.result.expect("a result");
    serde_json::from_str(&result).expect("a list")
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

async fn death(engine: &Backstop, id: JobId) -> (String, String, Option<TerminalReason>, u32) {
    let view = detail(engine, id).await.view;
    let failure = view.last_failure.expect("it failed");
    (failure.error_type, failure.message, view.record.reason, view.record.runs)
}

#[tokio::test(start_paused = true)]
async fn a_success_is_stored_once_and_answers_later_runs() {
    // W7
    let engine = engine();
    let (id, world) = play(&engine, &["a b !", "a b c? d", "a b c d"], State::Succeeded).await;
    assert_eq!(world.calls(), ["a", "b", "c", "c", "d"]);
    assert_eq!(result(&engine, id).await, ["a1", "b1", "c3", "d3"]);
    let rows = ledger(&engine, id).await;
    let failures: Vec<_> =
        rows.iter().filter_map(|row| Some(row.failure.as_ref()?.error_type.as_str())).collect();
    assert_eq!(failures, ["Plain", "Plain"], "a step's own error is what the run failed by");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_leaves_its_steps_to_the_next() {
    // W7, L15
    let engine = engine();
    let world = Arc::new(World::default());
    let id = submit(&engine, &["a b=k.safe x.safe=k#", "a b=k.safe x.safe=k"]).await;
    let doomed = worker(&engine, &world).without_maintenance().lease(Duration::from_secs(30));
    let doomed = doomed.start().await.expect("started");
    reach(&engine, id, State::Running).await;
    crate::fixture::settle().await;
    let other = worker(&engine, &world).lease(Duration::from_secs(30)).start().await.expect("started");
    drop(doomed);
    reach(&engine, id, State::Succeeded).await;
    other.stop().await;
    assert_eq!(world.calls(), ["a", "b", "x", "x"]);
    assert_eq!(result(&engine, id).await, ["a1", "b1", "x2"]);
    let causes: Vec<_> = ledger(&engine, id).await.iter().map(|row| row.cause).collect();
    assert_eq!(causes, [Cause::Crash, Cause::Succeeded]);
}

#[tokio::test(start_paused = true)]
async fn changed_code_ends_the_run_with_both_names_and_no_retry() {
    // W7
    for (first, second, stored, called) in [
        ("a b !", "a c", "step `b` at index 1", "calls step `c` at index 1"),
        ("a b !", "b a", "step `b` at index 1", "calls step `b` at index 0"),
        ("a b !", "a c~ b~", "step `b` at index 1", "calls step `c` at index 1"),
        ("a b !", "a", "step `b` at index 1", "called only 1 and ended"),
        ("a !", "a=k", "step `a` at index 0", "calls effect `a` with key `k` at index 0"),
        ("a=k !", "a=other", "effect `a` with key `k` at index 0", "with key `other`"),
    ] {
        let engine = engine();
        let (id, world) = play(&engine, &[first, second], State::Failed).await;
        let (error_type, message, reason, runs) = death(&engine, id).await;
        assert_eq!((&*error_type, reason), ("StepsChanged", Some(TerminalReason::NonRetryable)), "{second}");
        assert_eq!(runs, 2, "it is not tried again: {second}");
        assert!(message.contains(stored) && message.contains(called), "{message}");
        assert!(!world.calls().contains(&"c".to_owned()), "what does not fit is not called");
    }
}

#[tokio::test(start_paused = true)]
async fn the_code_that_fits_goes_on_after_a_redrive() {
    // W7, L9
    let engine = engine();
    let (id, _) = play(&engine, &["a b !", "a c", "a b c"], State::Failed).await;
    engine.retry(id).await.expect("dead");
    let world = Arc::new(World::default());
    let running = worker(&engine, &world).start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
    assert_eq!(
        (world.calls(), result(&engine, id).await),
        (vec!["c".to_owned()], vec!["a1".into(), "b1".into(), "c3".into()])
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_is_called_once_in_a_run() {
    // W7
    let engine = engine();
    let (id, world) = play(&engine, &["a a"], State::Failed).await;
    let (error_type, message, _, runs) = death(&engine, id).await;
    assert_eq!((&*error_type, runs, world.calls().len()), ("StepCalledTwice", 1, 1));
    assert!(message.contains("step `a` is called twice"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_stored_ends_the_run() {
    // W7, L20
    #[derive(Serialize, Deserialize)]
    struct Large {}
    impl Job for Large {
        const KIND: &'static str = "large";
        type Context = ();
        type Output = JobResult<usize>;

        async fn run(self, cx: JobContext<()>) -> JobResult<usize> {
            let text = cx.step("make", || async { JobResult::Ok("x".repeat(70_000)) }).await;
            Ok(text.map_or(0, |text| text.len()))
        }
    }
    let engine = engine();
    let id = engine.enqueue(Large {}).submit().await.expect("admitted").id;
    let running = engine.worker(()).register::<Large>().queue("default", 1).start().await.expect("started");
    reach(&engine, id, State::Failed).await;
    running.stop().await;
    let (error_type, message, ..) = death(&engine, id).await;
    assert_eq!(error_type, "StepUnstorable");
    assert!(
        message.contains("step `make` cannot be stored: it has 70002 bytes, the limit is 65536"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn steps_run_side_by_side_and_their_order_is_that_of_the_calls() {
    // W7
    #[derive(Serialize, Deserialize)]
    struct Both {}
    impl Job for Both {
        const KIND: &'static str = "both";
        type Context = Arc<World>;
        type Output = JobResult<(String, String)>;

        async fn run(self, cx: JobContext<Arc<World>>) -> JobResult<(String, String)> {
            let slow = async || {
                cx.app().calls.lock().expect("no panic").push(cx.transition_key());
                tokio::time::advance(Duration::from_secs(1)).await;
                // The one that was called later succeeds first, and this one only in the second run.
                if cx.run_number() == 1 { Err(Plain) } else { Ok("left".to_owned()) }
            };
            let left = cx.step("left", slow);
            let right = cx.step("right", || async {
                cx.app().calls.lock().expect("no panic").push(cx.transition_key());
                JobResult::Ok("right".to_owned())
            });
            let (left, right) = tokio::join!(left, right);
            Ok((left?, right?))
        }
    }
    let engine = engine();
    let world = Arc::new(World::default());
    let id = engine.enqueue(Both {}).policy(quick()).submit().await.expect("admitted").id;
    let building = engine.worker(world.clone()).register::<Both>().queue("default", 1);
    let running = building.start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
    let keys = [(0, 1), (1, 1), (0, 2)].map(|(index, run)| format!("{id}:{index}:{run}"));
    assert_eq!(world.calls(), keys, "inside a step its own index is told");
    let steps = detail(&engine, id).await.view.record.steps_in_order();
    let order: Vec<_> = steps.iter().map(|step| (step.index, &*step.name, step.run)).collect();
    assert_eq!(order, [(0, "left", 2), (1, "right", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_names_the_step_that_its_last_run_died_at() {
    // D1, W7: one that failed and was put up with is not that step.
    let table = [
        ("a?", Some(0)),
        ("a b?", Some(1)),
        ("a b !", Some(2)),
        ("a?~ b?", Some(1)),
        ("a?~ b !", Some(2)),
        ("a x=k?", Some(1)),
        ("a x=k% ", Some(1)),
        ("!", None),
    ];
    for (run, expected) in table {
        let (engine, world) = (engine(), Arc::new(World::default()));
        let walk = Walk { runs: vec![run.to_owned()] };
        let policy = quick().retries(2);
        let id = engine.enqueue(walk).policy(policy).submit().await.expect("admitted").id;
        let running = worker(&engine, &world).start().await.expect("started");
        reach(&engine, id, State::Failed).await;
        running.stop().await;
        let view = detail(&engine, id).await.view;
        assert_eq!(view.record.died_at_step(), expected, "{run}");
        let letter = envelope(&view.job, &view.record, view.last_failure.as_ref(), None).expect("it is dead");
        let key = transition_key(id, expected.unwrap_or(0), view.record.runs);
        assert_eq!(letter["transitionKey"], *key, "{run}");
        engine.retry(id).await.expect("it is dead");
        assert_eq!(detail(&engine, id).await.view.record.died_at_step(), None, "{run}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_may_have_happened_follows_its_policy() {
    // W8
    for (runs, calls, kept) in [
        // Called again with the same key.
        (["x.safe=k?", "x.safe=k"], vec!["x", "x"], "x2"),
        // The outside knows it: it is not called again.
        (["x.verify=k?", "x.verify=k"], vec!["x"], "seen"),
        // It says itself that it did not happen: then it is called, whatever its policy.
        (["x=k%", "x=k"], vec!["x", "x"], "x2"),
        (["x.verify=k%", "x.verify=k"], vec!["x", "x"], "x2"),
        // Its outcome is stored: it is a step like any other.
        (["x=k !", "x=k"], vec!["x"], "x1"),
    ] {
        let engine = engine();
        let (id, world) = play(&engine, &runs, State::Succeeded).await;
        assert_eq!(world.calls(), calls, "{runs:?}");
        assert_eq!(result(&engine, id).await, [kept], "{runs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_did_not_happen_outside_is_called_after_a_look() {
    // W8
    let engine = engine();
    let world = Arc::new(World::default());
    let id = submit(&engine, &["x.verify=k#", "x.verify=k"]).await;
    let doomed = worker(&engine, &world).without_maintenance().lease(Duration::from_secs(30));
    let doomed = doomed.start().await.expect("started");
    reach(&engine, id, State::Running).await;
    crate::fixture::settle().await;
    // Its worker dies between the intent and the outcome, and the outside never got it.
    world.outside.lock().expect("no panic").clear();
    let other = worker(&engine, &world).lease(Duration::from_secs(30)).start().await.expect("started");
    drop(doomed);
    reach(&engine, id, State::Succeeded).await;
    other.stop().await;
    assert_eq!(
        (world.calls(), result(&engine, id).await),
        (vec!["x".to_owned(), "x".into()], vec!["x2".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_effect_stops_for_a_person_and_is_told_everywhere() {
    // W8, F20, D4
    let engine = engine();
    let (id, world) = play(&engine, &["a x=order7?", "a x=order7", "a x=order7"], State::Failed).await;
    assert_eq!(world.calls(), ["a", "x"], "it is not called again by itself");
    let (error_type, message, reason, runs) = death(&engine, id).await;
    assert_eq!((&*error_type, reason, runs), ("EffectUnknown", Some(TerminalReason::NonRetryable), 2));
    assert!(message.contains("effect `x` with key `order7` may have happened: run 1 began it"), "{message}");
    let (_, explained) = engine.explain(id).await.expect("the store is there").expect("the job is there");
    assert!(explained.next.contains("whether effect `x` with key `order7` happened"), "{}", explained.next);
    let steps: Vec<_> = explained.checks.iter().filter(|check| check.check == "step").collect();
    assert!(steps[0].answer.contains("step `a` at index 0 is done"), "{steps:?}");
    assert!(steps[1].answer.contains("effect `x` with key `order7` at index 1 is unknown"), "{steps:?}");
    crate::fixture::pass(1).await;
    let survey = engine.redrives().plan(PlanSelector::all()).dry_run().await.expect("one job");
    let told: Vec<_> =
        survey.unknown_effects.iter().map(|one| (one.job, &*one.name, &*one.key, one.run)).collect();
    assert_eq!(told, [(id, "x", "order7", 1)]);
    engine.retry(id).await.expect("dead");
    let running = worker(&engine, &world).start().await.expect("started");
    reach(&engine, id, State::Succeeded).await;
    running.stop().await;
    assert_eq!(world.calls(), ["a", "x", "x"], "a person has looked");
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_effect_that_dies_again_asks_again() {
    // W8
    let engine = engine();
    let (id, world) = play(&engine, &["x=k?", "x=k", "x=k?", "x=k"], State::Failed).await;
    engine.retry(id).await.expect("dead");
    let running = worker(&engine, &world).start().await.expect("started");
    reach(&engine, id, State::Failed).await;
    running.stop().await;
    assert_eq!(world.calls(), ["x", "x"]);
    assert_eq!(death(&engine, id).await.0, "EffectUnknown");
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_is_unknown_a_second_time_is_told_of_a_second_time() {
    // W8, D4, F20: a re-drive confirms what was unknown, and the run after it may leave it unknown again.
    for call in ["x.safe=k?", "x.verify=k?", "x=k?"] {
        let engine = engine();
        let world = Arc::new(World::default());
        let walk = Walk { runs: names(&[call]) };
        let id = engine.enqueue(walk).policy(quick().retries(0)).submit().await.expect("admitted").id;
        for run in 1..=2 {
            let running = worker(&engine, &world).start().await.expect("started");
            reach(&engine, id, State::Failed).await;
            running.stop().await;
            // Whoever looks finds nothing outside, so it is called in every run.
            world.outside.lock().expect("no panic").clear();
            assert_eq!(world.calls().len(), run as usize, "{call}");
            let (_, explained) =
                engine.explain(id).await.expect("the store is there").expect("the job is there");
            assert!(
                explained.next.contains("whether effect `x` with key `k` happened"),
                "{}",
                explained.next
            );
            crate::fixture::pass(1).await;
            let survey = engine.redrives().plan(PlanSelector::all()).dry_run().await.expect("one job");
            let told: Vec<_> =
                survey.unknown_effects.iter().map(|one| (one.job, &*one.name, one.run)).collect();
            assert_eq!(told, [(id, "x", run)], "{call}");
            engine.retry(id).await.expect("dead");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sealed_kind_keeps_sealed_results_of_steps() {
    // W7, E12
    use backstop_core::sealing::{SealingKeys, is_sealed};
    use backstop_core::signing::SecretKey;
    use backstop_store::{DocumentRange, Drawer};
    let key = SecretKey::new("s1", vec![1; 32]).expect("a good key");
    let keys = SealingKeys::new(vec![key]).expect("good keys");
    let store = crate::fixture::model();
    let config = Config::default().encryption(backstop::Encryption::new(keys).kind("walk"));
    let engine = Backstop::on(store.clone(), config);
    let (id, world) = play(&engine, &["a !", "a"], State::Succeeded).await;
    assert_eq!(world.calls(), ["a"], "what is sealed answers too");
    let page = store.documents(DocumentRange::first(Drawer::Steps, 10)).await.expect("the model is there");
    assert!(page.items.len() == 1 && page.items.iter().all(|one| is_sealed(&one.body)), "{page:?}");
    assert_eq!(detail(&engine, id).await.view.state(), State::Succeeded);
}

/// A store whose first write about a step is not made, and whose second is made and its answer lost.
struct Hiccups {
    below: Arc<dyn Store>,
    notes: AtomicUsize,
}

impl Layer for Hiccups {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        let location = "hiccups".to_owned();
        Box::pin(async move {
            match self.notes.fetch_add(1, Ordering::SeqCst) {
                0 => Err(Error::Unavailable { location, problem: "not now".into(), source: None }),
                1 => {
                    self.below.annotate(notes).await?;
                    Err(Error::Unknown { location, source: None })
                }
                _ => self.below.annotate(notes).await,
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_moment_costs_no_second_call() {
    // W7, F17
    let below = crate::fixture::model();
    let engine = Backstop::on(Arc::new(Hiccups { below, notes: AtomicUsize::new(0) }), Config::default());
    let (id, world) = play(&engine, &["a b"], State::Succeeded).await;
    assert_eq!((world.calls(), result(&engine, id).await), (names(&["a", "b"]), names(&["a1", "b1"])));
    assert_eq!(ledger(&engine, id).await.len(), 1);
}

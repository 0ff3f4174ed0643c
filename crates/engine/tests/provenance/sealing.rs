//! Data that nobody reads in the store (E12).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backstop::prelude::*;
use backstop::{Cause, Config, Encryption, EventKind, Signaled, State, TerminalReason};
use backstop_core::job::Masking;
use backstop_core::sealing::{SealingKeys, is_sealed};
use backstop_core::signing::SecretKey;
use backstop_store::{DocumentRange, Drawer, JobFilter, ModelStore, PageRequest, SystemClock};

use crate::place::{App, Place, after, detail, drain, strict, work};

const NEEDLE: &str = "haystack-needle-7731";

fn ring(keys: &[(&str, u8)]) -> SealingKeys {
    let key = |(id, fill): &(&str, u8)| SecretKey::new(*id, vec![*fill; 32]).expect("a good key");
    SealingKeys::new(keys.iter().map(key).collect::<Vec<_>>()).expect("good keys")
}

fn sealing(keys: &[(&str, u8)]) -> Encryption {
    Encryption::new(ring(keys)).kind("work").kind("after")
}

fn on_model(config: Config) -> Backstop {
    Backstop::on(Arc::new(ModelStore::new(Arc::new(SystemClock::default()))), config)
}

#[tokio::test]
async fn nothing_of_it_stands_in_the_store() {
    // E12
    for place in Place::all("sealed").await {
        let config = strict().encryption(sealing(&[("s1", 1)]));
        let (engine, app) = (place.open(config).await, Arc::new(App::default()));
        let job = engine.enqueue(work(NEEDLE)).on_success(after(NEEDLE)).on_failure(after(NEEDLE));
        let id = job.submit().await.expect("admitted").id;
        let plain = engine
            .enqueue_raw("other", r#"{"say":"in the clear 7731"}"#)
            .submit()
            .await
            .expect("admitted")
            .id;
        drain(&engine, &app).await;
        let (found, name) = (detail(&engine, id).await, place.name());
        assert_eq!(found.view.state(), State::Succeeded, "{name}");
        assert_eq!(
            (app.starts.load(Ordering::SeqCst), app.callbacks.load(Ordering::SeqCst)),
            (2, 1),
            "{name}"
        );
        assert!(is_sealed(&found.view.job.spec.payload), "{name}");
        assert!(found.view.result.as_deref().is_some_and(is_sealed), "{name}: its result too");
        assert_eq!(
            engine.revealed(&found.view).result.as_deref(),
            Some(format!("\"{NEEDLE}\"").as_str()),
            "{name}"
        );
        assert_eq!(
            detail(&engine, plain).await.view.result.as_deref(),
            Some("\"in the clear 7731\""),
            "{name}"
        );
        let dump = place.dump().await;
        assert!(dump.contains("in the clear 7731"), "{name}: the scan sees what is there");
        assert!(!dump.contains(NEEDLE), "{name}");
        drop(engine);
        place.done().await;
    }
}

#[tokio::test]
async fn views_show_that_something_is_there() {
    // E12
    let engine = on_model(Config::default().encryption(sealing(&[("s1", 1)])));
    let id = engine
        .enqueue(work(NEEDLE))
        .params(serde_json::json!({ "a": 1 }))
        .submit()
        .await
        .expect("admitted")
        .id;
    drain(&engine, &Arc::new(App::default())).await;
    let found = detail(&engine, id).await;
    let shown = serde_json::to_value(found.masked(&engine.mask())).expect("plain data");
    assert_eq!((&shown["payload"], &shown["result"]), (&"[encrypted]".into(), &"[encrypted]".into()));
    assert_eq!(shown["params"], serde_json::json!({ "a": 1 }));
    let run = engine.attempts(id, PageRequest::first(1)).await.expect("read").items.remove(0);
    let shown_run = serde_json::to_value(run.masked(Some("work"), &engine.mask())).expect("plain data");
    assert_eq!(shown_run["result"], "[encrypted]");
    let revealed = engine.revealed(&found.view);
    assert_eq!(&*revealed.job.spec.payload, format!(r#"{{"say":"{NEEDLE}"}}"#));
    let opened = engine.revealed_run(&found.view.job.spec, &run);
    assert_eq!(opened.result.as_deref(), Some(format!("\"{NEEDLE}\"").as_str()));
    let without = Backstop::on(engine.store().clone(), Config::default());
    let closed = without.revealed(&found.view);
    assert_eq!(
        (&*closed.job.spec.payload, closed.result.as_deref()),
        ("\"[encrypted]\"", Some("\"[encrypted]\""))
    );
}

#[tokio::test]
async fn what_does_not_open_is_dead_and_says_why() {
    // E12
    let engine = on_model(Config::default().encryption(sealing(&[("s1", 1)])));
    let settings = [
        (Config::default(), "names a key nobody has", "sealed with the key `s1`, which is not among"),
        (
            Config::default().encryption(sealing(&[("s2", 2)])),
            "another ring",
            "sealed with the key `s1`, which is not",
        ),
        (
            Config::default().encryption(sealing(&[("s1", 9)])),
            "another secret",
            "does not open with the key `s1`",
        ),
    ];
    for (config, what, sentence) in settings {
        let id = engine.enqueue(work(NEEDLE)).submit().await.expect("admitted").id;
        let (other, app) = (Backstop::on(engine.store().clone(), config), Arc::new(App::default()));
        drain(&other, &app).await;
        let found = detail(&engine, id).await;
        assert_eq!(found.view.record.reason, Some(TerminalReason::NonRetryable), "{what}");
        assert_eq!(found.counters.keys().collect::<Vec<_>>(), [&Cause::Permanent], "{what}");
        let message = found.view.last_failure.expect("evidence").message;
        assert!(message.contains(sentence), "{what}: {message}");
        assert_eq!(app.starts.load(Ordering::SeqCst), 0, "{what}");
    }
}

#[tokio::test]
async fn keys_follow_each_other() {
    // E12
    let old = on_model(Config::default().encryption(sealing(&[("s1", 1)])));
    let id = old.enqueue(work(NEEDLE)).submit().await.expect("admitted").id;
    let both = Config::default().encryption(sealing(&[("s2", 2), ("s1", 1)]));
    let new = Backstop::on(old.store().clone(), both);
    drain(&new, &Arc::new(App::default())).await;
    let found = detail(&new, id).await;
    assert_eq!(found.view.state(), State::Succeeded);
    assert!(
        found.view.result.as_deref().is_some_and(|result| result.contains("\"s2\"")),
        "the first key seals"
    );
}

#[tokio::test]
async fn a_payload_of_the_wrong_shape_is_not_quoted() {
    // E12, E11
    let engine = on_model(Config::default().encryption(sealing(&[("s1", 1)])));
    let payload = format!(r#"{{"say":{{"{NEEDLE}":1}}}}"#);
    let id = engine.enqueue_raw("work", payload).submit().await.expect("admitted").id;
    let quoted = engine
        .enqueue_raw("other", format!(r#"{{"say":["{NEEDLE}"]}}"#))
        .submit()
        .await
        .expect("admitted")
        .id;
    drain(&engine, &Arc::new(App::default())).await;
    let found = detail(&engine, id).await;
    assert_eq!(found.view.record.reason, Some(TerminalReason::Invalid));
    let message = found.view.last_failure.expect("evidence").message;
    assert!(message.contains("of what was sealed") && !message.contains(NEEDLE), "{message}");
    let in_clear = detail(&engine, quoted).await.view.last_failure.expect("evidence").message;
    assert!(in_clear.contains("invalid type"), "one that is not sealed is told in full: {in_clear}");
}

#[tokio::test]
async fn named_fields_are_hidden_in_views_and_kept_in_the_store() {
    // E12
    let masking = Masking::default().hide("work", ["say"]);
    let engine = on_model(Config::default().masking(masking));
    let id = engine.enqueue(work(NEEDLE)).submit().await.expect("admitted").id;
    drain(&engine, &Arc::new(App::default())).await;
    let page = engine.jobs(JobFilter::default(), PageRequest::first(1)).await.expect("listed");
    assert_eq!(&*page.items[0].masked(&engine.mask()).job.spec.payload, r#"{"say":"[redacted]"}"#);
    assert_eq!(&*detail(&engine, id).await.view.job.spec.payload, format!(r#"{{"say":"{NEEDLE}"}}"#));
}

/// Tells subscribers what it was given.
#[derive(Serialize, Deserialize)]
struct Tell {
    say: String,
}

impl Job for Tell {
    const KIND: &'static str = "tell";
    type Context = ();
    type Output = JobResult;

    async fn run(self, cx: JobContext<()>) -> JobResult {
        let data = serde_json::json!({ "say": self.say, "deep": [{ "api_key": self.say }], "open": 1 });
        Ok(cx.publish("told", data).await?)
    }
}

#[tokio::test]
async fn what_a_handler_tells_is_told_as_a_view_would_show_it() {
    // E12, F11
    let hidden = serde_json::json!("[redacted]");
    let masked = Config::default().masking(Masking::default().hide("tell", ["say"]));
    let sealed = Config::default().encryption(sealing(&[("s1", 1)]).kind("tell"));
    for (config, name) in [(masked, "masked"), (sealed, "sealed")] {
        let engine = on_model(config);
        let mut events = engine.events();
        engine.enqueue(Tell { say: NEEDLE.to_owned() }).submit().await.expect("admitted");
        let worker = engine.worker(()).register::<Tell>().queue("default", 1).inline().expect("a worker");
        worker.drain(5).await.expect("drained");
        let mut told = None;
        while let Some(event) = events.try_next() {
            assert!(!format!("{event:?}").contains(NEEDLE), "{name}: {event:?}");
            if let EventKind::Published { data, .. } = &event.what {
                told = Some(data.clone());
            }
        }
        let told = told.expect("it was told");
        match name {
            "masked" => {
                assert_eq!((&told["say"], &told["open"]), (&hidden, &serde_json::json!(1)));
            }
            _ => assert_eq!(told, serde_json::json!("[encrypted]")),
        }
    }
}

/// Answers with what it was sent, twice.
#[derive(Serialize, Deserialize)]
struct Ask {}

impl Job for Ask {
    const KIND: &'static str = "ask";
    type Context = ();
    type Output = JobResult<String>;

    async fn run(self, cx: JobContext<()>) -> JobResult<String> {
        let mut answer = String::new();
        for signal in ["early", "late"] {
            if let Signaled::Received(said) = cx.signal::<String>(signal).await? {
                answer.push_str(&said);
            }
        }
        Ok(answer)
    }
}

#[tokio::test]
async fn what_a_job_waited_for_is_sealed_when_it_has_it() {
    // E12, W10
    for place in Place::all("signaled").await {
        let engine = place.open(Config::default().encryption(sealing(&[("s1", 1)]).kind("ask"))).await;
        let name = place.name();
        let worker = engine.worker(()).register::<Ask>().queue("default", 1).inline().expect("a worker");
        // One that is kept, which is of no kind until then, and one that comes when it waits.
        engine.signals().send("early", &"a hint, ").await.expect("kept");
        let id = engine.enqueue(Ask {}).submit().await.expect("admitted").id;
        worker.drain(5).await.expect("drained");
        assert_eq!(detail(&engine, id).await.view.state(), State::Waiting, "{name}");
        let sent = engine.signals().send("late", &NEEDLE).await.expect("sent");
        assert_eq!(sent.delivered, 1, "{name}");
        let steps = engine.store().documents(DocumentRange::first(Drawer::Steps, 10)).await.expect("steps");
        assert_eq!(steps.items.len(), 2, "{name}");
        assert!(steps.items.iter().all(|step| is_sealed(&step.body)), "{name}: {:?}", steps.items);
        worker.drain(5).await.expect("drained");
        let found = detail(&engine, id).await;
        let answered = engine.revealed(&found.view).result;
        assert_eq!(answered.as_deref(), Some(format!("\"a hint, {NEEDLE}\"").as_str()), "{name}");
        assert!(!place.dump().await.contains(NEEDLE), "{name}");
        drop((engine, worker));
        place.done().await;
    }
}

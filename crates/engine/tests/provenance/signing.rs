//! Who vouches for jobs, on every way into the store and out of it (E9).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, JobId, QueueConfig, Refusal, Signing, State, TerminalReason, worker_id};
use backstop_core::job::JobDetail;
use backstop_store::{ManualClock, ModelStore};

use crate::place::{App, Place, after, detail, drain, keys, reason, strict, work};

fn on_model(config: Config) -> (Backstop, ManualClock) {
    let clock = ManualClock::default();
    (Backstop::on(Arc::new(ModelStore::new(Arc::new(clock.clone()))), config), clock)
}

fn signed_by(detail: &JobDetail) -> Option<&str> {
    detail.view.job.spec.signature().map(|signature| &*signature.key)
}

#[tokio::test]
async fn what_was_made_elsewhere_is_verified_before_it_is_stored() {
    // L12, E9
    let (engine, _) = on_model(strict().queue("narrow", QueueConfig::default().allow(["other"])));
    let signed = engine.enqueue(work("one")).into_new_job().expect("admitted");
    let (stranger, _) = on_model(Config::default().signing(Signing::new(keys(&[("k9", 9)]))));
    let (nobody, _) = on_model(Config::default());
    let unknown = stranger.enqueue(work("one")).into_new_job().expect("admitted");
    let unsigned = nobody.enqueue(work("one")).into_new_job().expect("admitted");
    let mut changed = engine.enqueue(work("one")).into_new_job().expect("admitted");
    changed.spec.payload = r#"{"say":"two"}"#.into();
    let mut broken = changed.clone();
    broken.spec.payload = "nope".into();
    // The signature comes before the list of kinds, and after what can be said of the job itself.
    let unlisted = engine.enqueue(work("one")).queue("wide").into_new_job().expect("admitted");
    let mut moved = unlisted.clone();
    moved.spec.queue = "narrow".into();
    let code =
        |answer: Result<backstop_store::Submitted, Refusal>| answer.err().map(|refusal| refusal.code());
    let jobs = vec![signed.clone(), unknown.clone(), unsigned.clone(), changed, broken, moved];
    let answers = engine.submit_made(jobs, false).await.expect("the store is there");
    let codes: Vec<_> = answers.into_iter().map(code).collect();
    let refused = Some("signature");
    assert_eq!(codes, [None, refused, refused, refused, Some("invalid"), refused]);
    assert_eq!(signed_by(&detail(&engine, signed.spec.id).await), Some("k1"), "it is stored as it came");
    // All or none, and without keys nothing is asked.
    let answers = engine.submit_made(vec![unlisted, unsigned.clone()], true).await.expect("answered");
    assert_eq!(answers.into_iter().map(code).collect::<Vec<_>>(), [Some("batch_refused"), refused]);
    let answers = nobody.submit_made(vec![unknown, unsigned], false).await.expect("answered");
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test]
async fn every_way_in_is_signed() {
    // E9
    let (engine, _) = on_model(strict());
    let app = Arc::new(App::default());
    let one = engine.enqueue(work("one")).on_success(after("x")).submit().await.expect("admitted").id;
    let raw = engine.enqueue_raw("work", r#"{"say":"raw"}"#).submit().await.expect("admitted").id;
    let many = engine.submit_all(vec![engine.enqueue(work("fail")).on_failure(after("y"))], true).await;
    let many = many.expect("stored")[0].as_ref().expect("admitted").id;
    for id in [one, raw, many] {
        assert_eq!(signed_by(&detail(&engine, id).await), Some("k1"));
    }
    drain(&engine, &app).await;
    assert_eq!((app.starts.load(Ordering::SeqCst), app.callbacks.load(Ordering::SeqCst)), (3, 2));
    let redriven = engine.retry(many).await.expect("it was dead");
    assert!(redriven.changed);
    assert_eq!(signed_by(&detail(&engine, many).await), Some("k1"), "a re-drive keeps it");
    drain(&engine, &app).await;
    assert_eq!(app.callbacks.load(Ordering::SeqCst), 3, "and its callback is signed again");
    let transacted = engine.enqueue(work("in a transaction")).into_new_job().expect("admitted");
    assert!(transacted.spec.signature().is_some(), "`submit_in` takes this");
}

#[tokio::test]
async fn without_keys_nothing_is_signed_and_nothing_checked() {
    let (engine, _) = on_model(Config::default());
    let id = engine.enqueue(work("plain")).submit().await.expect("admitted").id;
    assert_eq!(detail(&engine, id).await.view.job.spec.provenance, None, "no provenance at all");
}

/// An engine of the same store with other settings.
fn beside(engine: &Backstop, config: Config) -> Backstop {
    Backstop::on(engine.store().clone(), config)
}

#[tokio::test]
async fn a_missing_signature_counts_where_it_is_required() {
    // E9
    let (engine, _) = on_model(Config::default());
    let (plain, other) = (engine.enqueue(work("a")), engine.enqueue(work("b")).queue("other"));
    let plain = plain.submit().await.expect("admitted").id;
    let other = other.submit().await.expect("admitted").id;
    let settings = Config::default().signing(Signing::new(keys(&[("k1", 1)])).queue("other", true));
    let (strict, app) = (beside(&engine, settings), Arc::new(App::default()));
    drain(&strict, &app).await;
    assert_eq!(detail(&engine, plain).await.view.state(), State::Succeeded, "not required there");
    let dead = detail(&engine, other).await;
    assert_eq!(
        (dead.view.state(), dead.view.record.reason),
        (State::Failed, Some(TerminalReason::Signature))
    );
    let failure = dead.view.last_failure.expect("evidence");
    assert!(
        failure.message.starts_with("it has no signature; submit it through a program"),
        "{}",
        failure.message
    );
    assert_eq!(dead.view.record.runs, 1, "never retried");
    assert_eq!(app.starts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_wrong_signature_is_refused_also_where_none_is_required() {
    // E9
    let (engine, _) = on_model(Config::default().signing(Signing::new(keys(&[("k1", 7)]))));
    let id = engine.enqueue(work("a")).submit().await.expect("admitted").id;
    let other = beside(&engine, Config::default().signing(Signing::new(keys(&[("k1", 1)]))));
    let app = Arc::new(App::default());
    drain(&other, &app).await;
    assert_eq!(reason(&engine, id).await, Some(TerminalReason::Signature));
    assert_eq!(app.starts.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn keys_are_changed_without_a_gap() {
    // E9
    let required = |ring: &[(&str, u8)]| Config::default().signing(Signing::new(keys(ring)).required());
    let (old, _) = on_model(required(&[("k1", 1)]));
    let both = beside(&old, required(&[("k2", 2), ("k1", 1)]));
    let new = beside(&old, required(&[("k2", 2)]));
    let app = Arc::new(App::default());
    let by_old = old.enqueue(work("old")).submit().await.expect("admitted").id;
    drain(&both, &app).await;
    assert_eq!(detail(&old, by_old).await.view.state(), State::Succeeded, "the old key still verifies");
    let by_both = both.enqueue(work("both")).submit().await.expect("admitted").id;
    assert_eq!(signed_by(&detail(&old, by_both).await), Some("k2"));
    let late = old.enqueue(work("late")).submit().await.expect("admitted").id;
    drain(&new, &app).await;
    assert_eq!(detail(&old, by_both).await.view.state(), State::Succeeded);
    assert_eq!(
        reason(&old, late).await,
        Some(TerminalReason::Signature),
        "a key that was taken away does not"
    );
}

#[tokio::test]
async fn the_callback_of_an_expired_job_is_vouched_for_by_its_parent() {
    // E9, F14: the store itself makes it, and has no keys.
    let (engine, clock) = on_model(strict());
    let app = Arc::new(App::default());
    let parent = engine.enqueue(work("late")).max_wait(Duration::from_secs(5)).on_failure(after("too late"));
    let parent = parent.submit().await.expect("admitted").id;
    clock.advance(Duration::from_secs(60));
    engine.maintain(worker_id(), Duration::from_secs(30)).await.expect("the model is there");
    let callback = parent.callback("on_failure", 0);
    assert_eq!(signed_by(&detail(&engine, callback).await), None);
    drain(&engine, &app).await;
    assert_eq!(detail(&engine, callback).await.view.state(), State::Succeeded);
    assert_eq!((app.starts.load(Ordering::SeqCst), app.callbacks.load(Ordering::SeqCst)), (0, 1));
}

/// Plants a job like `model` under another id, as somebody who can write into the database.
fn planted(place: &Place, model: JobId, id: JobId, fields: &[(&str, String)]) -> String {
    let (job, state, ready) = (place.table("job"), place.table("state"), place.table("ready"));
    let (model, id) = (place.id(model), place.id(id));
    let names: String = fields.iter().map(|(name, _)| format!(", {name}")).collect();
    let values: String = fields.iter().map(|(_, value)| format!(", {value}")).collect();
    match place {
        Place::Sqlite(_) => format!(
            "INSERT INTO {state} (id, lane, status, run_at, attempt, crashes, deferrals, runs, redrives, fence) \
             SELECT {id}, lane, 1, run_at, 0, 0, 0, 0, 0, 0 FROM {state} WHERE id = {model};\n\
             INSERT INTO {job} (seq, created_at{names}) SELECT (SELECT seq FROM {state} WHERE id = {id}), \
             created_at{values} FROM {job} WHERE seq = (SELECT seq FROM {state} WHERE id = {model});\n\
             UPDATE {} SET pending = pending + 1",
            place.table("lane")
        ),
        _ => format!(
            "INSERT INTO {job} (id, lane, created_at, run_at{names}) SELECT {id}, lane, created_at, run_at{values} \
             FROM {job} WHERE id = {model};\n\
             INSERT INTO {ready} (lane, run_at, id, rowed) SELECT lane, run_at, {id}, {} FROM {job} WHERE id = {model}",
            if matches!(place, Place::Postgres(_)) { "FALSE" } else { "0" }
        ),
    }
}

#[tokio::test]
async fn a_job_planted_by_hand_never_runs() {
    // E9
    for place in Place::all("planted").await {
        let (engine, app) = (place.open(strict()).await, Arc::new(App::default()));
        let model = engine.enqueue(work("well")).submit().await.expect("admitted").id;
        let copied = |payload: &str, provenance: &str| {
            vec![("payload", payload.to_owned()), ("papers", provenance.to_owned())]
        };
        let evil = "'{\"say\":\"evil\"}'";
        let plants = [
            copied(evil, "NULL"),
            copied(evil, "papers"),
            copied("payload", "papers"),
            copied("payload", "NULL"),
        ];
        let mut ids = Vec::new();
        for fields in &plants {
            let id = backstop::job_id();
            place.sql(&planted(&place, model, id, fields)).await;
            ids.push(id);
        }
        if let Place::Postgres(schema) = &place {
            place.sql(&format!("SELECT {schema}.enqueue('work', '{{\"say\":\"evil\"}}')")).await;
        }
        drain(&engine, &app).await;
        for id in ids {
            assert_eq!(reason(&engine, id).await, Some(TerminalReason::Signature), "{}", place.name());
        }
        assert_eq!(app.starts.load(Ordering::SeqCst), 1, "{}: the signed one alone", place.name());
        drop(engine);
        place.done().await;
    }
}

#[tokio::test]
async fn a_planted_callback_is_not_its_parents() {
    // E9, F14
    for place in Place::all("callbacks").await {
        let (engine, app) = (place.open(strict()).await, Arc::new(App::default()));
        let past = engine.store().now().await.expect("a clock").before(Duration::from_secs(60));
        let parent = engine.enqueue(work("late")).expires_at(past).on_failure(after("declared"));
        let parent = parent.submit().await.expect("admitted").id;
        engine.maintain(worker_id(), Duration::from_secs(30)).await.expect("the store is there");
        drain(&engine, &app).await;
        let name = place.name();
        assert_eq!(reason(&engine, parent).await, Some(TerminalReason::Expired), "{name}");
        let made = parent.callback("on_failure", 0);
        assert_eq!(signed_by(&detail(&engine, made).await), None, "{name}: made by the store");
        assert_eq!(detail(&engine, made).await.view.state(), State::Succeeded, "{name}");
        // The same again under the id of a round that never was, and with another payload.
        let of_parent = || ("callback_of", place.id(parent));
        let params = || ("params", "params".to_owned());
        let (never, evil) = (parent.callback("on_failure", 1), backstop::job_id());
        let same = [("payload", "payload".to_owned()), params(), of_parent()];
        let other = [("payload", "'{\"note\":\"evil\"}'".to_owned()), params(), of_parent()];
        place.sql(&planted(&place, made, never, &same)).await;
        place.sql(&planted(&place, made, evil, &other)).await;
        drain(&engine, &app).await;
        for id in [never, evil] {
            assert_eq!(reason(&engine, id).await, Some(TerminalReason::Signature), "{name}");
        }
        assert_eq!(app.callbacks.load(Ordering::SeqCst), 1, "{name}");
        drop(engine);
        place.done().await;
    }
}

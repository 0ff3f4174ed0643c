//! Maintenance without a worker: one part for each engine, one leader for each duty, nothing left behind by the dead.

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, JobId, QueueConfig, Signing, WorkerId};
use backstop_core::job::State;
use backstop_core::signing::{SecretKey, SigningKeys};
use backstop_store::{DocumentRange, Drawer, Duty, Store};

use crate::fixture::*;

const SECOND: Duration = Duration::from_secs(1);

async fn leader(store: &Arc<dyn Store>, duty: Duty) -> Option<WorkerId> {
    let terms = store.terms().await.expect("the model is there");
    terms.of(duty).filter(|term| term.expires_at > terms.now).map(|term| term.node)
}

/// A job that a worker with this lease held when it died, in this process or another.
async fn orphaned(engine: &Backstop, lease: Duration) -> JobId {
    let id = engine.enqueue(act(&["hang"])).policy(quick()).submit().await.expect("admitted").id;
    let doomed = worker(engine).without_maintenance().lease(lease).start().await.expect("started");
    reach(engine, id, State::Running).await;
    drop(doomed);
    id
}

/// How long after now a job is taken back.
async fn taken_back(engine: &Backstop, id: JobId) -> Duration {
    let began = tokio::time::Instant::now();
    reach(engine, id, State::Pending).await;
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn without_a_worker_a_short_lease_is_found_within_two_seconds_of_its_end() {
    // L15
    for offset in [0, 400, 800, 1_200, 4_700] {
        let engine = engine();
        let maintenance = engine.maintenance().start();
        settle().await;
        tokio::time::advance(Duration::from_millis(offset)).await;
        let id = orphaned(&engine, SECOND).await;
        let after = taken_back(&engine, id).await;
        assert!(after <= 3 * SECOND, "a lease of a second ended at most a second ago: {after:?}");
        maintenance.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_queues_let_in_is_told_to_the_store() {
    // L12
    let store = model();
    let said = async |config: Config| {
        let maintenance = Backstop::on(store.clone(), config).maintenance().start();
        settle().await;
        maintenance.stop().await;
        let found =
            store.documents(DocumentRange::first(Drawer::Gates, 10)).await.expect("the model is there");
        found.items.into_iter().map(|one| (one.key, one.body.to_string())).collect::<Vec<_>>()
    };
    let listed =
        |kinds: &[&str]| Config::default().queue("mail", QueueConfig::default().allow(kinds.to_vec()));
    let entry = |key: &str, body: &str| (key.to_owned(), body.to_owned());
    assert_eq!(said(Config::default()).await, []);
    assert_eq!(said(listed(&["welcome"])).await, [entry("queue/mail", r#"{"kinds":["welcome"]}"#)]);
    let key = SecretKey::new("k1", vec![1; 32]).expect("long enough");
    let signing = Signing::new(SigningKeys::new(vec![key]).expect("one key")).required().queue("open", false);
    let signed = said(listed(&["welcome", "bye"]).signing(signing)).await;
    let expected = [
        entry("all", r#"{"signed":true}"#),
        entry("queue/mail", r#"{"kinds":["welcome","bye"]}"#),
        entry("queue/open", r#"{"signed":false}"#),
    ];
    assert_eq!(signed, expected);
    // A program that names the queue and says nothing of it takes back what was said; others are left alone.
    let left = said(Config::default().queue("mail", QueueConfig::default())).await;
    assert_eq!(left, [entry("all", r#"{"signed":true}"#), entry("queue/open", r#"{"signed":false}"#)]);
}

#[tokio::test(start_paused = true)]
async fn when_the_leader_dies_too_another_takes_over_within_the_lease_and_two_seconds() {
    // L15, L17
    let store = model();
    let (first, second) =
        (Backstop::on(store.clone(), Config::default()), Backstop::on(store.clone(), Config::default()));
    let leading = first.maintenance().start();
    settle().await;
    let following = second.maintenance().start();
    pass(7).await;
    let before = leader(&store, Duty::Rescue).await.expect("it is led");
    let id = orphaned(&first, 30 * SECOND).await;
    drop(leading);
    let after = taken_back(&second, id).await;
    assert!(after <= 32 * SECOND, "{after:?}");
    assert_ne!(leader(&store, Duty::Rescue).await, Some(before));
    following.stop().await;
    assert_eq!(leader(&store, Duty::Rescue).await, None, "a node that stops lets others lead");
}

#[tokio::test(start_paused = true)]
async fn however_often_it_is_started_an_engine_takes_part_once() {
    // L17
    let store = model();
    let engine = Backstop::on(store.clone(), Config::default());
    let running = worker(&engine).start().await.expect("started");
    let (one, two) = (engine.maintenance().start(), engine.maintenance().lease(6 * SECOND).start());
    pass(20).await;
    let node = leader(&store, Duty::Rescue).await.expect("it is led");
    for duty in [Duty::Expire, Duty::Redrive, Duty::Count, Duty::Schedule] {
        assert_eq!(leader(&store, duty).await, Some(node), "{duty}");
    }
    running.stop().await;
    one.stop().await;
    pass(20).await;
    assert_eq!(leader(&store, Duty::Rescue).await, Some(node), "somebody still holds it");
    assert!(two.health().ready, "{:?}", two.health());
    let watch = two.watch();
    two.stop().await;
    assert_eq!(leader(&store, Duty::Rescue).await, None);
    assert_eq!(watch.health(), None, "what has stopped raises no alarm");
}

#[tokio::test(start_paused = true)]
async fn every_duty_is_led_while_somebody_serves_and_found_missing_afterwards() {
    // L17, H2
    let engine = engine();
    let maintenance = engine.maintenance().start();
    for _ in 0..20 {
        pass(60).await;
        let duties = engine.duties().await.expect("the model is there");
        assert!(duties.iter().all(|one| one.is_ok(Duration::MAX)), "{duties:?}");
    }
    drop(maintenance);
    pass(50).await;
    let duties = engine.duties().await.expect("the model is there");
    let unled: Vec<Duty> =
        duties.iter().filter(|one| !one.is_ok(Duration::ZERO)).map(|one| one.duty).collect();
    assert_eq!(unled, [Duty::Rescue, Duty::Expire, Duty::Redrive, Duty::Count, Duty::Schedule]);
}

//! A channel that hangs, fails or panics holds up no job and no other channel.

use std::sync::Arc;
use std::time::Duration;

use backstop::{Alerts, Backstop, Config, State, Timestamp, WorkerHandle};
use backstop_store::{Clock, ModelStore};
use tokio::time::Instant;

use crate::stage::{Die, Ear, Mood, Stage, die};

/// Follows tokio's time, so that paused time moves the store's clock too.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000).after(self.0.elapsed())
    }
}

fn engine(channels: impl IntoIterator<Item = Ear>) -> Backstop {
    let alerts = channels.into_iter().fold(Alerts::default(), Alerts::channel);
    let store = ModelStore::new(Arc::new(TokioClock(Instant::now())));
    Backstop::on(Arc::new(store), Config::default().alerts(alerts))
}

async fn worker(engine: &Backstop) -> WorkerHandle {
    engine.worker(()).register::<Die>().queue("default", 4).start().await.expect("the model is there")
}

async fn end(engine: &Backstop, of: &str) -> State {
    let id = engine.enqueue(die(of)).submit().await.expect("admitted").id;
    engine.wait(id).await.expect("the model is there").expect("it is there").view.state()
}

#[tokio::test(start_paused = true)]
async fn jobs_end_and_others_are_told_while_a_channel_hangs() {
    // D3
    let (stuck, ear) = (Ear::named("stuck").mood(Mood::Hangs), Ear::named("ear"));
    let engine = engine([stuck.clone(), ear.clone()]);
    let running = worker(&engine).await;
    let began = Instant::now();
    assert_eq!(end(&engine, "the disk is gone").await, State::Failed);
    while stuck.tries() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(began.elapsed() < Duration::from_secs(3), "told at once: {:?}", began.elapsed());
    let hangs = Instant::now();
    for number in 0..50 {
        let (of, state) =
            if number % 2 == 0 { ("the host is away", State::Failed) } else { ("", State::Succeeded) };
        assert_eq!(end(&engine, of).await, state);
    }
    while ear.heard().len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(hangs.elapsed() < Duration::from_secs(5), "nothing waited for it: {:?}", hangs.elapsed());
    assert_eq!(stuck.tries(), 1, "it still hangs in its first delivery");
    // Its deadline passes, and it is tried again; every loop is well all the time.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(stuck.tries() > 2 && stuck.heard().is_empty());
    assert!(running.health().ready, "{:?}", running.health());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_panics_is_a_failure_like_others() {
    // D3
    let broken = Ear::named("broken").mood(Mood::Panics);
    let engine = engine([broken.clone()]);
    let running = worker(&engine).await;
    assert_eq!(end(&engine, "the disk is gone").await, State::Failed);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(broken.tries(), 1, "it waits for its next try");
    broken.mood(Mood::Listens);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(broken.counts(), [1]);
    let health = running.health();
    assert!(health.ready && health.loops.iter().all(|one| one.restarts == 0), "{health:?}");
    assert!(health.loops.iter().any(|one| one.name == "alerts"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_nodes_tell_each_death_once() {
    // D3, L17
    let ear = Ear::named("ear");
    let engine = engine([ear.clone()]);
    let nodes = [worker(&engine).await, worker(&engine).await];
    for number in 0..20 {
        end(&engine, if number % 2 == 0 { "the disk is gone" } else { "the host is away" }).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(ear.counts().iter().sum::<u64>(), 20, "{:?}", ear.counts());
    let mut ids: Vec<String> = ear.heard().into_iter().map(|message| message.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), ear.heard().len(), "no message came twice");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test]
async fn channels_of_one_name_are_told_apart() {
    // D3
    let (one, two) = (Ear::named("ear"), Ear::named("ear").mood(Mood::Refuses("off")));
    let stage = Stage::new([one.clone(), two.clone()]);
    stage.kill(&["the disk is gone"]).await;
    stage.maintain().await;
    assert_eq!((one.counts(), two.counts()), (vec![1], vec![]));
    let logs =
        stage.engine.incidents().alert_logs(&one.heard()[0].incident).await.expect("the model is there");
    let told: Vec<_> = logs.iter().map(|log| (log.channel.as_str(), log.told, log.failures)).collect();
    assert_eq!(told, [("ear", 1, 0), ("ear-2", 0, 1)]);
}

#[tokio::test]
async fn what_every_channel_was_told_is_listed_page_by_page() {
    // D3
    let (one, two) = (Ear::named("one"), Ear::named("two").mood(Mood::Refuses("no line")));
    let stage = Stage::new([one.clone(), two]);
    stage.kill(&["rain", "hail", "rain"]).await;
    stage.maintain().await;
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = stage.engine.incidents().alerts(after, 3).await.expect("the model is there");
        listed.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let of = |channel: &str| listed.iter().filter(|told| told.log.channel == channel).count();
    assert_eq!((listed.len(), of("one"), of("two")), (4, 2, 2), "two incidents, two channels");
    for told in &listed {
        assert!(one.heard().iter().any(|message| message.incident == told.incident), "{told:?}");
        let failing = told.log.channel == "two";
        assert_eq!((told.log.failures > 0, told.log.trouble.is_some()), (failing, failing), "{told:?}");
        assert_eq!(told.log.waiting > 0, failing, "{told:?}");
    }
    assert!(stage.engine.incidents().alerts(None, 100_000).await.is_err(), "a page has its limit");
}

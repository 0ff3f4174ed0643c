//! What is told, how often, and what becomes of a message that does not come through.

use std::time::Duration;

use backstop::EventKind;
use backstop_core::incident::IncidentVerb;

use crate::stage::{Ear, Mood, Stage};

const DAY: u64 = 24 * 60 * 60;

#[tokio::test]
async fn five_hundred_deaths_are_a_few_messages_and_none_is_lost_in_the_count() {
    // D3
    let ear = Ear::named("ear");
    let stage = Stage::new([ear.clone()]);
    let first = stage.kill(&["the disk is gone"]).await[0];
    stage.maintain().await;
    assert_eq!(ear.counts(), [1], "the first one at once");
    let message = ear.heard().remove(0);
    assert_eq!((message.kind.as_str(), message.jobs.as_slice()), ("die", &[first][..]));
    assert_eq!(message.error.as_deref(), Some("the disk is gone"));
    assert_eq!(message.envelope["executionId"], first.to_string());
    stage.kill(&["the disk is gone"; 499]).await;
    for _ in 0..5 {
        stage.pass(10).await;
    }
    assert_eq!(ear.counts(), [1], "the gap is not over");
    stage.pass(10).await;
    assert_eq!(ear.counts(), [1, 499]);
    assert_eq!(ear.heard()[1].jobs.len(), 10, "a message stays small");
    let log = stage.log(&message.incident).await;
    assert_eq!((log.told, log.suppressed, log.waiting), (2, 498, 0));
    stage.pass(600).await;
    assert_eq!((ear.counts().len(), stage.outbox().await), (2, 0), "nothing more to tell");
}

#[tokio::test]
async fn each_incident_and_each_reason_has_a_message_of_its_own() {
    // D3
    let ear = Ear::named("ear");
    let stage = Stage::new([ear.clone()]);
    stage.kill(&["the disk is gone", "the host is away", "the disk is gone"]).await;
    let late = stage.engine.enqueue(crate::stage::die("never run"));
    late.max_wait(Duration::from_secs(5)).submit().await.expect("admitted");
    stage.clock.advance(Duration::from_secs(10));
    stage.maintain().await;
    stage.maintain().await;
    let mut told: Vec<(u64, String)> = ear
        .heard()
        .into_iter()
        .map(|message| (message.count, message.reason.expect("jobs died").to_string()))
        .collect();
    told.sort();
    let told: Vec<_> = told.iter().map(|(count, reason)| (*count, reason.as_str())).collect();
    assert_eq!(told, [(1, "expired"), (1, "non_retryable"), (2, "non_retryable")]);
}

#[tokio::test]
async fn a_repeat_of_the_same_job_is_counted_and_published_and_not_told() {
    // D3
    let ear = Ear::named("ear");
    let stage = Stage::new([ear.clone()]);
    let mut events = stage.engine.events();
    let job = stage.kill(&["the disk is gone"]).await[0];
    for _ in 0..3 {
        stage.engine.retry(job).await.expect("it is a dead letter");
        stage.work().await;
        stage.pass(120).await;
    }
    assert_eq!(ear.counts(), [1]);
    let told = std::iter::from_fn(|| events.try_next());
    let suppressed: Vec<u32> = told
        .filter_map(|event| match &event.what {
            EventKind::Alert { suppressed, .. } => Some(*suppressed),
            _ => None,
        })
        .collect();
    assert_eq!(suppressed, [0, 1, 2, 3], "the event is published for every one");
    stage.clock.advance(Duration::from_secs(3_600));
    stage.engine.retry(job).await.expect("it is a dead letter");
    stage.work().await;
    stage.maintain().await;
    assert_eq!(ear.counts(), [1, 1], "an hour later it is news again");
}

#[tokio::test]
async fn a_muted_incident_is_counted_and_not_told() {
    // D3
    let ear = Ear::named("ear");
    let stage = Stage::new([ear.clone()]);
    stage.kill(&["the disk is gone"]).await;
    stage.maintain().await;
    let incident = ear.heard()[0].incident.clone();
    // Muted while something waits for the end of the gap.
    stage.kill(&["the disk is gone"; 3]).await;
    stage.pass(10).await;
    stage.say(&incident, IncidentVerb::Mute).await;
    stage.pass(100).await;
    // And before it is taken out of the outbox.
    stage.kill(&["the disk is gone"; 4]).await;
    stage.pass(100).await;
    assert_eq!((ear.counts(), stage.outbox().await), (vec![1], 0));
    assert_eq!(stage.log(&incident).await.muted, 7);
    stage.say(&incident, IncidentVerb::Reopen).await;
    stage.kill(&["the disk is gone"; 2]).await;
    stage.maintain().await;
    assert_eq!(ear.counts(), [1, 2], "who wants to hear of it again is told");
}

#[tokio::test]
async fn what_did_not_come_through_is_told_again_as_it_was() {
    // D3
    let ear = Ear::named("ear").mood(Mood::Refuses("the pager is off"));
    let stage = Stage::new([ear.clone()]);
    stage.kill(&["the disk is gone"; 3]).await;
    stage.maintain().await;
    stage.kill(&["the disk is gone"; 4]).await;
    stage.maintain().await;
    assert_eq!(ear.tries(), 1, "not before its time");
    stage.pass(5).await;
    stage.pass(9).await;
    assert_eq!(ear.tries(), 2, "the second pause is longer");
    let incident = stage.engine.incidents().list(1).await.expect("the model is there").remove(0).fingerprint;
    let log = stage.log(incident.as_ref()).await;
    assert_eq!((log.failures, log.waiting, log.told), (2, 7, 0));
    assert_eq!(log.trouble.as_deref(), Some("the pager is off"));
    ear.mood(Mood::Listens);
    stage.pass(1).await;
    assert_eq!(ear.counts(), [3], "the message is the one that was tried first");
    stage.pass(60).await;
    assert_eq!(ear.counts(), [3, 4]);
    let log = stage.log(incident.as_ref()).await;
    assert_eq!((log.failures, log.waiting, log.trouble), (0, 0, None));
}

#[tokio::test]
async fn another_process_goes_on_where_one_died() {
    // D3
    let deaf = Ear::named("ear").mood(Mood::Refuses("the pager is off"));
    let stage = Stage::new([deaf]);
    stage.kill(&["the disk is gone"; 3]).await;
    stage.maintain().await;
    stage.kill(&["the disk is gone"]).await;
    let ear = Ear::named("ear");
    let stage = stage.restart([ear.clone()]);
    stage.maintain().await;
    assert!(ear.heard().is_empty(), "the dead process still leads");
    stage.pass(30).await;
    assert_eq!(ear.counts(), [3]);
    stage.pass(60).await;
    assert_eq!(ear.counts(), [3, 1], "what was in the outbox is told too");
}

#[tokio::test]
async fn a_delivery_that_was_not_written_down_is_made_again_under_the_same_id() {
    // D3
    let ear = Ear::named("ear");
    let stage = Stage::new([ear.clone()]);
    ear.mood(Mood::LosesItsNode(stage.engine.store().clone(), stage.clock.clone()));
    stage.kill(&["the disk is gone"; 3]).await;
    stage.maintain().await;
    ear.mood(Mood::Listens);
    let stage = stage.restart([ear.clone()]);
    stage.kill(&["the disk is gone"; 2]).await;
    stage.pass(31).await;
    let heard = ear.heard();
    assert_eq!(ear.counts(), [3, 3]);
    assert_eq!(heard[0], heard[1], "a receiver can tell that it has seen it");
    stage.pass(60).await;
    assert_eq!(ear.counts(), [3, 3, 2]);
    assert_ne!(ear.heard()[2].id, heard[0].id);
}

#[tokio::test]
async fn what_nobody_could_be_told_for_a_day_is_dropped_and_counted() {
    // D3
    let ear = Ear::named("ear").mood(Mood::Refuses("the pager is off"));
    let stage = Stage::new([ear.clone()]);
    stage.kill(&["the disk is gone"; 3]).await;
    for _ in 0..25 {
        stage.pass(3_600).await;
    }
    let incident = stage.engine.incidents().list(1).await.expect("the model is there").remove(0).fingerprint;
    let log = stage.log(incident.as_ref()).await;
    assert_eq!((log.dropped, log.waiting, log.failures), (3, 0, 0));
    // Alerts that lay in the outbox because no node delivered.
    stage.kill(&["the disk is gone"; 2]).await;
    ear.mood(Mood::Listens);
    stage.pass(DAY).await;
    assert_eq!((ear.heard().len(), stage.outbox().await), (0, 0));
    assert_eq!(stage.log(incident.as_ref()).await.dropped, 5);
}

#[tokio::test]
async fn without_a_channel_nothing_is_stored_and_what_others_left_goes_after_a_day() {
    // D3
    let silent = Stage::new([]);
    silent.kill(&["the disk is gone"]).await;
    assert_eq!(silent.outbox().await, 0);
    let stage = Stage::new([Ear::named("ear")]);
    stage.kill(&["the disk is gone"; 3]).await;
    let silent = stage.restart([]);
    silent.pass(DAY - 1).await;
    assert_eq!(silent.outbox().await, 3, "a node with a channel may still come");
    silent.pass(1).await;
    assert_eq!(silent.outbox().await, 0);
}

#[tokio::test]
async fn twelve_thousand_waiting_alerts_are_folded_in_bounded_looks() {
    // D3
    let ear = Ear::named("ear");
    let stage = Stage::new([ear.clone()]);
    stage.kill(&["the disk is gone"]).await;
    stage.copy_notice(11_999).await;
    stage.maintain().await;
    assert_eq!(ear.counts(), [10_000], "one look is bounded, and what it took is one message");
    stage.pass(60).await;
    assert_eq!((ear.counts(), stage.outbox().await), (vec![10_000, 2_000], 0));
}

//! The long poll: at once when there is work, never in a hurry when there is none.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::stage::{Stage, parsed, settle};

fn ask(wait_ms: u64) -> serde_json::Value {
    json!({ "worker": "w1", "queues": ["default"], "kinds": ["mail"], "wait_ms": wait_ms })
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_work_ends_empty_when_it_is_over() {
    // E7
    let stage = Stage::new();
    for (asked, waited) in [(0, 0), (2_500, 2_500), (600_000, 60_000)] {
        let since = Instant::now();
        assert!(stage.claim(ask(asked)).await.is_empty());
        assert_eq!(since.elapsed().as_millis() / 10, waited / 10, "asked for {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_arrives_or_becomes_due_ends_the_wait() {
    // E7, L13
    let stage = Stage::new();
    let mut waiting = pin!(stage.claim(ask(60_000)));
    let since = Instant::now();
    let early = tokio::time::timeout(Duration::from_millis(12_345), &mut waiting).await;
    assert!(early.is_err());
    stage.submit("mail", json!({})).await;
    assert_eq!(waiting.await.len(), 1);
    assert_eq!(since.elapsed().as_millis(), 12_345, "a wake-up costs no poll");
    let later = stage.engine().enqueue_raw("mail", "{}").delay(Duration::from_millis(7_777));
    later.submit().await.unwrap();
    let since = Instant::now();
    assert_eq!(stage.claim(ask(60_000)).await.len(), 1);
    assert!((7_777..7_790).contains(&since.elapsed().as_millis()), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn work_of_another_process_is_found_without_a_wake_up() {
    // E7, L13
    let store = super::stage::store();
    let silent = Stage::on(store.clone(), Default::default());
    // The store wakes only whoever observes it last.
    let loud = Stage::on(store, Default::default());
    let mut waiting = pin!(silent.claim(ask(60_000)));
    assert!(tokio::time::timeout(Duration::from_secs(20), &mut waiting).await.is_err());
    loud.submit("mail", json!({})).await;
    let since = Instant::now();
    assert_eq!(waiting.await.len(), 1);
    assert!(since.elapsed() <= Duration::from_secs(1), "{:?}", since.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_hangs_up_takes_nothing() {
    // E7, C2
    for polls in 0..60 {
        let stage = Stage::new();
        let id = stage.submit("mail", json!({})).await;
        {
            let mut claim = pin!(stage.claim(ask(60_000)));
            let mut done = false;
            for _ in 0..polls {
                let poll = std::future::poll_fn(|cx| Poll::Ready(claim.as_mut().poll(cx))).await;
                done = poll.is_ready();
                if done {
                    break;
                }
                tokio::task::yield_now().await;
            }
            if done {
                assert!(polls > 1, "it takes several steps to claim");
                return;
            }
        }
        settle().await;
        assert_eq!(stage.status(&id).await, "pending", "after {polls} steps");
        let next = stage.claim_one().await;
        assert_eq!(next["id"], id);
        assert_eq!(stage.detail(&id).await.view.record.attempt, 0, "nobody is to blame");
        stage.finish(&next, json!({ "type": "succeeded" })).await;
        let rows = stage.engine().workers().await.unwrap();
        assert!(rows.iter().all(|row| row.running == 0 && !row.queues.is_empty()), "{polls}: {rows:?}");
    }
    panic!("the claim never ended");
}

#[tokio::test(start_paused = true)]
async fn of_many_who_wait_each_job_wakes_one() {
    // E7, L4
    let stage = Stage::new();
    let crowd = (0..20).map(|number| {
        let worker = format!("w{number}");
        stage.claim(json!({ "worker": worker, "queues": ["default"], "kinds": ["mail"], "wait_ms": 30_000 }))
    });
    let work = async {
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..10 {
            stage.submit("mail", json!({})).await;
        }
    };
    let (answers, ()) = tokio::join!(all(crowd), work);
    let mut ids: Vec<String> =
        answers.iter().flatten().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 10);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 10, "no job was handed out twice");
    assert_eq!(stage.runs(&ids[0]).await.len(), 0);
    assert!(stage.engine().job(parsed(&ids[0])).await.unwrap().is_some());
}

/// Awaits all of them together.
async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.into_iter().map(Box::pin).map(Some).collect();
    let mut done: Vec<Option<F::Output>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (slot, answer) in waiting.iter_mut().zip(&mut done) {
            let Some(future) = slot else { continue };
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                (*answer, *slot) = (Some(output), None);
            }
        }
        if waiting.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

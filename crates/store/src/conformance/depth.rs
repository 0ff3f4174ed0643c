//! Where as many jobs wait as may, further ones are refused (H12).

use backstop_core::Refusal;
use backstop_core::depth::{DepthLimit, DepthScope};
use backstop_core::failure::Cause;
use backstop_core::job::{NewJob, OnConflict, Operation, State};

use super::build::{JobDraft, ends_by, id, job, success};
use super::fixture::{Fixture, secs};
use super::place::at_once;
use crate::{JobFilter, Submit};

fn in_queue(queue: &str, most: u64) -> impl Fn(&mut NewJob) {
    let limit = DepthLimit { scope: DepthScope::Queue(queue.into()), most };
    move |new| new.depth_limits = vec![limit.clone()]
}

/// A job of the queue `default`, where two may wait.
fn bounded(number: u64) -> JobDraft {
    job(number).with(in_queue("default", 2))
}

fn full(depth: u64, limit: u64) -> Refusal {
    Refusal::QueueFull { scope: DepthScope::Queue("default".into()), depth, limit }
}

/// H12: the limit is exact, due or not, waiting for others or not; nothing is left of what was refused.
pub async fn a_full_queue_takes_no_more(w: Fixture) {
    w.submit(bounded(1).after(secs(60))).await;
    w.submit(job(9).queue("other")).await;
    w.submit(bounded(2).in_order("line")).await;
    assert_eq!(w.offer(bounded(3).once("k")).await, Err(full(2, 2)));
    assert_eq!(w.offer(bounded(3)).await, Err(full(2, 2)));
    assert!(!w.exists(id(3)).await);
    w.cancel(id(1)).await;
    assert_eq!(w.submit(bounded(3).once("k")).await, id(3), "there is room, and the key was not remembered");
    assert_eq!(w.offer(bounded(4)).await, Err(full(2, 2)));
    w.submit(job(5)).await;
    assert_eq!(w.offer(bounded(4)).await, Err(full(3, 2)), "who has no limit counts");
}

/// H12: what a worker holds, what has ended and what a person holds back does not wait.
pub async fn running_and_ended_jobs_do_not_count(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(bounded(1)).await;
    w.submit(bounded(2)).await;
    let running = w.take(worker).await;
    w.submit(bounded(3)).await;
    assert_eq!(w.offer(bounded(4)).await, Err(full(2, 2)));
    w.finish(&running, ends_by(&running, Cause::Error)).await;
    assert_eq!(w.offer(bounded(4)).await, Err(full(3, 2)), "a retry comes back whatever the limit");
    for number in [1, 2] {
        w.operate(id(number), Operation::Pause).await.expect("pending");
    }
    w.submit(bounded(4)).await;
}

/// L10, L12, H12: a repeated submit is answered as ever.
pub async fn what_is_known_already_is_answered_by_a_full_queue(w: Fixture) {
    w.submit(bounded(1).once("k")).await;
    w.submit(bounded(2)).await;
    for again in [bounded(7).once("k"), bounded(1), bounded(2)] {
        assert!(w.offer(again).await.expect("known").deduplicated);
    }
}

/// H12: each for itself, in order.
pub async fn a_batch_gets_what_places_there_are(w: Fixture) {
    let answers = w.offer_all(false, [bounded(1), bounded(2), bounded(3), job(4).queue("other")]).await;
    let stored: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(stored, [true, true, false, true]);
    assert_eq!(answers[2], Err(full(2, 2)));
}

/// H12, L10, L21: whoever leaves its line gives the turn to the next, and that one can be replaced at once, as what it
/// has become by then.
pub async fn a_job_whose_turn_has_just_come_is_replaced(w: Fixture) {
    for (number, key) in [(1, "first"), (2, "second")] {
        w.submit(job(number).key(key, OnConflict::Reject).in_order("line")).await;
    }
    assert_eq!((w.state(id(1)).await, w.state(id(2)).await), (State::Pending, State::Waiting));
    let replacement = |number, key| job(number).key(key, OnConflict::Replace);
    let bounded = replacement(4, "second").with(in_queue("default", 9));
    let answers = w.offer_all(false, [replacement(3, "first"), bounded]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let counted = w.queue("default").await;
    assert_eq!((counted.pending, counted.waiting, counted.canceled), (2, 0, 2));
}

/// H12: all or nothing means that there must be room for all.
pub async fn an_atomic_batch_needs_a_place_for_each(w: Fixture) {
    let answers = w.offer_all(true, [bounded(1), bounded(2), bounded(3)]).await;
    assert_eq!(
        answers,
        [Err(Refusal::BatchRefused { index: 2 }), Err(Refusal::BatchRefused { index: 2 }), Err(full(2, 2))]
    );
    assert!(w.listed(JobFilter::default()).await.is_empty());
    assert!(w.offer_all(true, [bounded(1), bounded(2)]).await.iter().all(Result::is_ok));
}

/// E13, H12: all queues of a tenant together, and nobody else's.
pub async fn a_tenant_is_counted_over_all_its_queues(w: Fixture) {
    let scope = DepthScope::Tenant("acme".into());
    let of_tenant = |number: u64, queue: &str| {
        let limit = DepthLimit { scope: scope.clone(), most: 2 };
        job(number).queue(queue).with(|new| new.depth_limits = vec![limit])
    };
    w.submit(job(7).queue("acme-too/a")).await;
    w.submit(job(8).queue("acme")).await;
    w.submit(of_tenant(1, "acme/a")).await;
    w.submit(of_tenant(2, "acme/b")).await;
    let refused = w.offer(of_tenant(3, "acme/c")).await;
    assert_eq!(refused, Err(Refusal::QueueFull { scope, depth: 2, limit: 2 }));
}

/// H12: exact across processes.
pub async fn racing_clients_never_exceed_a_depth(w: Fixture) {
    let beside = w.beside().await;
    let calls = (1..=40).map(|number| {
        let store = if number % 2 == 0 { &w.store } else { &beside };
        let draft = job(number).with(in_queue("default", 7));
        store.submit(Submit { jobs: vec![draft.0], atomic: true })
    });
    let answers = at_once(calls.collect()).await;
    let stored = answers.into_iter().filter(|answer| answer.as_ref().expect("submit")[0].is_ok()).count();
    assert_eq!((stored, w.listed(JobFilter::default()).await.len()), (7, 7));
}

/// F14, L23, H12: an end cannot be refused because a queue is full, nor what comes with it.
pub async fn children_and_callbacks_find_a_place(w: Fixture) {
    let claimed = w.running(job(1).callbacks()).await;
    let mut ending = success(&claimed);
    ending.children = vec![bounded(2).0, bounded(3).0, bounded(4).0];
    w.finish(&claimed, ending).await;
    assert!(w.exists(id(4)).await);
    assert_eq!(w.offer(bounded(5)).await, Err(full(3, 2)));
}

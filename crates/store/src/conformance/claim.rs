//! Cases about taking work: which jobs, in which order, how many, and for whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use backstop_core::Fence;
use backstop_core::failure::Cause;
use backstop_core::job::{Aging, Operation, Priority, State};

use super::build::{ends_by, handed_back, id, job, knows, success, worker_id};
use super::fixture::{Fixture, LEASE, claim, numbers, room, secs};
use super::place::at_once;
use crate::{Answer, Claimed, ClaimedJob, Duty, Error, JobFilter, Level, Silent, Submit};

/// L2: a job is taken when its time has come by the store's clock, and not a microsecond before.
pub async fn a_job_is_taken_when_it_is_due(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1).after(secs(10))).await;
    w.pass(secs(10) - Duration::from_micros(1));
    assert!(w.claim(worker, 5).await.is_empty());
    w.pass(Duration::from_micros(1));
    assert_eq!(numbers(&w.claim(worker, 5).await), [1]);
}

/// L3: without aging the level goes first, then the older due time, then the id.
pub async fn without_aging_the_level_goes_first(w: Fixture) {
    let worker = w.worker(1).await;
    let early = w.now().before(secs(60));
    w.offer_all(false, [job(4), job(3), job(2).at(early), job(1).priority(Priority::Low).at(early)]).await;
    w.submit(job(5).priority(Priority::Critical)).await;
    let mut wanted = claim(worker, 10);
    wanted.aging = Aging(Duration::ZERO);
    assert_eq!(numbers(&w.claim_with(wanted).await.jobs), [5, 2, 3, 4, 1]);
}

/// L3: every level goes before the ones below it.
pub async fn all_five_levels_are_in_order(w: Fixture) {
    let worker = w.worker(1).await;
    for (number, priority) in Priority::ALL.into_iter().enumerate() {
        w.submit(job(number as u64).priority(priority)).await;
    }
    assert_eq!(numbers(&w.claim(worker, 10).await), [4, 3, 2, 1, 0]);
}

/// L3: each interval of waiting is worth one level, to the second.
pub async fn waiting_is_worth_levels(w: Fixture) {
    let worker = w.worker(1).await;
    let ago = |seconds| w.now().before(secs(seconds));
    w.submit(job(1).priority(Priority::High)).await;
    w.submit(job(2).priority(Priority::Lowest).at(ago(45 * 60 - 1))).await;
    w.submit(job(3).priority(Priority::Lowest).at(ago(45 * 60 + 1))).await;
    assert_eq!(numbers(&w.claim(worker, 10).await), [3, 1, 2]);
}

/// L3: an old lowest job overtakes a steady stream of fresh high ones, and its priority is never rewritten.
pub async fn an_old_job_is_not_starved(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1).priority(Priority::Lowest)).await;
    let mut rounds = 0;
    loop {
        w.pass(secs(60));
        rounds += 1;
        w.submit(job(100 + rounds).priority(Priority::High)).await;
        w.worker(1).await;
        let taken = w.take(worker).await;
        w.finish(&taken, success(&taken)).await;
        if taken.job.spec.id == id(1) {
            break;
        }
        assert!(rounds < 100, "starved");
    }
    assert_eq!(rounds, 45, "three levels are worth 45 minutes");
    assert_eq!(w.detail(id(1)).await.view.job.spec.priority, Priority::Lowest);
}

/// L2, L3: what becomes due behind the last claim is found, by whomever it was stored, and goes first if it was we.
pub async fn what_is_stored_behind_the_last_claim_is_found(w: Fixture) {
    let (worker, other) = (w.worker(1).await, w.beside().await);
    let then = w.now();
    w.offer_all(false, [job(10), job(20), job(30)]).await;
    w.pass(secs(9));
    assert_eq!(numbers(&w.claim(worker, 2).await), [10, 20]);
    w.offer_all(false, [job(15).at(then), job(16).at(then.before(secs(9)))]).await;
    assert_eq!(numbers(&w.claim(worker, 2).await), [16, 15]);
    let late = [5, 6].map(|number| job(number).at(then).0).to_vec();
    other.submit(Submit { jobs: late, atomic: true }).await.expect("submit");
    assert!(w.store.peek(&claim(worker, 1)).await.expect("peek").has_work());
    // Perhaps not by the first claim, but before one finds nothing.
    let mut rest = Vec::new();
    loop {
        let more = numbers(&w.claim(worker, 9).await);
        if more.is_empty() {
            break;
        }
        rest.extend(more);
    }
    rest.sort_unstable();
    assert_eq!(rest, [5, 6, 30]);
}

/// L3: a retried job goes by its new due time.
pub async fn order_follows_the_current_due_time(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    let taken = w.take(worker).await;
    w.pass(secs(5));
    w.submit(job(2)).await;
    w.pass(secs(5));
    w.finish(&taken, handed_back(&taken)).await;
    assert_eq!(numbers(&w.claim(worker, 10).await), [2, 1]);
}

/// H10: a worker takes the kinds it knows, up to the version it knows.
pub async fn a_worker_takes_what_it_knows(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(
        false,
        [
            job(1).kind("a", 1),
            job(2).kind("a", 2),
            job(3).kind("a", 3),
            job(4).kind("b", 1),
            job(5).kind("A", 1),
        ],
    )
    .await;
    let mut wanted = claim(worker, 10);
    wanted.kinds = knows(&[("a", 2), ("c", 9)]);
    assert_eq!(numbers(&w.claim_with(wanted).await.jobs), [1, 2]);
}

/// H10: a worker that knows nothing takes nothing, unless the queue lets it take any kind.
pub async fn a_queue_may_give_any_kind(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1).kind("strange", 9)).await;
    let mut wanted = claim(worker, 10);
    wanted.kinds = knows(&[]);
    assert!(w.claim_with(wanted.clone()).await.jobs.is_empty());
    wanted.queues[0].any_kind = true;
    assert_eq!(numbers(&w.claim_with(wanted).await.jobs), [1]);
}

/// L1: only pending jobs are taken.
pub async fn paused_and_ended_jobs_are_passed_by(w: Fixture) {
    let claimed = w.running(job(1)).await;
    w.offer_all(false, [job(2), job(3), job(4)]).await;
    w.operate(id(2), Operation::Pause).await.expect("pending");
    w.cancel(id(3)).await;
    assert_eq!(numbers(&w.claim(claimed.lease.worker, 10).await), [4]);
}

/// Ends a job's run five times, so that it has seen fences; the job then waits. Answers the highest fence.
async fn worn(w: &Fixture, number: u64) -> Fence {
    w.submit(job(number).policy(|policy| policy.max_retries = 50)).await;
    let worker = w.worker(1).await;
    let mut highest = Fence::default();
    for _ in 0..5 {
        let taken = w.take(worker).await;
        assert!(taken.lease.fence > highest, "it grows: {} after {highest}", taken.lease.fence);
        highest = taken.lease.fence;
        w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    }
    highest
}

/// What `doctor` says of the counter of fences.
async fn word_on_fences(w: &Fixture) -> Option<Level> {
    let findings = w.store.check().await.expect("check");
    findings.into_iter().find(|finding| finding.subject == "fences").map(|finding| finding.level)
}

/// L4: a paused queue gives nothing until it is resumed.
pub async fn a_paused_queue_gives_nothing(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    assert!(w.store.pause_queue("default", true, None).await.expect("pause"));
    assert!(w.claim(worker, 10).await.is_empty());
    assert!(w.store.pause_queue("default", false, None).await.expect("resume"));
    assert_eq!(numbers(&w.claim(worker, 10).await), [1]);
}

/// L3: a claim takes no more than there is room for, the best first.
pub async fn a_claim_takes_no_more_than_its_limit(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=5).map(job)).await;
    assert!(w.claim(worker, 0).await.is_empty());
    assert_eq!(numbers(&w.claim(worker, 2).await), [1, 2]);
    assert_eq!(numbers(&w.claim(worker, 9).await), [3, 4, 5]);
    assert!(w.claim(worker, 9).await.is_empty());
}

/// L3: queues are served in the order asked for, each with its own room.
pub async fn queues_are_served_in_the_order_asked_for(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, [job(1).queue("a"), job(2).queue("b"), job(3).queue("b"), job(4).queue("c")]).await;
    w.submit(job(5).queue("a").priority(Priority::High)).await;
    let mut wanted = claim(worker, 0);
    wanted.queues = vec![room("b", 1), room("unknown", 5), room("a", 5)];
    assert_eq!(numbers(&w.claim_with(wanted).await.jobs), [2, 5, 1]);
    assert_eq!(w.state(id(4)).await, State::Pending, "nobody asked for its queue");
}

/// L3: a queue is served however many others were asked for before it, and how much room they have.
pub async fn the_last_of_many_queues_is_served(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, [job(1).queue("last"), job(2).queue("last")]).await;
    for (start, number) in [(1, 1), (0, 2)] {
        let mut wanted = claim(worker, 0);
        wanted.queues = (0..50).map(|number| room(&format!("empty-{number}"), 500)).collect();
        wanted.queues.push(room("last", 1));
        wanted.queues.iter_mut().for_each(|queue| queue.start = start * queue.limit);
        assert_eq!(numbers(&w.claim_with(wanted).await.jobs), [number]);
    }
}

/// C2, C5: the first few are started and counted at once; the rest is prefetched and not.
pub async fn prefetched_jobs_are_not_started(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=3).map(job)).await;
    let mut wanted = claim(worker, 3);
    wanted.queues[0].start = 1;
    let taken = w.claim_with(wanted).await.jobs;
    assert_eq!(taken.iter().map(ClaimedJob::is_started).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(taken.iter().map(|one| one.record.runs).collect::<Vec<_>>(), [1, 0, 0]);
    for one in &taken {
        assert_eq!(w.record(one.job.spec.id).await, one.record, "what a claim answers is what is stored");
        assert_eq!(one.record.state, State::Running);
    }
}

/// C2, C5: how many start at once is counted for each queue by itself.
pub async fn each_queue_starts_its_own(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, [job(1).queue("a"), job(2).queue("a"), job(3).queue("b"), job(4).queue("b")]).await;
    let mut wanted = claim(worker, 0);
    wanted.queues = vec![room("a", 2), room("b", 2)];
    wanted.queues.iter_mut().for_each(|queue| queue.start = 1);
    let taken = w.claim_with(wanted).await.jobs;
    assert_eq!(taken.iter().map(ClaimedJob::is_started).collect::<Vec<_>>(), [true, false, true, false]);
}

/// L5: a claim stores who took the job, when, and under which fence.
pub async fn a_claim_stores_worker_time_and_fence(w: Fixture) {
    let taken = w.running(job(1)).await;
    let record = w.record(id(1)).await;
    let hold = record.hold.expect("held");
    assert_eq!((hold.worker, hold.claimed_at, hold.started_at), (worker_id(1), w.now(), Some(w.now())));
    assert_eq!((record.fence, taken.lease.fence, taken.lease.worker), (Fence(1), Fence(1), worker_id(1)));
    assert_eq!(w.detail(id(1)).await.view.started_at, Some(w.now()));
}

/// L5: fences start at 1 and grow by one with every claim that takes something; all jobs of it share one.
pub async fn fences_only_grow(w: Fixture) {
    let worker = w.worker(1).await;
    assert!(w.claim(worker, 5).await.is_empty());
    w.offer_all(false, (1..=4).map(job)).await;
    let first = w.claim(worker, 2).await;
    assert!(w.claim(worker, 0).await.is_empty(), "a claim that takes nothing uses no number up");
    let second = w.claim(worker, 1).await;
    let fences: Vec<_> = first.iter().chain(&second).map(|taken| taken.lease.fence.0).collect();
    assert_eq!(fences, [1, 1, 2]);
    w.finish(&second[0], handed_back(&second[0])).await;
    assert!(w.claim(worker, 5).await.iter().all(|taken| taken.lease.fence == Fence(3)));
}

/// L5: a store that was closed and opened goes on where it was.
pub async fn fences_survive_a_reopened_store(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.submit(job(2)).await;
    let w = w.reopen().await;
    assert_eq!(w.take(taken.lease.worker).await.lease.fence, Fence(2));
    assert_eq!(w.finish(&taken, success(&taken)).await, State::Succeeded, "and leases live on");
}

/// L5: a counter that a restore has lost is raised by the claim that meets it; nothing else stops meanwhile.
pub async fn fences_that_went_back_are_raised(w: Fixture) {
    let seen = worn(&w, 1).await;
    if !w.lose_fences().await {
        return;
    }
    assert_eq!(word_on_fences(&w).await, Some(Level::Good), "nobody has met it yet");
    let taken = w.take(worker_id(1)).await;
    assert!(taken.lease.fence > seen, "{} after {seen}", taken.lease.fence);
    assert_eq!(taken.record.fence, taken.lease.fence);
    assert_eq!(w.listed(JobFilter::default()).await, [id(1)]);
    assert_eq!(w.record(id(1)).await.fence, taken.lease.fence);
    assert_eq!(word_on_fences(&w).await, Some(Level::Warning));
    w.finish(&taken, ends_by(&taken, Cause::Error)).await;
    let next = w.take(worker_id(1)).await;
    assert!(next.lease.fence > taken.lease.fence);
    w.finish(&next, success(&next)).await;
    assert_eq!(w.state(id(1)).await, State::Succeeded);
    worn(&w, 2).await;
}

/// L5: and by whoever opens the store next.
pub async fn fences_that_went_back_are_raised_on_opening(w: Fixture) {
    let seen = worn(&w, 1).await;
    let taken = w.take(worker_id(1)).await;
    w.finish(&taken, success(&taken)).await;
    let highest = taken.lease.fence;
    if !w.lose_fences().await {
        return;
    }
    let w = w.reopen().await;
    assert_eq!(word_on_fences(&w).await, Some(Level::Warning));
    // A job that has seen none: only the counter tells how high they were.
    w.submit(job(2)).await;
    let taken = w.take(worker_id(1)).await;
    assert!(taken.lease.fence > highest && highest > seen, "{} after {highest}", taken.lease.fence);
    w.finish(&taken, success(&taken)).await;
}

/// L4: workers that claim at once never hold the same job.
pub async fn no_job_is_held_twice(w: Fixture) {
    w.offer_all(false, (1..=40).map(job)).await;
    for number in 1..=8 {
        w.worker(number).await;
    }
    let calls = (1..=8).map(|number| w.store.claim(claim(worker_id(number), 7)));
    let mut taken = Vec::new();
    for answer in at_once(calls.collect()).await {
        taken.extend(numbers(&answer.expect("claim").jobs));
    }
    taken.sort_unstable();
    assert_eq!(taken, (1..=40).collect::<Vec<u64>>());
}

/// L15: an unknown worker, and one whose lease has run out, get nothing.
pub async fn only_a_live_worker_claims(w: Fixture) {
    w.submit(job(1)).await;
    let refused = w.store.claim(claim(worker_id(9), 1)).await.expect_err("unknown");
    assert!(matches!(refused, Error::NotEnlisted { worker } if worker == worker_id(9)), "{refused}");
    let worker = w.worker(1).await;
    w.pass(LEASE);
    let refused = w.store.claim(claim(worker, 1)).await.expect_err("run out");
    assert!(matches!(refused, Error::NotEnlisted { .. }), "{refused}");
    assert_eq!(w.state(id(1)).await, State::Pending);
}

/// L19, C7: a due job that must not start any more is passed by and takes no room, whatever becomes of it: the claim
/// writes nothing about it. What expires at this very moment may still start.
pub async fn an_overdue_job_is_passed_by(w: Fixture) {
    let worker = w.worker(1).await;
    for number in 1..=3 {
        w.submit(job(number).callbacks().expires(w.now().after(secs(5)))).await;
    }
    w.submit(job(4).expires(w.now().after(secs(6)))).await;
    w.submit(job(5).priority(Priority::Low)).await;
    w.pass(secs(6));
    let claimed = w.claim_with(claim(worker, 1)).await;
    assert_eq!((numbers(&claimed.jobs), claimed.now), (vec![4], w.now()));
    assert_eq!(numbers(&w.claim_with(claim(worker, 5)).await.jobs), [5], "of another lane");
    assert_eq!(w.claim_with(claim(worker, 5)).await.jobs.len(), 0);
    for number in 1..=3 {
        assert_eq!(w.state(id(number)).await, State::Pending, "left to the duty");
    }
    let term = w.leader(Duty::Expire).await;
    assert_eq!(w.expire(term, 10).await.expect("the term runs"), 3);
}

/// L13, L19: a peek sees no work in what a claim would pass by, so nobody claims it over and over.
pub async fn a_peek_passes_by_what_is_overdue(w: Fixture) {
    let wanted = claim(w.worker(1).await, 1);
    w.submit(job(1).expires(w.now().after(secs(5)))).await;
    assert!(w.store.peek(&wanted).await.expect("peek").has_work());
    w.pass(secs(6));
    assert_eq!(w.store.peek(&wanted).await.expect("peek").next_due, None);
    w.submit(job(2).after(secs(9))).await;
    let peek = w.store.peek(&wanted).await.expect("peek");
    assert_eq!(peek.next_due, Some(w.now().after(secs(9))));
}

/// L13: a peek says when there will be work, and changes nothing.
pub async fn a_peek_says_when_there_is_work(w: Fixture) {
    let wanted = claim(worker_id(1), 1);
    let peek = w.store.peek(&wanted).await.expect("peek");
    assert_eq!((peek.now, peek.next_due, peek.has_work()), (w.now(), None, false));
    w.submit(job(1).after(secs(9))).await;
    w.submit(job(2).after(secs(5))).await;
    let peek = w.store.peek(&wanted).await.expect("peek");
    assert_eq!((peek.next_due, peek.has_work()), (Some(w.now().after(secs(5))), false));
    w.pass(secs(5));
    assert!(w.store.peek(&wanted).await.expect("peek").has_work());
    assert_eq!(w.state(id(2)).await, State::Pending);
}

/// L13: a peek looks only where the claim would: known kinds, open queues, queues with room.
pub async fn a_peek_looks_where_the_claim_would(w: Fixture) {
    w.submit(job(1).kind("other", 1)).await;
    w.submit(job(2).queue("elsewhere")).await;
    w.submit(job(3)).await;
    let mut wanted = claim(worker_id(1), 1);
    assert!(w.store.peek(&wanted).await.expect("peek").has_work());
    w.store.pause_queue("default", true, None).await.expect("pause");
    assert_eq!(w.store.peek(&wanted).await.expect("peek").next_due, None);
    w.store.pause_queue("default", false, None).await.expect("resume");
    wanted.queues[0].limit = 0;
    assert_eq!(w.store.peek(&wanted).await.expect("peek").next_due, None);
    w.cancel(id(3)).await;
    wanted.queues[0].limit = 1;
    assert_eq!(w.store.peek(&wanted).await.expect("peek").next_due, None);
    wanted.queues[0].any_kind = true;
    assert!(w.store.peek(&wanted).await.expect("peek").has_work());
}

/// L13: a worker that leaves a claim with the store gets each job once, whether or not the store takes it up.
pub async fn an_offer_takes_what_a_claim_would_or_nothing(w: Fixture) {
    w.store.observe(Arc::new(Silent));
    let worker = w.worker(1).await;
    let stored = AtomicBool::new(false);
    // Whoever waits is asked again after every step of the others.
    let withdrawn =
        std::future::poll_fn(|_| if stored.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending });
    let submit = w.store.submit(Submit { jobs: vec![job(1).0], atomic: true });
    let submitted: Answer<'_, Option<Claimed>> = Box::pin(async {
        assert!(submit.await?[0].is_ok());
        stored.store(true, Ordering::SeqCst);
        Ok(None)
    });
    let offered = w.store.offer(claim(worker, 5), Box::pin(withdrawn));
    let answers = at_once(vec![submitted, offered]).await;
    let mut taken: Vec<ClaimedJob> = answers
        .into_iter()
        .filter_map(|answer| answer.expect("an answer"))
        .flat_map(|took| took.jobs)
        .collect();
    taken.extend(w.claim(worker, 5).await);
    assert_eq!(numbers(&taken), [1]);
    assert_eq!(w.finish(&taken[0], success(&taken[0])).await, State::Succeeded);
    assert_eq!(w.runs(id(1)).await.len(), 1);
}

//! Jobs with the same ordering key run one at a time, in the order of their submits (L21).

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_core::failure::Cause;
use backstop_core::job::{Operation, Retention, State, WaitReason};
use backstop_core::{JobId, Refusal};

use super::build::{JobDraft, WorkerDraft, ends_by, handed_back, id, job, knows, success};
use super::fixture::{Fixture, claim, numbers, room, secs};
use super::place::at_once;
use crate::{Claim, Duty, LineRange, LineView, PageRequest, Submit};

/// A job without retries, in the line `line`.
fn next(number: u64) -> JobDraft {
    job(number).in_order("line").policy(|policy| policy.max_retries = 0)
}

impl Fixture {
    /// Stores jobs of the line `line`, in this order.
    async fn line_of(&self, numbers: &[u64]) {
        for number in numbers {
            self.submit(next(*number)).await;
        }
    }

    async fn states(&self, numbers: &[u64]) -> Vec<State> {
        let mut states = Vec::new();
        for number in numbers {
            states.push(self.state(id(*number)).await);
        }
        states
    }

    async fn lines(&self, blocked: bool) -> Vec<LineView> {
        let range = LineRange { blocked, limit: 100, ..LineRange::default() };
        self.store.lines(range).await.expect("lines").items
    }

    /// Fails the first job of a line for good.
    async fn dead_head(&self) -> JobId {
        let worker = self.worker(1).await;
        let head = self.take(worker).await;
        self.finish(&head, ends_by(&head, Cause::Error)).await;
        head.job.spec.id
    }
}

/// L21: however many are asked for, one is handed out, and the next when it has succeeded.
pub async fn jobs_of_one_key_run_one_after_the_other(w: Fixture) {
    let worker = w.worker(1).await;
    let answers = w.offer_all(true, [next(1), next(2), next(3)]).await;
    let states: Vec<State> = answers.into_iter().map(|answer| answer.expect("stored").state).collect();
    assert_eq!(states, [State::Waiting; 3], "whose turn it is is found out afterwards");
    assert_eq!(w.states(&[1, 2, 3]).await, [State::Pending, State::Waiting, State::Waiting]);
    for number in 1..=3 {
        let claimed = w.claim(worker, 10).await;
        let ids: Vec<JobId> = claimed.iter().map(|claimed| claimed.job.spec.id).collect();
        assert_eq!(ids, [id(number)]);
        assert!(w.claim(worker, 10).await.is_empty(), "one at a time");
        w.finish(&claimed[0], success(&claimed[0])).await;
    }
    assert_eq!(w.states(&[1, 2, 3]).await, [State::Succeeded; 3]);
    assert!(w.lines(false).await.is_empty(), "nothing is left of a line that has come to its end");
    let queue = w.queue("default").await;
    assert_eq!((queue.pending, queue.waiting, queue.succeeded), (0, 0, 3));
}

/// L21: other keys, and jobs without one, are not held up.
pub async fn lines_do_not_wait_for_each_other(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(true, [next(1), next(2), job(3).in_order("other"), job(4)]).await;
    let claimed: BTreeSet<JobId> =
        w.claim(worker, 10).await.into_iter().map(|claimed| claimed.job.spec.id).collect();
    assert_eq!(claimed, BTreeSet::from([id(1), id(3), id(4)]));
}

/// L21: a key is one line, whatever queues and kinds its jobs are of.
pub async fn a_line_goes_across_queues_and_kinds(w: Fixture) {
    let kinds = [("work", 1), ("mail", 1)];
    let worker = w.enlist(WorkerDraft::new(1).queues(&["default", "other"]).kinds(&kinds)).await;
    let jobs = [
        next(1),
        next(2).queue("other"),
        next(3).kind("mail", 1),
        next(4).queue("other").kind("mail", 1),
        next(5),
    ];
    w.offer_all(true, jobs).await;
    for number in 1..=5 {
        let queues = vec![room("default", 10), room("other", 10)];
        let claimed = w.claim_with(Claim { queues, kinds: knows(&kinds), ..claim(worker, 10) }).await.jobs;
        assert_eq!(numbers(&claimed), [number]);
        w.finish(&claimed[0], success(&claimed[0])).await;
    }
}

/// L21: neither ids nor priorities nor due times change who comes first.
pub async fn the_order_of_submits_counts_and_nothing_else(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(next(9).after(secs(60))).await;
    w.submit(next(5).with(|new| new.spec.priority = backstop_core::job::Priority::Critical)).await;
    w.offer_all(true, [next(7), next(6)]).await;
    assert!(w.claim(worker, 10).await.is_empty(), "the first is not due, and the others wait for it");
    w.pass(secs(60));
    w.worker(1).await;
    for number in [9, 5, 7, 6] {
        let claimed = w.take(worker).await;
        assert_eq!(claimed.job.spec.id, id(number));
        w.finish(&claimed, success(&claimed)).await;
    }
}

/// L21: a retry, a snooze or an interruption does not give the turn away.
pub async fn the_head_keeps_its_turn_until_it_has_ended_well(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(true, [job(1).in_order("line"), next(2)]).await;
    for cause in [Cause::Error, Cause::Interrupted, Cause::Snoozed] {
        let claimed = w.take(worker).await;
        assert_eq!(claimed.job.spec.id, id(1), "{cause}");
        assert_eq!(w.finish(&claimed, ends_by(&claimed, cause)).await, State::Pending, "{cause}");
        assert_eq!(w.state(id(2)).await, State::Waiting, "{cause}");
        w.pass(secs(20));
        w.worker(1).await;
    }
}

/// L21, C1: a head whose worker died is still the head.
pub async fn a_crashed_head_keeps_its_turn(w: Fixture) {
    let worker = w.worker(1).await;
    w.line_of(&[1, 2]).await;
    let claimed = w.take(worker).await;
    w.pass(secs(31));
    assert_eq!(w.rescue(claimed.lease, ends_by(&claimed, Cause::Crash)).await, Ok(State::Pending));
    assert_eq!(w.states(&[1, 2]).await, [State::Pending, State::Waiting]);
}

/// L21: prefetching takes heads alone, and gives them back as such.
pub async fn a_prefetched_head_keeps_its_turn(w: Fixture) {
    let worker = w.worker(1).await;
    w.line_of(&[1, 2]).await;
    let held = w.prefetch(worker).await;
    assert!(w.claim(worker, 10).await.is_empty(), "the second is not due while the first is held");
    w.finish(&held, handed_back(&held)).await;
    assert_eq!(w.take(worker).await.job.spec.id, id(1));
}

/// L21: a dead letter keeps its place, is listed as what blocks the line, and goes on as its head when it is retried.
pub async fn a_failed_head_blocks_its_line_until_it_is_retried(w: Fixture) {
    w.line_of(&[1, 2, 3]).await;
    w.submit(job(4).in_order("other")).await;
    assert!(w.lines(true).await.is_empty(), "nothing blocks yet");
    let head = w.dead_head().await;
    assert_eq!(w.states(&[1, 2, 3]).await, [State::Failed, State::Waiting, State::Waiting]);
    let (queue, kind) = ("default".into(), "work".into());
    let blocked = LineView { key: "line".into(), head, state: State::Failed, queue, kind, waiting: 2 };
    assert!(blocked.is_blocked());
    assert_eq!(w.lines(true).await, [blocked]);
    assert_eq!(w.lines(false).await.len(), 2);
    w.operate(head, Operation::Retry).await.expect("a dead letter");
    assert!(w.lines(true).await.is_empty());
    let worker = w.worker(1).await;
    let claimed: BTreeSet<JobId> =
        w.claim(worker, 10).await.into_iter().map(|claimed| claimed.job.spec.id).collect();
    assert_eq!(claimed, BTreeSet::from([id(1), id(4)]));
}

/// L21: a head that is canceled, in whatever state it is, makes room. A dead letter is paused before.
pub async fn a_head_that_is_given_up_lets_the_next_one_go(w: Fixture) {
    w.line_of(&[1, 2, 3, 4]).await;
    w.cancel(id(1)).await;
    assert_eq!(w.states(&[1, 2]).await, [State::Canceled, State::Pending]);
    let running = w.worker(1).await;
    assert_eq!(w.take(running).await.job.spec.id, id(2));
    w.cancel(id(2)).await;
    assert_eq!(w.states(&[2, 3]).await, [State::Canceled, State::Pending], "while it ran");
    w.dead_head().await;
    w.operate(id(3), Operation::Pause).await.expect("a dead letter");
    w.cancel(id(3)).await;
    assert_eq!(w.states(&[3, 4]).await, [State::Canceled, State::Pending]);
}

/// L8, L21: a person who pauses the head holds the line back.
pub async fn a_paused_head_blocks_its_line(w: Fixture) {
    w.line_of(&[1, 2]).await;
    w.operate(id(1), Operation::Pause).await.expect("pending");
    let blocked = w.lines(true).await;
    assert_eq!(
        blocked.iter().map(|line| (line.head, line.state)).collect::<Vec<_>>(),
        [(id(1), State::Paused)]
    );
    assert_eq!(w.state(id(2)).await, State::Waiting);
    w.operate(id(1), Operation::Resume).await.expect("paused");
    assert_eq!(w.states(&[1, 2]).await, [State::Pending, State::Waiting]);
    assert!(w.lines(true).await.is_empty());
}

/// L7, L21: who leaves the line, in one call or several, is passed by.
pub async fn a_waiting_job_can_leave_its_line(w: Fixture) {
    let worker = w.worker(1).await;
    w.line_of(&[1, 2, 3, 4, 5]).await;
    w.cancel(id(2)).await;
    assert_eq!(w.states(&[1, 2, 3]).await, [State::Pending, State::Canceled, State::Waiting]);
    let reason = "all of them".to_owned();
    w.store.operate(vec![id(4), id(1), id(3)], Operation::Cancel { reason }).await.expect("operate");
    assert_eq!(w.take(worker).await.job.spec.id, id(5));
}

/// L8, L21: a waiting job is paused from its place in the line, and resumed into it.
pub async fn a_waiting_job_can_be_paused(w: Fixture) {
    let worker = w.worker(1).await;
    w.line_of(&[1, 2, 3]).await;
    w.operate(id(2), Operation::Pause).await.expect("it waits");
    assert_eq!(w.state(id(2)).await, State::Paused);
    assert!(w.lines(true).await.is_empty(), "it is not the head");
    w.operate(id(2), Operation::Resume).await.expect("paused");
    assert_eq!(w.state(id(2)).await, State::Waiting);
    for number in [1, 2, 3] {
        let claimed = w.take(worker).await;
        assert_eq!(claimed.job.spec.id, id(number));
        w.finish(&claimed, success(&claimed)).await;
    }
}

/// L8, L21: nobody passes by a paused job whose turn it is.
pub async fn a_paused_job_gets_its_turn_and_keeps_the_line_waiting(w: Fixture) {
    let worker = w.worker(1).await;
    w.line_of(&[1, 2, 3]).await;
    w.operate(id(2), Operation::Pause).await.expect("it waits");
    let claimed = w.take(worker).await;
    w.finish(&claimed, success(&claimed)).await;
    assert_eq!(w.states(&[2, 3]).await, [State::Paused, State::Waiting]);
    assert_eq!(w.lines(true).await.iter().map(|line| line.head).collect::<Vec<_>>(), [id(2)]);
    w.operate(id(2), Operation::Resume).await.expect("paused");
    assert_eq!(w.take(worker).await.job.spec.id, id(2));
}

/// L16, D5, L21: a dead letter that is archived or purged blocks nobody.
pub async fn a_head_that_is_not_there_any_more_lets_the_next_one_go(w: Fixture) {
    w.line_of(&[1, 2, 3]).await;
    let head = w.dead_head().await;
    w.store.purge(vec![head], None).await.expect("purge").remove(0).expect("it has ended");
    assert_eq!(w.states(&[2, 3]).await, [State::Pending, State::Waiting]);
    w.dead_head().await;
    w.pass(secs(10));
    let term = w.leader(Duty::Archive).await;
    let retention = Retention::default().failed(Some(Duration::from_secs(5)));
    assert_eq!(w.store.archive(term, retention, 10).await.expect("archive"), 1);
    assert_eq!(w.state(id(3)).await, State::Pending);
}

/// L19, L21: waiting for others is no reason to be given up; a head that is too late is a dead letter like any other.
pub async fn a_waiting_job_expires_when_its_turn_has_come(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(next(1)).await;
    w.submit(next(2).expires(w.now().after(secs(10)))).await;
    w.pass(secs(11));
    let term = w.leader(Duty::Expire).await;
    assert_eq!(w.expire(term, 10).await.expect("expire"), 0, "its turn has not come");
    let claimed = w.take(worker).await;
    w.finish(&claimed, success(&claimed)).await;
    assert!(w.claim(worker, 10).await.is_empty(), "it must not start any more");
    assert_eq!(w.expire(term, 10).await.expect("expire"), 1);
    assert_eq!(
        w.lines(true).await.iter().map(|line| (line.head, line.state)).collect::<Vec<_>>(),
        [(id(2), State::Failed)]
    );
}

/// F20, L21: who waits is told for whom, and how many are before it.
pub async fn a_job_tells_where_it_stands_in_its_line(w: Fixture) {
    let worker = w.worker(1).await;
    w.line_of(&[1, 2, 3]).await;
    let head = w.take(worker).await.job.spec.id;
    let waiting = w.detail(id(3)).await.waiting_for().expect("it waits");
    assert_eq!((waiting.reason, &*waiting.key), (WaitReason::OrderingKey, "line"));
    assert_eq!((waiting.holder, waiting.position), (Some(head), Some(2)));
    let (_, around) = w.store.surroundings(id(3)).await.expect("surroundings").expect("stored");
    let line = around.line.expect("it waits");
    assert_eq!((line.head, line.before), (Some((head, State::Running)), 2));
    assert_eq!(w.detail(head).await.waiting_for(), None);
    let listed = w.store.list(crate::JobFilter::default(), PageRequest::first(10)).await.expect("list");
    let keys: Vec<_> =
        listed.items.iter().map(|view| view.waiting_for().map(|waiting| waiting.key)).collect();
    assert_eq!(keys, [Some("line".to_owned()), Some("line".to_owned()), None]);
    assert_eq!(listed.items[0].job.spec.ordering_key.as_deref(), Some("line"), "the job keeps its key");
}

/// L21: lines come by key, in pages.
pub async fn lines_are_listed_in_pages(w: Fixture) {
    let keys = ["a", "b", "B", "c d", "é"];
    for (number, key) in (1..).zip(keys) {
        w.submit(job(number).in_order(key)).await;
    }
    let (mut range, mut seen) = (LineRange { limit: 2, ..LineRange::default() }, Vec::new());
    loop {
        let page = w.store.lines(range.clone()).await.expect("lines");
        seen.extend(page.items.iter().map(|line| line.key.to_string()));
        range.after = page.next;
        if range.after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["B", "a", "b", "c d", "é"], "by their bytes");
    let some = LineRange { prefix: "b".to_owned(), limit: 10, ..LineRange::default() };
    let keys: Vec<_> =
        w.store.lines(some).await.expect("lines").items.into_iter().map(|line| line.key).collect();
    assert_eq!(keys, ["b".into()], "those that begin so");
    let refused = w.store.lines(LineRange { limit: 100_000, ..LineRange::default() }).await;
    assert_eq!(refused.expect_err("over the limit").code(), "too_large");
}

/// L21: a line is kept like everything else.
pub async fn lines_survive_a_reopened_store(w: Fixture) {
    let worker = w.worker(1).await;
    w.line_of(&[1, 2, 3]).await;
    let claimed = w.take(worker).await;
    let w = w.reopen().await;
    w.finish(&claimed, success(&claimed)).await;
    assert_eq!(w.take(worker).await.job.spec.id, id(2));
    assert_eq!(w.state(id(3)).await, State::Waiting);
}

/// L21: of clients that come at once one is the first, and each gets its turn once.
pub async fn racing_clients_make_one_line(w: Fixture) {
    let worker = w.worker(1).await;
    let beside = w.beside().await;
    let calls = (1..=32).map(|number| {
        let store = if number % 2 == 0 { &w.store } else { &beside };
        store.submit(Submit { jobs: vec![next(number).0], atomic: true })
    });
    for answer in at_once(calls.collect()).await {
        answer.expect("submit").remove(0).expect("stored");
    }
    let mut ran = BTreeSet::new();
    for _ in 1..=32 {
        // What a client could not give on is found by maintenance.
        w.store.advance_lines(1_000).await.expect("advance");
        let claimed = w.claim(worker, 100).await;
        assert_eq!(claimed.len(), 1, "one at a time, and the line never stands still: {ran:?}");
        ran.insert(claimed[0].job.spec.id);
        w.finish(&claimed[0], success(&claimed[0])).await;
    }
    assert_eq!(ran.len(), 32);
}

/// L14, L21: what a handler submits with its completion waits like everything else.
pub async fn children_join_lines_too(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(next(1)).await;
    let claimed = w.take(worker).await;
    let mut ending = success(&claimed);
    ending.children = vec![next(2).0, next(3).0];
    w.finish(&claimed, ending).await;
    assert_eq!(w.states(&[1, 2, 3]).await, [State::Succeeded, State::Pending, State::Waiting]);
}

/// L12, L21: a batch that is refused has never stood in a line.
pub async fn a_refused_batch_leaves_no_line(w: Fixture) {
    let worker = w.worker(1).await;
    let answers = w.offer_all(true, [next(1), next(2).supersedes(7)]).await;
    assert_eq!(answers[1], Err(Refusal::NoSuchJob { job: id(7) }));
    assert!(w.lines(false).await.is_empty());
    w.submit(next(3)).await;
    assert_eq!(w.take(worker).await.job.spec.id, id(3));
}

//! How many runs there may be at once, and start in a time, over all workers (H5).

use std::sync::Arc;

use backstop_core::failure::Cause;
use backstop_core::job::{Priority, State};
use backstop_core::run_limit::{RunLimit, RunRate};
use backstop_core::{Timestamp, WorkerId};

use super::build::{WorkerDraft, ends_by, handed_back, id, job, knows, success};
use super::fixture::{Fixture, claim, numbers, room, secs};
use super::place::at_once;
use crate::{Amend, Claim, Drawer, Edit, Expect, run_limits};

fn limit(name: &str) -> RunLimit {
    RunLimit::new(name)
}

fn of_queue(queue: &str, concurrency: u64) -> RunLimit {
    RunLimit { concurrency: Some(concurrency), ..RunLimit::of_queue(queue) }
}

fn of_kind(kind: &str, concurrency: u64) -> RunLimit {
    RunLimit { kind: Some(kind.into()), concurrency: Some(concurrency), ..limit(kind) }
}

fn rate(count: u64, seconds: u64) -> RunLimit {
    let rate = RunRate { count, per: secs(seconds) };
    RunLimit { queue: Some("default".into()), rate: Some(rate), ..limit("slow") }
}

/// A claim of up to ten jobs of these queues under limits.
fn within(worker: WorkerId, queues: &[&str], limits: impl IntoIterator<Item = RunLimit>) -> Claim {
    Claim {
        queues: queues.iter().map(|queue| room(queue, 10)).collect(),
        kinds: knows(&[("work", 1), ("mail", 1)]),
        limits: limits.into_iter().collect(),
        ..claim(worker, 10)
    }
}

async fn crew(w: &Fixture, number: u64) -> WorkerId {
    let draft = WorkerDraft::new(number).queues(&["default", "other"]).kinds(&[("work", 1), ("mail", 1)]);
    w.enlist(draft).await
}

/// H5: never more than the limit at once, whoever claims; what ends makes room.
pub async fn no_more_run_at_once_than_the_limit(w: Fixture) {
    let (one, two) = (crew(&w, 1).await, crew(&w, 2).await);
    for number in 1..=5 {
        w.submit(job(number)).await;
    }
    w.submit(job(9).queue("other")).await;
    let asked = |worker| within(worker, &["default", "other"], [of_queue("default", 2)]);
    let taken = w.claim_with(asked(one)).await;
    assert_eq!(numbers(&taken.jobs), [1, 2, 9], "the other queue has no limit");
    assert_eq!(taken.held_until, Some(Timestamp::MAX), "a run has to end first");
    let nothing = w.claim_with(asked(two)).await;
    assert_eq!((numbers(&nothing.jobs), nothing.held_until), (vec![], Some(Timestamp::MAX)));
    assert_eq!(w.record(id(3)).await.deferrals, 0, "nobody is charged for waiting");
    w.finish(&taken.jobs[0], success(&taken.jobs[0])).await;
    assert_eq!(numbers(&w.claim_with(asked(two)).await.jobs), [3]);
}

/// H5: a retry, a job that is handed back, and one that a person cancels make room as an end does.
pub async fn whatever_ends_a_run_makes_room(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=5 {
        w.submit(job(number)).await;
    }
    let asked = || within(worker, &["default"], [of_queue("default", 1)]);
    let first = w.claim_with(asked()).await.jobs.remove(0);
    w.finish(&first, ends_by(&first, Cause::Error)).await;
    let second = w.claim_with(asked()).await.jobs.remove(0);
    w.finish(&second, handed_back(&second)).await;
    let third = w.claim_with(asked()).await.jobs.remove(0);
    assert!(w.claim_with(asked()).await.jobs.is_empty());
    w.finish(&third, success(&third)).await;
    assert_eq!(w.claim_with(asked()).await.jobs.len(), 1);
}

/// H5: a kind is counted over all queues, and what it keeps back does not keep others back: best first.
pub async fn a_limited_kind_lets_others_pass(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=3 {
        w.submit(job(number).kind("mail", 1).priority(Priority::High)).await;
    }
    w.submit(job(4)).await;
    w.submit(job(5).kind("mail", 1).queue("other")).await;
    w.submit(job(6).priority(Priority::Critical)).await;
    let asked = || within(worker, &["default", "other"], [of_kind("mail", 2)]);
    let taken = w.claim_with(asked()).await;
    assert_eq!(numbers(&taken.jobs), [6, 1, 2, 4]);
    w.finish(&taken.jobs[1], success(&taken.jobs[1])).await;
    assert_eq!(numbers(&w.claim_with(asked()).await.jobs), [3]);
}

/// H5: all limits that are about a job hold, the tightest first; one without a queue and a kind is about all.
pub async fn all_limits_hold_together(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=4 {
        w.submit(job(number)).await;
        w.submit(job(10 + number).queue("other").kind("mail", 1)).await;
    }
    let all = RunLimit { concurrency: Some(5), ..limit("all") };
    let limits = [all, of_queue("default", 3), of_kind("mail", 3)];
    let taken = w.claim_with(within(worker, &["default", "other"], limits.clone())).await;
    assert_eq!(numbers(&taken.jobs), [1, 2, 3, 11, 12]);
    assert!(w.claim_with(within(worker, &["default", "other"], limits)).await.jobs.is_empty());
}

/// H5: a bucket of starts that is filled evenly, shared by all, kept over a restart.
pub async fn no_more_start_in_a_time_than_the_rate(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=9 {
        w.submit(job(number)).await;
    }
    let asked = || within(worker, &["default"], [rate(2, 10)]);
    let first = w.claim_with(asked()).await;
    assert_eq!(numbers(&first.jobs), [1, 2]);
    assert_eq!(first.held_until, Some(first.now.after(secs(5))));
    for taken in &first.jobs {
        w.finish(taken, success(taken)).await;
    }
    assert!(w.claim_with(asked()).await.jobs.is_empty(), "what has ended has started all the same");
    w.pass(secs(5));
    let w = w.reopen().await;
    crew(&w, 1).await;
    let asked = || within(worker, &["default"], [rate(2, 10)]);
    assert_eq!(numbers(&w.claim_with(asked()).await.jobs), [3]);
    w.pass(secs(2));
    assert!(w.claim_with(asked()).await.jobs.is_empty());
    w.pass(secs(60));
    crew(&w, 1).await;
    assert_eq!(
        numbers(&w.claim_with(asked()).await.jobs),
        [4, 5],
        "no more than it holds, however long it was idle"
    );
}

/// H5: what a dead worker held counts until its runs are ended, and then no longer.
pub async fn the_room_of_the_dead_comes_back(w: Fixture) {
    let dead = crew(&w, 1).await;
    w.submit(job(1)).await;
    w.submit(job(2)).await;
    let lost = w.claim_with(within(dead, &["default"], [of_queue("default", 1)])).await.jobs.remove(0);
    w.pass(secs(3_600));
    let worker = crew(&w, 2).await;
    let asked = || within(worker, &["default"], [of_queue("default", 1)]);
    assert!(w.claim_with(asked()).await.jobs.is_empty(), "it may still run");
    w.rescue(lost.lease, ends_by(&lost, Cause::Crash)).await.expect("an orphan");
    assert_eq!(w.claim_with(asked()).await.jobs.len(), 1);
}

/// H5: a due job that nobody takes holds nothing, so others of the same limit run: its queue is paused, or has no
/// worker, or its kind no code.
pub async fn a_job_that_nobody_takes_holds_no_room(w: Fixture) {
    let worker = crew(&w, 1).await;
    w.submit(job(1).priority(Priority::Critical)).await;
    w.submit(job(2).queue("unserved").priority(Priority::Critical)).await;
    w.submit(job(3).queue("other").kind("unknown", 1).priority(Priority::Critical)).await;
    w.submit(job(4).queue("other")).await;
    w.store.pause_queue("default", true, None).await.expect("paused");
    let all = RunLimit { concurrency: Some(1), ..limit("all") };
    let taken = w.claim_with(within(worker, &["default", "other"], [all])).await;
    assert_eq!(numbers(&taken.jobs), [4]);
}

/// H5: a limit that is lowered stops nothing that runs, and lets nothing start until enough has ended.
pub async fn a_limit_that_is_lowered_takes_effect_at_the_next_claim(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=5 {
        w.submit(job(number)).await;
    }
    let running = w.claim_with(within(worker, &["default"], [of_queue("default", 3)])).await.jobs;
    let lower = || within(worker, &["default"], [of_queue("default", 1)]);
    for taken in &running {
        assert!(w.claim_with(lower()).await.jobs.is_empty());
        w.finish(taken, success(taken)).await;
    }
    assert_eq!(numbers(&w.claim_with(lower()).await.jobs), [4]);
}

/// H5: exact across processes, claim after claim.
pub async fn racing_claims_never_exceed_a_limit(w: Fixture) {
    let beside = w.beside().await;
    for number in 1..=60 {
        w.submit(job(number)).await;
    }
    let mut workers = Vec::new();
    for number in 1..=8 {
        workers.push(crew(&w, number).await);
    }
    let slow = RunLimit { rate: Some(RunRate { count: 9, per: secs(3_600) }), ..of_queue("default", 4) };
    let mut started = 0;
    for _ in 0..4 {
        let claims = workers.iter().enumerate().map(|(place, worker)| {
            let store = if place % 2 == 0 { &w.store } else { &beside };
            store.claim(within(*worker, &["default"], [slow.clone()]))
        });
        let claimed = at_once(claims.collect()).await;
        let jobs: Vec<_> = claimed.into_iter().flat_map(|claimed| claimed.expect("claimed").jobs).collect();
        assert!(jobs.len() <= 4, "{} run at once", jobs.len());
        started += jobs.len();
        for taken in &jobs {
            w.finish(taken, success(taken)).await;
        }
    }
    assert_eq!(started, 9, "the rate leaves no more, and no less");
}

/// H5: jobs that are claimed ahead count, and of those that start at once no more do than were asked for.
pub async fn what_is_claimed_ahead_counts(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=6 {
        let kind = if number % 2 == 0 { "mail" } else { "work" };
        w.submit(job(number).kind(kind, 1)).await;
    }
    let mut ahead = within(worker, &["default"], [of_kind("mail", 1)]);
    ahead.queues[0].start = 2;
    let taken = w.claim_with(ahead).await.jobs;
    assert_eq!(numbers(&taken), [1, 2, 3, 5]);
    assert_eq!(taken.iter().filter(|one| one.is_started()).count(), 2);
}

/// H5: what is used of limits, as people see it.
pub async fn limits_show_what_is_used_of_them(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=4 {
        w.submit(job(number)).await;
    }
    w.submit(job(5).queue("other").after(secs(60))).await;
    let limits = vec![of_queue("default", 2), rate(3, 30), of_kind("work", 9)];
    w.claim_with(within(worker, &["default"], limits.clone())).await;
    let seen = w.store.run_limits(limits).await.expect("read");
    let counts: Vec<_> = seen.iter().map(|view| (view.used.running, view.pending)).collect();
    assert_eq!(counts, [(2, 2), (2, 2), (2, 3)]);
    let next: Vec<_> = seen.iter().map(|view| (view.is_full(), view.next_start())).collect();
    assert_eq!(next, [(true, None), (false, Some(w.now())), (false, Some(w.now()))]);
    assert_eq!(seen[1].used.bucket.left(seen[1].limit.rate.expect("given"), w.now()), 1);
    assert_eq!(w.state(id(3)).await, State::Pending);
}

/// H5: whoever looks for work sees whether limits have changed.
pub async fn a_look_tells_the_revision_of_limits(w: Fixture) {
    let worker = crew(&w, 1).await;
    let look = async || w.store.peek(&claim(worker, 1)).await.expect("a look").limits;
    assert_eq!(look().await, 0);
    for revision in 1..=2 {
        let body = Some(Arc::from(format!("[{revision}]")));
        let edit = Edit { drawer: Drawer::RunLimits, key: run_limits::KEY.into(), expect: Expect::Any, body };
        w.store.amend(Amend { edits: vec![edit], ..Amend::default() }).await.expect("written");
        assert_eq!(look().await, revision);
    }
}

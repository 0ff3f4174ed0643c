//! Jobs that share something while they run: keys that limits count by, names, permits of pools (H5, H6, H7).

use backstop_core::failure::{Cause, TerminalReason};
use backstop_core::job::{Operation, Priority, State, WaitReason};
use backstop_core::run_limit::{CountBy, RunLimit, RunRate, SharedHold, SharingJob};
use backstop_core::{Timestamp, WorkerId};

use super::build::{WorkerDraft, ends_by, id, job, knows, other_fence, success};
use super::fixture::{Fixture, LEASE, claim, numbers, room, secs};
use super::place::at_once;
use crate::sharing::SharingWork;
use crate::{Claim, Duty};

fn by_key(concurrency: u64) -> RunLimit {
    RunLimit { by: CountBy::Key, concurrency: Some(concurrency), ..RunLimit::new("by key") }
}

fn pool(permits: u32) -> RunLimit {
    RunLimit { permits: Some(permits), ..RunLimit::new("gpu") }
}

/// A claim of so many jobs of these queues.
fn most(
    worker: WorkerId,
    queues: &[&str],
    limit: usize,
    limits: impl IntoIterator<Item = RunLimit>,
) -> Claim {
    Claim {
        queues: queues.iter().map(|queue| room(queue, limit)).collect(),
        kinds: knows(&[("work", 1), ("mail", 1)]),
        limits: limits.into_iter().collect(),
        ..claim(worker, limit)
    }
}

async fn crew(w: &Fixture, number: u64) -> WorkerId {
    let draft = WorkerDraft::new(number).queues(&["default", "other"]).kinds(&[("work", 1), ("mail", 1)]);
    w.enlist(draft).await
}

/// H5: a limit by key counts each key apart, over all queues and kinds that it is about.
pub async fn each_key_has_its_own_room(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=4 {
        w.submit(job(number).by("a")).await;
    }
    w.submit(job(5).by("b")).await;
    w.submit(job(6).by("a").queue("other").kind("mail", 1)).await;
    w.submit(job(7)).await;
    let asked = || most(worker, &["default", "other"], 10, [by_key(2)]);
    let taken = w.claim_with(asked()).await;
    assert_eq!(numbers(&taken.jobs), [7, 1, 5, 2]);
    assert_eq!(taken.held_until, Some(Timestamp::MAX), "a run has to end first");
    assert!(w.claim_with(asked()).await.jobs.is_empty());
    assert_eq!(w.record(id(3)).await.deferrals, 0, "nobody is charged for waiting");
    w.finish(&taken.jobs[1], success(&taken.jobs[1])).await;
    assert_eq!(numbers(&w.claim_with(asked()).await.jobs), [3]);
}

/// H5: each key has a bucket of its own, kept over a restart.
pub async fn each_key_has_its_own_rate(w: Fixture) {
    crew(&w, 1).await;
    for (number, key) in [(1, "a"), (2, "a"), (3, "b"), (4, "a")] {
        w.submit(job(number).by(key)).await;
    }
    let rate = RunRate { count: 1, per: secs(10) };
    let slow = || RunLimit { by: CountBy::Key, rate: Some(rate), ..RunLimit::new("slow") };
    let asked = |worker| most(worker, &["default"], 10, [slow()]);
    let taken = w.claim_with(asked(crew(&w, 1).await)).await;
    assert_eq!(numbers(&taken.jobs), [1, 3]);
    assert_eq!(taken.held_until, Some(taken.now.after(secs(10))));
    for one in &taken.jobs {
        w.finish(one, success(one)).await;
    }
    w.pass(secs(5));
    let w = w.reopen().await;
    assert!(
        w.claim_with(asked(crew(&w, 1).await)).await.jobs.is_empty(),
        "what has ended has started all the same"
    );
    w.pass(secs(5));
    assert_eq!(numbers(&w.claim_with(asked(crew(&w, 1).await)).await.jobs), [2]);
}

/// H6: of all jobs with a name one runs at a time, in whichever queue, and others are not kept back.
pub async fn one_run_of_a_name_at_a_time(w: Fixture) {
    let worker = crew(&w, 1).await;
    w.submit(job(1).single("nightly")).await;
    w.submit(job(2).single("nightly").queue("other")).await;
    w.submit(job(3).single("weekly")).await;
    w.submit(job(4).single("nightly")).await;
    let asked = || most(worker, &["default", "other"], 10, []);
    let taken = w.claim_with(asked()).await;
    let mut ids = numbers(&taken.jobs);
    ids.sort_unstable();
    assert_eq!(ids, [1, 3]);
    let nightly = taken.jobs.iter().find(|one| one.job.spec.id == id(1)).expect("it was taken");
    assert!(w.claim_with(asked()).await.jobs.is_empty());
    w.finish(nightly, success(nightly)).await;
    let next = w.claim_with(asked()).await.jobs;
    assert_eq!(numbers(&next), [4], "one, and not both");
    assert_eq!(w.record(id(2)).await.deferrals, 0);
}

/// H5: runs hold permits until they end; a pool that is not there has none.
pub async fn a_pool_lends_no_more_permits_than_it_has(w: Fixture) {
    let worker = crew(&w, 1).await;
    w.submit(job(1).permits("gpu", 2)).await;
    w.submit(job(2).permits("gpu", 2)).await;
    w.submit(job(3).permits("gpu", 1)).await;
    w.submit(job(4).permits("typo", 1)).await;
    let asked = |permits| most(worker, &["default"], 10, [pool(permits)]);
    let taken = w.claim_with(asked(3)).await;
    let mut ids = numbers(&taken.jobs);
    ids.sort_unstable();
    assert_eq!(ids, [1, 3]);
    let large = taken.jobs.iter().find(|one| one.job.spec.id == id(1)).expect("it was taken");
    w.finish(large, success(large)).await;
    assert_eq!(numbers(&w.claim_with(asked(3)).await.jobs), [2]);
    assert!(w.claim_with(asked(9)).await.jobs.is_empty(), "nobody has made the other pool");
}

/// H5, H6: whatever ends a run gives back what it held.
pub async fn whatever_ends_a_run_gives_back_what_it_held(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=4 {
        w.submit(job(number).by("a").single("one").permits("gpu", 1)).await;
    }
    let asked = || most(worker, &["default"], 10, [by_key(1), pool(1)]);
    let first = w.claim_with(asked()).await.jobs.remove(0);
    w.finish(&first, ends_by(&first, Cause::Error)).await;
    let second = w.claim_with(asked()).await.jobs.remove(0);
    w.cancel(second.job.spec.id).await;
    let third = w.claim_with(asked()).await.jobs.remove(0);
    assert!(w.claim_with(asked()).await.jobs.is_empty());
    w.finish(&third, success(&third)).await;
    assert_eq!(w.claim_with(asked()).await.jobs.len(), 1);
}

/// H5, H6: what a dead worker held counts until its runs are ended, and then no longer.
pub async fn what_the_dead_held_comes_back(w: Fixture) {
    let dead = crew(&w, 1).await;
    w.submit(job(1).single("one")).await;
    let lost = w.claim_with(most(dead, &["default"], 1, [])).await.jobs.remove(0);
    w.submit(job(2).single("one")).await;
    w.pass(secs(3_600));
    let worker = crew(&w, 2).await;
    assert!(w.claim_with(most(worker, &["default"], 9, [])).await.jobs.is_empty(), "it may still run");
    w.rescue(lost.lease, ends_by(&lost, Cause::Crash)).await.expect("an orphan");
    assert_eq!(w.claim_with(most(worker, &["default"], 9, [])).await.jobs.len(), 1);
}

/// H6: nobody but the run that has a name gives it back: no late word of a dead one, no other hold of the same job, and
/// none that only waits for it.
pub async fn nobody_but_its_owner_gives_a_name_back(w: Fixture) {
    let dead = crew(&w, 1).await;
    for number in 1..=4 {
        w.submit(job(number).single("one").policy(|policy| policy.max_crashes = 0)).await;
    }
    let lost = w.claim_with(most(dead, &["default"], 9, [])).await.jobs.remove(0);
    w.pass(LEASE);
    let worker = crew(&w, 2).await;
    assert_eq!(w.rescue(lost.lease, ends_by(&lost, Cause::Crash)).await, Ok(State::Failed));
    let asked = || most(worker, &["default"], 9, []);
    let held = w.claim_with(asked()).await.jobs.remove(0);
    assert_eq!(
        (numbers(std::slice::from_ref(&lost)), numbers(std::slice::from_ref(&held))),
        (vec![1], vec![2])
    );
    crew(&w, 1).await;
    w.try_finish(lost.lease, success(&lost)).await.expect_err("its run has ended");
    w.try_finish(other_fence(held.lease, -1), success(&held)).await.expect_err("another hold");
    w.cancel(id(3)).await;
    let w = w.reopen().await;
    assert!(w.claim_with(asked()).await.jobs.is_empty(), "its owner has it");
    w.finish(&held, success(&held)).await;
    assert_eq!(numbers(&w.claim_with(asked()).await.jobs), [4]);
}

/// H5: one with many waiting jobs does not starve one with few.
pub async fn keys_take_turns_whoever_waits_longer(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=30 {
        w.submit(job(number).by("many")).await;
    }
    for number in 31..=33 {
        w.submit(job(number).by("few")).await;
    }
    let mut taken = Vec::new();
    for _ in 0..6 {
        taken.extend(numbers(&w.claim_with(most(worker, &["default"], 1, [])).await.jobs));
    }
    assert_eq!(taken, [31, 1, 32, 2, 33, 3]);
    let rest = w.claim_with(most(worker, &["default"], 10, [])).await.jobs;
    assert_eq!(rest.len(), 10, "the others have all that is left");
}

/// H5: keys have as many starts in their turn as their weight says.
pub async fn a_weight_gives_a_key_more_starts_in_its_turn(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=6 {
        w.submit(job(number).by("a")).await;
        w.submit(job(10 + number).by("b")).await;
    }
    let weights = [("b".into(), 2)].into();
    let weighted = RunLimit { by: CountBy::Key, weights, ..RunLimit::new("weights") };
    let taken = w.claim_with(most(worker, &["default"], 6, [weighted])).await.jobs;
    assert_eq!(numbers(&taken), [1, 11, 12, 2, 13, 14]);
}

/// H5: all jobs of a queue that share nothing take turns as if they were one more key.
pub async fn jobs_that_share_nothing_take_their_turn(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=9 {
        w.submit(job(number)).await;
        w.submit(job(20 + number).by("a")).await;
    }
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.extend(numbers(&w.claim_with(most(worker, &["default"], 1, [])).await.jobs));
    }
    assert_eq!(taken, [21, 1, 22, 2]);
    assert_eq!(numbers(&w.claim_with(most(worker, &["default"], 4, [])).await.jobs), [3, 4, 23, 24]);
    assert_eq!(w.claim_with(most(worker, &["default"], 40, [])).await.jobs.len(), 10, "all that is left");
}

/// L3, H5: the turn of a key goes to its best job, of whatever kind and priority.
pub async fn a_key_takes_its_best_job_first(w: Fixture) {
    let worker = crew(&w, 1).await;
    w.submit(job(1).by("a")).await;
    w.submit(job(2).by("a").kind("mail", 1).priority(Priority::Critical)).await;
    w.submit(job(3).by("a").priority(Priority::Low)).await;
    w.submit(job(4).by("a").kind("mail", 2).priority(Priority::Critical)).await;
    w.submit(job(5).by("a").after(secs(60)).priority(Priority::Critical)).await;
    let taken = w.claim_with(most(worker, &["default"], 10, [])).await.jobs;
    assert_eq!(numbers(&taken), [2, 1, 3], "not what nobody knows, and not what is not due");
}

/// H5: a due job that nobody takes holds nothing, so others that share with it run: its queue is paused, or has no
/// worker, or its kind no code.
pub async fn a_shared_job_that_nobody_takes_holds_nothing(w: Fixture) {
    let worker = crew(&w, 1).await;
    w.submit(job(1).single("one").priority(Priority::Critical)).await;
    w.submit(job(2).single("one").queue("unserved").priority(Priority::Critical)).await;
    w.submit(job(3).single("one").queue("other").kind("unknown", 1).priority(Priority::Critical)).await;
    w.submit(job(4).single("one").queue("other")).await;
    w.store.pause_queue("default", true, None).await.expect("paused");
    let taken = w.claim_with(most(worker, &["default", "other"], 10, [])).await;
    assert_eq!(numbers(&taken.jobs), [4]);
}

/// H5, H6: exact across processes, claim after claim.
pub async fn racing_claims_never_exceed_what_is_shared(w: Fixture) {
    let beside = w.beside().await;
    for number in 1..=60 {
        let draft = job(number).by(if number % 2 == 0 { "a" } else { "b" }).permits("gpu", 1);
        w.submit(if number % 3 == 0 { draft.single("one") } else { draft }).await;
    }
    let mut workers = Vec::new();
    for number in 1..=8 {
        workers.push(crew(&w, number).await);
    }
    let mut all = 0;
    while all < 60 {
        let claims = workers.iter().enumerate().map(|(place, worker)| {
            let store = if place % 2 == 0 { &w.store } else { &beside };
            store.claim(most(*worker, &["default"], 4, [by_key(3), pool(5)]))
        });
        let claimed = at_once(claims.collect()).await;
        let jobs: Vec<_> = claimed.into_iter().flat_map(|claimed| claimed.expect("claimed").jobs).collect();
        let of = |key: &str| {
            let has =
                |one: &&crate::ClaimedJob| one.job.spec.turn_key().is_some_and(|turn| turn.starts_with(key));
            jobs.iter().filter(has).count()
        };
        let single = |one: &&crate::ClaimedJob| {
            one.job.spec.needs.as_ref().is_some_and(|needs| needs.single_instance.is_some())
        };
        assert!(of("a") <= 3 && of("b") <= 3 && jobs.len() <= 5, "{} run at once", jobs.len());
        assert!(jobs.iter().filter(single).count() <= 1);
        assert!(!jobs.is_empty(), "there is room for some");
        all += jobs.len();
        for taken in &jobs {
            w.finish(taken, success(taken)).await;
        }
    }
}

/// H5, L8: a job that waits for its key is a job as any other to those who operate.
pub async fn what_waits_can_be_paused_and_canceled(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=4 {
        w.submit(job(number).by("a")).await;
    }
    w.operate(id(1), Operation::Pause).await.expect("paused");
    w.cancel(id(2)).await;
    assert_eq!(numbers(&w.claim_with(most(worker, &["default"], 1, [])).await.jobs), [3]);
    w.operate(id(1), Operation::Resume).await.expect("resumed");
    assert_eq!(numbers(&w.claim_with(most(worker, &["default"], 9, [])).await.jobs), [1, 4]);
}

/// H5: after a failure a job waits for its time, and then for its turn.
pub async fn a_retried_job_waits_for_its_time_and_its_room(w: Fixture) {
    let worker = crew(&w, 1).await;
    let slow = |number| {
        job(number).by("a").policy(|policy| {
            policy.backoff = backstop_core::failure::Backoff::fixed(secs(30));
        })
    };
    w.submit(slow(1)).await;
    w.submit(slow(2)).await;
    let asked = || most(worker, &["default"], 9, [by_key(1)]);
    let first = w.claim_with(asked()).await.jobs.remove(0);
    w.finish(&first, ends_by(&first, Cause::Error)).await;
    let second = w.claim_with(asked()).await.jobs.remove(0);
    assert_eq!(second.job.spec.id, id(2));
    w.pass(secs(60));
    let worker = crew(&w, 1).await;
    let asked = || most(worker, &["default"], 9, [by_key(1)]);
    assert!(w.claim_with(asked()).await.jobs.is_empty(), "it is due, and has no room");
    assert_eq!(w.store.peek(&asked()).await.expect("a look").next_due, Some(w.record(id(1)).await.run_at));
}

/// H7: deferred for ever, unless the job says how long.
pub async fn a_deferral_that_lasts_too_long_ends_the_job(w: Fixture) {
    let worker = crew(&w, 1).await;
    w.submit(job(1).by("a")).await;
    w.submit(job(2).by("a").policy(|policy| policy.max_deferral = Some(secs(20)))).await;
    w.submit(job(3).by("a")).await;
    w.claim_with(most(worker, &["default"], 1, [by_key(1)])).await;
    w.pass(secs(21));
    let worker = crew(&w, 1).await;
    assert!(w.claim_with(most(worker, &["default"], 9, [by_key(1)])).await.jobs.is_empty());
    let term = w.leader(Duty::Expire).await;
    assert_eq!(w.expire(term, 10).await.expect("ended"), 1);
    let record = w.record(id(2)).await;
    assert_eq!((record.state, record.reason), (State::Failed, Some(TerminalReason::DeferralExhausted)));
    assert_eq!(w.state(id(3)).await, State::Pending, "deferred for ever by default");
}

/// H5: however many keys have no room, one that has some is found.
pub async fn many_keys_without_room_do_not_hide_one_with_room(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=80 {
        w.submit(job(number).by(&format!("key {:02}", number % 40))).await;
    }
    let running = w.claim_with(most(worker, &["default"], 40, [by_key(1)])).await.jobs;
    assert_eq!(running.len(), 40);
    assert!(w.claim_with(most(worker, &["default"], 40, [by_key(1)])).await.jobs.is_empty());
    w.submit(job(100).by("zz")).await;
    assert_eq!(numbers(&w.claim_with(most(worker, &["default"], 40, [by_key(1)])).await.jobs), [100]);
    w.finish(&running[7], success(&running[7])).await;
    let key = running[7].job.spec.turn_key();
    let next = w.claim_with(most(worker, &["default"], 40, [by_key(1)])).await.jobs;
    assert_eq!(next.iter().map(|one| one.job.spec.turn_key()).collect::<Vec<_>>(), [key]);
}

/// H5, H6, F20: what keeps a job back is told, with who has it and when it goes on.
pub async fn what_keeps_a_job_back_is_told(w: Fixture) {
    let worker = crew(&w, 1).await;
    let rate = RunRate { count: 1, per: secs(10) };
    let slow =
        RunLimit { by: CountBy::Key, rate: Some(rate), queue: Some("other".into()), ..RunLimit::new("slow") };
    let limits = vec![by_key(1), pool(2), slow];
    w.submit(job(1).by("a").single("one").permits("gpu", 2)).await;
    w.submit(job(2).by("b").queue("other")).await;
    let taken = w.claim_with(most(worker, &["default", "other"], 9, limits.clone())).await;
    assert_eq!(numbers(&taken.jobs), [1, 2]);
    w.finish(&taken.jobs[1], success(&taken.jobs[1])).await;
    let asked = [
        job(3).by("a"),
        job(4).single("one"),
        job(5).permits("gpu", 1),
        job(6).by("b").queue("other"),
        job(7).by("c"),
    ];
    let asked = asked.iter().filter_map(|draft| SharingJob::of(&draft.0.spec)).collect();
    let holds = w.store.shared_holds(asked, limits.clone()).await.expect("read");
    let told = |hold: &SharedHold| (hold.reason, hold.name.to_string(), hold.until, hold.holder);
    let told: Vec<_> = holds.iter().map(|hold| hold.as_ref().map(told)).collect();
    let later = Some(taken.now.after(secs(10)));
    assert_eq!(
        told,
        [
            Some((WaitReason::Concurrency, "by key".into(), None, Some(id(1)))),
            Some((WaitReason::SingleInstance, "one".into(), None, Some(id(1)))),
            Some((WaitReason::Permits, "gpu".into(), None, Some(id(1)))),
            Some((WaitReason::Rate, "slow".into(), later, None)),
            None,
        ]
    );
    let seen = w.store.run_limits(limits).await.expect("read");
    let used: Vec<_> =
        seen.iter().map(|view| (view.used.running, view.used.permits, view.is_full())).collect();
    assert_eq!(used, [(1, 0, false), (0, 2, true), (0, 0, false)]);
}

/// H9, H5, H6: how many of them could start, whatever waits behind them; nothing is taken by asking.
pub async fn what_could_start_of_jobs_that_share_is_told(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=9 {
        w.submit(job(number).by(if number < 8 { "a" } else { "b" })).await;
    }
    for number in 10..=12 {
        w.submit(job(number).kind("mail", 1).permits("gpu", 2)).await;
    }
    w.submit(job(13).by("c").after(secs(60))).await;
    w.submit(job(14).by("d").kind("unknown", 1)).await;
    w.submit(job(15)).await;
    w.submit(job(16).queue("other").by("a")).await;
    let limits = vec![by_key(2), pool(5)];
    let told = async |queues: &[&str], most| {
        let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let work = w.store.sharing_work(queues, limits.clone(), most).await.expect("read");
        let row = |work: SharingWork| (work.kind.to_string(), work.pending, work.startable);
        work.into_iter().map(row).collect::<Vec<_>>()
    };
    let row = |kind: &str, pending: u64, startable: u64| (kind.to_owned(), pending, startable);
    assert_eq!(told(&["default"], 100).await, [row("mail", 3, 2), row("work", 10, 4)]);
    assert_eq!(told(&["default"], 6).await, [row("mail", 3, 3), row("work", 10, 10)], "too many to look at");
    assert_eq!(told(&["other", "nothing"], 100).await, [row("work", 1, 1)]);
    let seen = w.queue("default").await;
    assert_eq!((seen.pending, seen.sharing), (14, 13), "what waits for code does not count");
    let taken = w.claim_with(most(worker, &["default"], 3, limits.clone())).await.jobs;
    assert_eq!(taken.len(), 3);
    let left: u64 = told(&["default"], 100).await.iter().map(|(.., startable)| startable).sum();
    let sharing = taken.iter().filter(|one| one.job.spec.needs.is_some()).count();
    assert_eq!(left + u64::try_from(sharing).expect("few"), 6, "what runs has its room");
}

/// H5, C2: a job that shares something is never claimed ahead, where it would hold what others wait for.
pub async fn jobs_that_share_are_not_claimed_ahead(w: Fixture) {
    let worker = crew(&w, 1).await;
    for number in 1..=4 {
        w.submit(job(number)).await;
        w.submit(job(10 + number).by("a")).await;
    }
    let mut ahead = most(worker, &["default"], 6, []);
    ahead.queues[0].start = 3;
    let taken = w.claim_with(ahead).await.jobs;
    assert_eq!(numbers(&taken), [1, 2, 3, 11, 12, 13]);
    let started = taken.iter().filter(|one| one.is_started()).count();
    assert_eq!(started, 3, "all that share, and no more than were asked for");
    assert!(taken[3..].iter().all(crate::ClaimedJob::is_started));
}

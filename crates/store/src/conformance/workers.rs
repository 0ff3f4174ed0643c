//! Cases about workers: who is live, what they lose by silence, and how it is taken back.

use backstop_core::failure::{Cause, TerminalReason};
use backstop_core::job::{Operation, State};

use super::build::{WorkerDraft, ends_by, handed_back, id, job, number, other_fence, success, worker_id};
use super::fixture::{Fixture, LEASE, claim, secs};
use crate::{ClaimedJob, Error, KnownKind};

/// L15: a worker is shown with all it said, and with what it holds.
pub async fn a_worker_is_shown_as_it_is(w: Fixture) {
    let worker = w.enlist(WorkerDraft::new(1).queues(&["b", "a"]).kinds(&[("z", 2), ("y", 1)])).await;
    let view = w.store.workers().await.expect("workers").remove(0);
    assert_eq!((view.id, view.name.as_str(), view.code_version.as_deref()), (worker, "worker-1", Some("v1")));
    assert_eq!(view.queues, ["b", "a"]);
    assert_eq!(
        view.kinds,
        [KnownKind { kind: "z".into(), version: 2 }, KnownKind { kind: "y".into(), version: 1 }]
    );
    assert_eq!((view.started_at, view.expires_at), (w.now(), w.now().after(LEASE)));
    assert_eq!((view.live, view.running), (true, 0));
}

/// L15: workers come by name, the silent ones too; what each holds is counted, prefetched or not.
pub async fn workers_come_by_name(w: Fixture) {
    for (number, name) in [(3, "b"), (2, "a"), (1, "b")] {
        let mut crew = WorkerDraft::new(number);
        name.clone_into(&mut crew.0.name);
        w.enlist(crew).await;
    }
    w.offer_all(false, (1..=3).map(job)).await;
    w.claim(worker_id(2), 1).await;
    w.prefetch(worker_id(2)).await;
    w.take(worker_id(3)).await;
    w.pass(secs(20));
    w.store.renew(worker_id(1), LEASE, Vec::new()).await.expect("live");
    w.pass(secs(10));
    let views = w.store.workers().await.expect("workers");
    let shown: Vec<_> = views.iter().map(|view| (view.id, view.live, view.running)).collect();
    assert_eq!(shown, [(worker_id(2), false, 2), (worker_id(1), true, 0), (worker_id(3), false, 1)]);
}

/// L15: a renewal keeps everything for another lease from now.
pub async fn a_renewal_keeps_what_is_held(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.pass(secs(29));
    let renewed = w.store.renew(worker_id(1), secs(40), vec![taken.lease]).await.expect("live");
    assert_eq!((renewed.expires_at, renewed.lost), (w.now().after(secs(40)), Vec::new()));
    w.pass(secs(39));
    assert!(w.store.orphans(10).await.expect("orphans").is_empty());
    assert_eq!(w.finish(&taken, success(&taken)).await, State::Succeeded);
}

/// L5, L7: a renewal tells what was lost meanwhile, in the order asked.
pub async fn a_renewal_tells_what_was_lost(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=4).map(job)).await;
    let taken = w.claim(worker, 4).await;
    w.cancel(id(4)).await;
    w.finish(&taken[1], success(&taken[1])).await;
    let unknown = backstop_core::Lease { job: id(70), ..taken[0].lease };
    let old = other_fence(taken[2].lease, -1);
    let held = vec![taken[3].lease, taken[2].lease, unknown, taken[1].lease, old, taken[0].lease];
    let renewed = w.store.renew(worker, LEASE, held).await.expect("live");
    assert_eq!(renewed.lost, [taken[3].lease, unknown, taken[1].lease, old]);
}

/// L15: a renewal that comes too late, or from nobody, is refused: then all is lost.
pub async fn a_late_renewal_is_refused(w: Fixture) {
    let worker = w.worker(1).await;
    w.pass(LEASE);
    for who in [worker, worker_id(8)] {
        let refused = w.store.renew(who, LEASE, Vec::new()).await.expect_err("not live");
        assert!(matches!(refused, Error::NotEnlisted { worker } if worker == who), "{refused}");
    }
    assert!(!w.store.workers().await.expect("workers")[0].live, "and changed nothing");
}

/// L15: what a worker holds is an orphan once its lease has run out, and not before.
pub async fn silence_makes_orphans(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.pass(LEASE - std::time::Duration::from_micros(1));
    assert!(w.store.orphans(10).await.expect("orphans").is_empty());
    w.pass(std::time::Duration::from_micros(1));
    let orphan = w.store.orphans(10).await.expect("orphans").remove(0);
    assert_eq!((orphan.lease, orphan.code_version.as_deref()), (taken.lease, Some("v1")));
    assert_eq!((&orphan.job, &orphan.record), (&taken.job, &taken.record));
}

/// E7, F10: runs of workers that serve no queue are told by the moment of their start, as long as the worker lives.
pub async fn runs_that_were_handed_out_are_told(w: Fixture) {
    let local = w.worker(1).await;
    let batch = w.enlist(WorkerDraft::new(2).queues(&[]).kinds(&[])).await;
    w.offer_all(false, (1..=4).map(job)).await;
    w.claim(local, 1).await;
    let first = w.prefetch(batch).await;
    w.pass(secs(1));
    let second = w.take(batch).await;
    let handed = async || {
        let runs = w.store.handed_out().await.expect("handed_out");
        runs.into_iter().map(|run| (run.lease, run.started_at)).collect::<Vec<_>>()
    };
    assert_eq!(handed().await, [(second.lease, w.now())], "what has not started has no time to keep");
    w.pass(secs(1));
    w.start(first.lease).await.expect("held");
    let began = |taken: &ClaimedJob| taken.record.hold.and_then(|hold| hold.started_at).expect("started");
    assert_eq!(handed().await, [(second.lease, began(&second)), (first.lease, w.now())]);
    w.finish(&second, success(&second)).await;
    assert_eq!(handed().await.len(), 1);
    w.pass(LEASE);
    assert!(handed().await.is_empty(), "the rest is an orphan");
}

/// L15: orphans come by the age of their hold, then by id.
pub async fn orphans_come_oldest_first(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(3)).await;
    w.take(worker).await;
    w.pass(secs(1));
    w.offer_all(false, [job(2), job(1)]).await;
    w.claim(worker, 2).await;
    w.pass(LEASE);
    let orphans = w.store.orphans(10).await.expect("orphans");
    assert_eq!(orphans.iter().map(|orphan| number(orphan.job.spec.id)).collect::<Vec<_>>(), [3, 1, 2]);
}

/// L15: the limit of orphans is kept.
pub async fn orphans_come_up_to_a_limit(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, (1..=3).map(job)).await;
    w.claim(worker, 3).await;
    w.store.retire(worker).await.expect("retire");
    assert_eq!(w.store.orphans(2).await.expect("orphans").len(), 2);
    assert_eq!(w.store.orphans(0).await.expect("orphans").len(), 0);
}

/// L15: a worker that retires is forgotten, and what it still holds is an orphan at once.
pub async fn a_retired_worker_leaves_orphans(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.store.retire(worker_id(1)).await.expect("retire");
    w.store.retire(worker_id(1)).await.expect("retiring twice is fine");
    assert!(w.store.workers().await.expect("workers").is_empty());
    w.try_finish(taken.lease, success(&taken)).await.expect_err("it is nobody any more");
    let orphan = w.store.orphans(10).await.expect("orphans").remove(0);
    assert_eq!((orphan.lease, orphan.code_version), (taken.lease, None));
}

/// C1, L15: a started orphan goes back by the crash rules, and its old lease is stale for good.
pub async fn a_started_orphan_is_a_crash(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.pass(LEASE);
    assert_eq!(w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await, Ok(State::Pending));
    let record = w.record(id(1)).await;
    assert_eq!((record.crashes, record.attempt, record.hold), (1, 0, None));
    assert_eq!(w.runs(id(1)).await[0].cause, Cause::Crash);
    assert!(w.store.orphans(10).await.expect("orphans").is_empty());
    w.worker(1).await;
    w.try_finish(taken.lease, success(&taken)).await.expect_err("stale");
}

/// C2, L15: an orphan that was only prefetched goes back with no blame, no row and no event.
pub async fn a_prefetched_orphan_goes_back_without_blame(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1)).await;
    let taken = w.prefetch(worker).await;
    w.pass(LEASE);
    w.told.take();
    assert_eq!(w.rescue(taken.lease, handed_back(&taken)).await, Ok(State::Pending));
    let record = w.record(id(1)).await;
    assert_eq!((record.crashes, record.attempt, record.deferrals, record.runs), (0, 0, 0, 0));
    assert!(w.runs(id(1)).await.is_empty() && w.told.take().is_empty());
}

/// C1, C5: with ten crashes forgiven a job starts eleven times, and is then poisoned.
pub async fn the_eleventh_crash_poisons(w: Fixture) {
    w.submit(job(1)).await;
    for start in 1..=11 {
        let worker = w.worker(start).await;
        let taken = w.take(worker).await;
        w.pass(LEASE);
        let state = w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect("an orphan");
        assert_eq!(state, if start < 11 { State::Pending } else { State::Failed });
    }
    let detail = w.detail(id(1)).await;
    assert_eq!((detail.view.record.runs, detail.view.record.crashes), (11, 11));
    assert_eq!(detail.view.record.reason, Some(TerminalReason::Poisoned));
    assert_eq!(detail.counters[&Cause::Crash], 11);
}

/// C3, C2, C5: a claim starts what never crashed and only holds what did, whatever room there is; a suspect takes no
/// place from those that start, and goes back with no blame until it is started.
pub async fn a_suspect_is_held_and_started_by_itself(w: Fixture) {
    let worker = w.worker(1).await;
    w.offer_all(false, [job(1), job(2)]).await;
    let taken = w.claim(worker, 2).await;
    w.pass(LEASE);
    for one in &taken {
        w.rescue(one.lease, ends_by(one, Cause::Crash)).await.expect("an orphan");
    }
    w.offer_all(false, [job(3), job(4), job(5)]).await;
    w.pass(secs(60));
    let worker = w.worker(2).await;
    w.told.take();
    let mut wanted = claim(worker, 5);
    wanted.queues[0].start = 2;
    let claimed = w.claim_with(wanted).await.jobs;
    let mut started: Vec<_> =
        claimed.iter().map(|one| (number(one.job.spec.id), one.is_started(), one.record.runs)).collect();
    started.sort_unstable();
    assert_eq!(started, [(1, false, 1), (2, false, 1), (3, true, 1), (4, true, 1), (5, false, 0)]);
    assert_eq!(w.told.take().len(), 2, "two starts are told");
    let of = |wanted| claimed.iter().find(|one| number(one.job.spec.id) == wanted).expect("taken").clone();
    let (suspect, other) = (of(1), of(2));
    assert_eq!(w.store.start(vec![suspect.lease]).await.expect("start"), [Ok(())]);
    w.pass(LEASE);
    let orphans = w.store.orphans(10).await.expect("orphans");
    let hold = |id| {
        let orphan = orphans.iter().find(|orphan| orphan.job.spec.id == id).expect("an orphan");
        orphan.record.hold.expect("held").started_at.is_some()
    };
    assert_eq!((hold(id(1)), hold(id(2))), (true, false));
    w.rescue(other.lease, handed_back(&other)).await.expect("an orphan");
    let record = w.record(id(2)).await;
    assert_eq!((record.state, record.crashes, record.runs), (State::Pending, 1, 1));
    // All that is taken starts at once, as far as it may: the way that most claims go.
    let worker = w.worker(3).await;
    let again = w.claim(worker, 5).await;
    assert_eq!(
        again.iter().map(|one| (number(one.job.spec.id), one.is_started())).collect::<Vec<_>>(),
        [(2, false)]
    );
}

/// L15: what a live worker holds cannot be rescued, nor what is no orphan of that very hold.
pub async fn only_orphans_are_rescued(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect_err("its worker is live");
    w.pass(LEASE);
    w.rescue(other_fence(taken.lease, 1), ends_by(&taken, Cause::Crash)).await.expect_err("another hold");
    let unknown = backstop_core::Lease { job: id(9), ..taken.lease };
    w.rescue(unknown, ends_by(&taken, Cause::Crash)).await.expect_err("no such job");
    w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect("an orphan");
    w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect_err("rescued already");
    assert_eq!(w.record(id(1)).await.crashes, 1);
}

/// L7: an orphan can be canceled like any running job, and is no orphan then.
pub async fn a_canceled_orphan_is_not_rescued(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.pass(LEASE);
    w.cancel(id(1)).await;
    assert!(w.store.orphans(10).await.expect("orphans").is_empty());
    w.rescue(taken.lease, ends_by(&taken, Cause::Crash)).await.expect_err("canceled");
    w.operate(id(1), Operation::Retry).await.expect_err("canceled is final");
}

/// L15: a worker that makes itself known again replaces what was known, and holds what it held.
pub async fn enlisting_again_replaces_the_row(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.pass(LEASE);
    let mut crew = WorkerDraft::new(1).queues(&["other"]);
    crew.0.code_version = None;
    w.enlist(crew).await;
    let view = w.store.workers().await.expect("workers").remove(0);
    assert_eq!((view.queues, view.code_version, view.started_at), (vec!["other".to_owned()], None, w.now()));
    assert!(w.store.orphans(10).await.expect("orphans").is_empty());
    assert_eq!(w.finish(&taken, success(&taken)).await, State::Succeeded);
}

/// L15: workers are known to a store that was closed and opened.
pub async fn workers_survive_a_reopened_store(w: Fixture) {
    let taken = w.running(job(1)).await;
    let before = w.store.workers().await.expect("workers");
    let w = w.reopen().await;
    assert_eq!(w.store.workers().await.expect("workers"), before);
    w.store.renew(worker_id(1), LEASE, vec![taken.lease]).await.expect("live");
}

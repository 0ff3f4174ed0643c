//! Cases about jobs that wait because no live worker of their queue knows their kind.

use backstop_core::job::{Priority, State};

use super::build::{WorkerDraft, handed_back, id, job, worker_id};
use super::fixture::{Fixture, LEASE, claim, secs};
use crate::{HeldLane, JobFilter};

async fn in_state(w: &Fixture, state: State) -> Vec<backstop_core::JobId> {
    w.listed(JobFilter { state: Some(state), ..JobFilter::default() }).await
}

/// H10: a job whose kind no live worker of its queue knows is shown as waiting, and counted so.
pub async fn an_unknown_kind_waits(w: Fixture) {
    w.worker(1).await;
    w.offer_all(false, [job(1).kind("unheard", 1), job(2)]).await;
    assert_eq!((w.state(id(1)).await, w.state(id(2)).await), (State::Waiting, State::Pending));
    let detail = w.detail(id(1)).await;
    assert_eq!((detail.view.record.state, detail.view.waits_for_code), (State::Pending, true));
    let queue = w.queue("default").await;
    assert_eq!((queue.pending, queue.waiting), (1, 1));
    assert_eq!(in_state(&w, State::Waiting).await, [id(1)]);
    assert_eq!(in_state(&w, State::Pending).await, [id(2)]);
    let lane = HeldLane { queue: "default".into(), kind: "unheard".into(), version: 1, jobs: 1 };
    assert_eq!(w.store.held_lanes().await.expect("lanes"), [lane]);
}

/// H10: a version above what the workers know waits too; one below does not.
pub async fn a_newer_version_waits(w: Fixture) {
    w.enlist(WorkerDraft::new(1).kinds(&[("work", 2)])).await;
    w.offer_all(false, [job(1).kind("work", 1), job(2).kind("work", 2), job(3).kind("work", 3)]).await;
    assert_eq!(in_state(&w, State::Waiting).await, [id(3)]);
}

/// H10: without any worker on the queue nothing is known to be missing: jobs are pending.
pub async fn an_unserved_queue_holds_nothing(w: Fixture) {
    w.enlist(WorkerDraft::new(1).queues(&["elsewhere"])).await;
    w.submit(job(1)).await;
    assert_eq!(w.state(id(1)).await, State::Pending);
    assert!(w.store.held_lanes().await.expect("lanes").is_empty());
}

/// H10: a worker that knows the kind releases it, on its own queue only.
pub async fn a_worker_with_the_code_releases_it(w: Fixture) {
    w.worker(1).await;
    w.submit(job(1).kind("new", 1)).await;
    w.enlist(WorkerDraft::new(2).queues(&["other"]).kinds(&[("new", 1)])).await;
    assert_eq!(w.state(id(1)).await, State::Waiting, "that worker does not serve this queue");
    w.enlist(WorkerDraft::new(3).kinds(&[("new", 1)])).await;
    assert_eq!(w.state(id(1)).await, State::Pending);
    let mut wanted = claim(worker_id(3), 1);
    wanted.kinds = super::build::knows(&[("new", 1)]);
    assert_eq!(w.claim_with(wanted).await.jobs.len(), 1);
}

/// H10, L15: the last worker that knew the kind dies or leaves, and the lane is held again.
pub async fn the_last_worker_with_the_code_holds_it_again(w: Fixture) {
    w.worker(1).await;
    w.enlist(WorkerDraft::new(2).kinds(&[("new", 1)])).await;
    w.submit(job(1).kind("new", 1)).await;
    assert_eq!(w.state(id(1)).await, State::Pending);
    w.pass(secs(20));
    w.store.renew(worker_id(1), LEASE, Vec::new()).await.expect("live");
    w.pass(secs(10));
    assert_eq!(w.state(id(1)).await, State::Waiting, "by silence");
    w.pass(secs(20));
    assert_eq!(w.state(id(1)).await, State::Pending, "nobody serves the queue any more");
    w.worker(1).await;
    assert_eq!(w.state(id(1)).await, State::Waiting);
    w.store.retire(worker_id(1)).await.expect("retire");
    assert_eq!(w.state(id(1)).await, State::Pending, "by leaving");
}

/// H10: held lanes are summed over priorities and sorted; what is due later waits as well.
pub async fn held_lanes_are_summed(w: Fixture) {
    w.enlist(WorkerDraft::new(1).queues(&["default", "b"])).await;
    w.submit(job(1).kind("x", 2).priority(Priority::High)).await;
    w.submit(job(2).kind("x", 2).priority(Priority::Low)).await;
    w.submit(job(3).kind("x", 1).after(secs(60))).await;
    w.submit(job(4).queue("b").kind("y", 1)).await;
    w.submit(job(5).kind("x", 2)).await;
    w.cancel(id(5)).await;
    let lanes = w.store.held_lanes().await.expect("lanes");
    let shown: Vec<_> =
        lanes.iter().map(|lane| (&*lane.queue, &*lane.kind, lane.version, lane.jobs)).collect();
    assert_eq!(shown, [("b", "y", 1, 1), ("default", "x", 1, 1), ("default", "x", 2, 2)]);
}

/// H10: waiting costs nothing, and people can do to such a job what they can do to a pending one.
pub async fn a_waiting_job_is_a_pending_one_to_people(w: Fixture) {
    use backstop_core::job::Operation;
    w.worker(1).await;
    w.submit(job(1).kind("unheard", 1)).await;
    w.operate(id(1), Operation::Pause).await.expect("pending underneath");
    assert_eq!(w.state(id(1)).await, State::Paused);
    w.operate(id(1), Operation::Resume).await.expect("paused");
    assert_eq!(w.state(id(1)).await, State::Waiting);
    assert!(w.cancel(id(1)).await.changed);
    let record = w.record(id(1)).await;
    assert_eq!((record.attempt, record.deferrals, record.runs), (0, 0, 0));
}

/// H10: a queue that takes any kind takes it out of the held lane, and back it waits again.
pub async fn any_kind_takes_from_a_held_lane(w: Fixture) {
    let worker = w.worker(1).await;
    w.submit(job(1).kind("unheard", 1)).await;
    let mut wanted = claim(worker, 1);
    wanted.queues[0].any_kind = true;
    let taken = w.claim_with(wanted).await.jobs.remove(0);
    assert_eq!(w.state(id(1)).await, State::Running);
    w.finish(&taken, handed_back(&taken)).await;
    assert_eq!(w.state(id(1)).await, State::Waiting);
}

/// H10: the oldest due job of a queue is one that only a free worker is missing for.
pub async fn the_oldest_due_job_is_not_a_waiting_one(w: Fixture) {
    w.worker(1).await;
    let ago = |seconds| w.now().before(secs(seconds));
    w.submit(job(1).kind("unheard", 1).at(ago(90))).await;
    assert_eq!(w.queue("default").await.oldest_due, None);
    w.submit(job(2).at(ago(60))).await;
    w.submit(job(3).at(ago(30))).await;
    w.submit(job(4).after(secs(5))).await;
    assert_eq!(w.queue("default").await.oldest_due, Some(ago(60)));
}

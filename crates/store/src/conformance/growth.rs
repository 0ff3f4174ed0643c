//! Cases about what would grow for ever: queues of many tenants, lanes that nobody uses, incidents that are over.

use std::time::Duration;

use backstop_core::WorkerId;
use backstop_core::failure::{Cause, Failure};
use backstop_core::incident::{IncidentUpdate, IncidentVerb};
use backstop_core::job::State;

use super::build::{WorkerDraft, ending, fingerprint, id, job, success, worker_id};
use super::fixture::{Fixture, claim, room, secs};
use crate::{Claim, Duty, Error, IncidentFilter, JobFilter, QueueRange, Term};

const DAY: Duration = secs(24 * 60 * 60);

/// Names of the queues that a range finds, and the name to go on after.
async fn names(w: &Fixture, range: QueueRange) -> (Vec<String>, Option<String>) {
    let page = w.store.queue_page(range).await.expect("queue_page");
    (page.items.into_iter().map(|queue| queue.name).collect(), page.next)
}

async fn all_names(w: &Fixture) -> Vec<String> {
    w.store.queues().await.expect("queues").into_iter().map(|queue| queue.name).collect()
}

/// A job that has come and gone.
async fn passes_through(w: &Fixture, number: u64, queue: &str) {
    w.submit(job(number).queue(queue)).await;
    w.cancel(id(number)).await;
    w.store.purge(vec![id(number)], None).await.expect("purge").remove(0).expect("it has ended");
}

/// Looks at all lanes, once.
async fn look(w: &Fixture, idle: Duration) -> usize {
    // Counts that lie beside those of lanes are of lanes that somebody uses.
    w.store.fold(1_000).await.expect("fold");
    let term = w.leader(Duty::Prune).await;
    w.store.retire_lanes(term, idle, 100).await.expect("the term runs")
}

/// E13: a range finds the queues whose names begin alike, page by page, as the whole list shows them.
pub async fn queues_are_read_by_name(w: Fixture) {
    let queues = ["acme/b", "acme/a", "acme-2/a", "acme", "other/mail", "acme/\u{e9}t\u{e9}", "plain"];
    for (number, queue) in (1..).zip(queues) {
        w.submit(job(number).queue(queue)).await;
    }
    w.store.pause_queue("acme/c", true, Some("ann")).await.expect("pause");
    w.store.pause_queue("other/c", true, None).await.expect("pause");
    w.enlist(WorkerDraft::new(1).queues(&["acme/d", "other/mail", "acme/a"])).await;
    let acme = QueueRange::of_tenant("acme");
    let own = ["acme/a", "acme/b", "acme/c", "acme/d", "acme/\u{e9}t\u{e9}"];
    assert_eq!(names(&w, acme.clone()).await, (own.map(str::to_owned).to_vec(), None));
    for limit in 1..=6 {
        let (mut range, mut read) = (QueueRange { limit: Some(limit), ..acme.clone() }, Vec::new());
        loop {
            let (page, next) = names(&w, range.clone()).await;
            assert!(page.len() <= limit && (next.is_none() || page.len() == limit), "{page:?} then {next:?}");
            read.extend(page);
            match next {
                Some(next) => range.after = Some(next),
                None => break,
            }
        }
        assert_eq!(read, own, "{limit} at a time");
    }
    let all = w.store.queues().await.expect("queues");
    let found = w.store.queue_page(acme.clone()).await.expect("queue_page").items;
    let expected: Vec<_> = all.iter().filter(|queue| queue.name.starts_with("acme/")).cloned().collect();
    assert_eq!(found, expected, "with the same counts, notes and workers");
    let whole = w.store.queue_page(QueueRange::default()).await.expect("queue_page");
    assert_eq!((whole.items, whole.next), (all, None));
    assert_eq!(names(&w, QueueRange::under("nobody/")).await, (Vec::new(), None));
    let none = QueueRange { limit: Some(0), ..acme };
    assert_eq!(names(&w, none).await.0, Vec::<String>::new());
}

/// E13: what a tenant has is told by its own queues and incidents, and by nobody else's.
pub async fn holdings_are_of_one_tenant(w: Fixture) {
    for (number, queue, kind) in [
        (1, "acme/mail", "send"),
        (2, "acme/mail", "bill"),
        (3, "acme/bulk", "send"),
        (4, "acme-2/mail", "other"),
        (5, "acme", "none"),
        (6, "acme0/x", "none"),
    ] {
        w.submit(job(number).queue(queue).kind(kind, 1)).await;
    }
    w.store.pause_queue("acme/held", true, None).await.expect("pause");
    for (number, queue) in [(7, "acme/mail"), (8, "acme/bulk"), (9, "acme-2/mail"), (10, "default")] {
        w.submit(job(number).queue(queue)).await;
        let worker = w.enlist(WorkerDraft::new(1).queues(&[queue])).await;
        let taken = w.claim_with(from_queue(worker, queue)).await.jobs.remove(0);
        let failed = Failure::new(Cause::Permanent, "Boom", format!("broke {queue}"));
        assert_eq!(w.finish(&taken, ending(&taken, &failed)).await, State::Failed);
    }
    let has = w.store.holdings("acme".to_owned(), 100).await.expect("holdings");
    assert_eq!(has.queues.iter().collect::<Vec<_>>(), ["acme/bulk", "acme/held", "acme/mail"]);
    assert_eq!(has.kinds.iter().collect::<Vec<_>>(), ["bill", "send", "work"]);
    assert_eq!(has.incidents, 2);
    let nobody = w.store.holdings("nobody".to_owned(), 100).await.expect("holdings");
    assert_eq!(nobody, crate::Holdings::default());
    let some = w.store.holdings("acme".to_owned(), 1).await.expect("holdings");
    assert_eq!((some.kinds.len(), some.incidents), (1, 1));
}

/// A claim of one job of the kind `work` on a queue.
fn from_queue(worker: WorkerId, queue: &str) -> Claim {
    Claim { queues: vec![room(queue, 1)], ..claim(worker, 1) }
}

/// L20, E13: a queue whose lanes are empty for long is left out of lists and holdings, not before, and not one with a
/// job in any state, that is paused or that is served.
pub async fn empty_lanes_are_retired(w: Fixture) {
    for (number, queue) in [(1, "acme/gone"), (2, "acme/held"), (3, "acme/served"), (4, "acme/resumed")] {
        passes_through(&w, number, queue).await;
    }
    w.submit(job(5).queue("acme/kept")).await;
    w.cancel(id(5)).await;
    w.store.pause_queue("acme/held", true, None).await.expect("pause");
    for paused in [true, false] {
        w.store.pause_queue("acme/resumed", paused, None).await.expect("pause");
    }
    let all = ["acme/gone", "acme/held", "acme/kept", "acme/resumed", "acme/served"];
    assert_eq!(look(&w, DAY).await, 4, "four lanes are empty, and begin to count");
    w.pass(DAY - secs(1));
    assert_eq!(look(&w, DAY).await, 0);
    assert_eq!(all_names(&w).await, all);
    w.pass(secs(1));
    assert_eq!(look(&w, DAY).await, 4, "to the second");
    assert_eq!(look(&w, DAY).await, 0, "once");
    w.enlist(WorkerDraft::new(1).queues(&["acme/served"])).await;
    let rest = ["acme/held", "acme/kept", "acme/served"];
    assert_eq!(all_names(&w).await, rest);
    assert_eq!(names(&w, QueueRange { limit: Some(9), ..QueueRange::of_tenant("acme") }).await.0, rest);
    let has = w.store.holdings("acme".to_owned(), 100).await.expect("holdings");
    assert_eq!(has.queues.iter().collect::<Vec<_>>(), ["acme/held", "acme/kept", "acme/resumed"]);
    let w = w.reopen().await;
    assert!(!all_names(&w).await.contains(&"acme/gone".to_owned()), "it is stored");
    assert_eq!(look(&w, Duration::MAX).await, 0, "a span longer than the calendar retires nothing");
}

/// L20: the next job brings its lane back, in the commit that stores it; it is claimed like any other, and when it has
/// gone too the lane counts again.
pub async fn a_job_brings_its_lane_back(w: Fixture) {
    passes_through(&w, 1, "acme/mail").await;
    look(&w, DAY).await;
    w.pass(DAY);
    look(&w, DAY).await;
    assert_eq!(all_names(&w).await, Vec::<String>::new());
    // A program that has known the lane all the time, and one that has not.
    w.submit(job(2).queue("acme/mail")).await;
    assert_eq!(w.queue("acme/mail").await.pending, 1);
    let has = w.store.holdings("acme".to_owned(), 100).await.expect("holdings");
    assert_eq!((has.queues.len(), has.kinds.len()), (1, 1));
    let worker = w.enlist(WorkerDraft::new(1).queues(&["acme/mail"])).await;
    let taken = w.claim_with(from_queue(worker, "acme/mail")).await.jobs.remove(0);
    assert_eq!(taken.job.spec.id, id(2));
    assert_eq!(w.finish(&taken, success(&taken)).await, State::Succeeded);
    w.store.retire(worker).await.expect("retire");
    let found = w.listed(JobFilter { tenant: Some("acme".into()), ..JobFilter::default() }).await;
    assert_eq!(found, [id(2)], "lists of jobs never leave a lane out");
    w.store.purge(vec![id(2)], None).await.expect("purge").remove(0).expect("it has ended");
    w.store.fold(1_000).await.expect("fold");
    assert_eq!(all_names(&w).await, ["acme/mail"], "it was used a moment ago");
    look(&w, DAY).await;
    w.pass(DAY);
    look(&w, DAY).await;
    assert_eq!(all_names(&w).await, Vec::<String>::new());
}

/// Dies of `text`; answers what it died of.
async fn dies(w: &Fixture, number: u64, text: &str) {
    let taken = w.running(job(number)).await;
    let failed = Failure::new(Cause::Permanent, "Boom", text);
    assert_eq!(w.finish(&taken, ending(&taken, &failed)).await, State::Failed);
}

async fn retire(w: &Fixture, texts: &[&str], keep: Duration) -> usize {
    let term = w.leader(Duty::Prune).await;
    let prints = texts.iter().map(|text| fingerprint(text)).collect();
    w.store.retire_incidents(term, prints, keep).await.expect("the term runs")
}

async fn known(w: &Fixture, text: &str) -> bool {
    w.store.incidents_of(vec![fingerprint(text)]).await.expect("incidents_of")[0].is_some()
}

/// D2: an incident goes when no dead letter of it is here and neither a failure nor a person's word is younger; the
/// next failure opens a new one.
pub async fn incidents_that_are_over_are_retired(w: Fixture) {
    for (number, text) in [(1, "over"), (2, "open"), (3, "muted"), (4, "young")] {
        dies(&w, number, text).await;
    }
    let closed = async |w: &Fixture| {
        let filter = IncidentFilter { closed: true, ..IncidentFilter::default() };
        w.store.incidents_like(filter, 10).await.expect("incidents_like").len()
    };
    assert_eq!(closed(&w).await, 0);
    w.store.purge(vec![id(1), id(3), id(4)], None).await.expect("purge");
    assert_eq!(closed(&w).await, 3);
    w.pass(DAY);
    let statement = IncidentUpdate { verb: IncidentVerb::Mute, by: "ann".into(), note: None };
    w.store.say(vec![fingerprint("muted")], statement).await.expect("say");
    dies(&w, 5, "young").await;
    w.store.purge(vec![id(5)], None).await.expect("purge");
    let all = ["over", "open", "muted", "young", "never seen"];
    assert_eq!(retire(&w, &all, DAY + secs(1)).await, 0, "nothing is so old");
    assert_eq!(retire(&w, &all, Duration::MAX).await, 0);
    assert_eq!(retire(&w, &all, DAY).await, 1, "to the second");
    assert_eq!((known(&w, "over").await, known(&w, "open").await), (false, true));
    assert!(known(&w, "muted").await && known(&w, "young").await);
    w.pass(DAY);
    assert_eq!(retire(&w, &all, DAY).await, 2, "a mute counts for as long as a failure");
    assert!(known(&w, "open").await, "its dead letter is here");
    assert_eq!(retire(&w, &[], DAY).await, 0);
    w.told.take();
    dies(&w, 6, "over").await;
    let again = w.store.incidents_of(vec![fingerprint("over")]).await.expect("incidents_of").remove(0);
    let again = again.expect("it was counted");
    assert_eq!((again.failures, again.open, again.first_seen), (1, 1, w.now()), "it begins again");
    assert!(w.told.take().iter().any(|event| event.what.name() == "incident_opened"));
    let w = w.reopen().await;
    assert!(!known(&w, "young").await, "what is gone stays gone");
}

/// L17: who does not lead any more, or leads something else, retires nothing.
pub async fn only_the_leader_retires(w: Fixture) {
    passes_through(&w, 1, "acme/mail").await;
    dies(&w, 2, "over").await;
    w.store.purge(vec![id(2)], None).await.expect("purge");
    let past = w.lead(1, Duty::Prune).await.expect("nobody leads");
    w.pass(secs(61));
    let current = w.lead(2, Duty::Prune).await.expect("the first one is late");
    let other = w.lead(1, Duty::Archive).await.expect("nobody leads");
    let foreign = Term { node: worker_id(1), ..current };
    for term in [past, other, foreign] {
        let lanes = w.store.retire_lanes(term, Duration::ZERO, 10).await;
        assert!(matches!(lanes, Err(Error::Deposed { .. })), "{lanes:?}");
        let prints = vec![fingerprint("over")];
        let incidents = w.store.retire_incidents(term, prints, Duration::ZERO).await;
        assert!(matches!(incidents, Err(Error::Deposed { .. })), "{incidents:?}");
    }
    assert!(known(&w, "over").await);
    w.store.fold(1_000).await.expect("fold");
    assert_eq!(w.store.retire_lanes(current, secs(1), 1).await.expect("it leads"), 1, "one at most");
}

//! Cases about what can be asked: lists, pages, counts, and what explains a job.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_core::explain::{ExplainRelated, explain};
use backstop_core::failure::{Cause, TerminalReason};
use backstop_core::incident::{IncidentState, IncidentUpdate, IncidentVerb};
use backstop_core::job::{OnConflict, Operation, State};
use backstop_core::{JobId, Limits, Timestamp, tenant};

use super::build::{WorkerDraft, ending, ends_by, fingerprint, id, job, knows, success, worker_id};
use super::fixture::{Fixture, LEASE, claim, ids, secs};
use crate::{Error, IncidentFilter, JobFilter, PageRequest, QueueView};

/// A store in which jobs have met every fate.
async fn varied(w: &Fixture) {
    let worker =
        w.enlist(WorkerDraft::new(1).queues(&["default", "b"]).kinds(&[("work", 1), ("other", 1)])).await;
    w.offer_all(false, (1..=6).map(job)).await;
    w.pass(secs(1));
    w.offer_all(false, [job(7).queue("b"), job(8).queue("b").kind("other", 1), job(9).kind("unheard", 1)])
        .await;
    w.pass(secs(1));
    w.submit(job(10).key("k", OnConflict::Reject).with(|new| new.spec.tags = vec!["t".into(), "u".into()]))
        .await;
    let taken = w.claim(worker, 4).await;
    w.finish(&taken[0], success(&taken[0])).await;
    w.finish(&taken[1], ends_by(&taken[1], Cause::Invalid)).await;
    w.finish(&taken[2], ends_by(&taken[2], Cause::Error)).await;
    w.operate(id(5), Operation::Pause).await.expect("pending");
    w.cancel(id(6)).await;
}

/// F20: each condition of a filter, and several together.
pub async fn every_filter_filters(w: Fixture) {
    let start = w.now();
    varied(&w).await;
    let all = JobFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let table = [
        (all(), ids(&[10, 9, 8, 7, 6, 5, 4, 3, 2, 1])),
        (JobFilter { queue: text("b"), ..all() }, ids(&[8, 7])),
        (JobFilter { kind: text("other"), ..all() }, ids(&[8])),
        (JobFilter { tag: text("u"), ..all() }, ids(&[10])),
        (JobFilter { tag: text("T"), ..all() }, vec![]),
        (JobFilter { business_key: text("k"), ..all() }, ids(&[10])),
        (JobFilter { reason: Some(TerminalReason::Invalid), ..all() }, ids(&[2])),
        (JobFilter { fingerprint: text(fingerprint("it ended by error").as_ref()), ..all() }, ids(&[3])),
        (JobFilter { created_after: Some(start.after(secs(1))), ..all() }, ids(&[10, 9, 8, 7])),
        (JobFilter { created_before: Some(start.after(secs(1))), ..all() }, ids(&[6, 5, 4, 3, 2, 1])),
        (JobFilter { queue: text("b"), kind: text("work"), ..all() }, ids(&[7])),
        (JobFilter { queue: text("nowhere"), ..all() }, vec![]),
        (JobFilter { state: Some(State::Pending), ..all() }, ids(&[10, 8, 7, 3])),
        (JobFilter { state: Some(State::Waiting), ..all() }, ids(&[9])),
        (JobFilter { state: Some(State::Running), ..all() }, ids(&[4])),
        (JobFilter { state: Some(State::Paused), ..all() }, ids(&[5])),
        (JobFilter { state: Some(State::Canceled), ..all() }, ids(&[6])),
        (JobFilter { state: Some(State::Failed), ..all() }, ids(&[2])),
        (JobFilter { state: Some(State::Succeeded), queue: text("default"), ..all() }, ids(&[1])),
    ];
    for (filter, expected) in table {
        assert_eq!(w.listed(filter.clone()).await, expected, "{filter:?}");
    }
}

/// E13: a tenant's jobs are those on its queues, in lists, pages and surveys; `default` is everybody else's.
pub async fn a_tenant_sees_only_its_own(w: Fixture) {
    let queues = ["acme/mail", "mail", "acme/print", "acmes/mail", "Acme/mail", "default/mail", "acme/mail"];
    let jobs = queues.iter().zip(1..);
    w.offer_all(false, jobs.map(|(queue, number)| job(number).queue(queue))).await;
    let of = |tenant: &str| JobFilter { tenant: Some(tenant.into()), ..JobFilter::default() };
    let table = [
        (of("acme"), ids(&[7, 3, 1])),
        (of("acmes"), ids(&[4])),
        (of("default"), ids(&[6, 5, 2])),
        (of("nobody"), vec![]),
        (JobFilter { queue: Some("acme/mail".into()), ..of("acme") }, ids(&[7, 1])),
        (JobFilter { queue: Some("mail".into()), ..of("acme") }, vec![]),
        (JobFilter { queue: Some("acme/mail".into()), ..of("acmes") }, vec![]),
        (JobFilter { state: Some(State::Pending), ..of("acme") }, ids(&[7, 3, 1])),
        (JobFilter { state: Some(State::Failed), ..of("acme") }, vec![]),
    ];
    for (filter, expected) in table {
        assert_eq!(w.listed(filter.clone()).await, expected, "{filter:?}");
        let survey = w.store.survey(filter.clone(), 100).await.expect("survey");
        assert_eq!(survey.jobs(), expected.len() as u64, "{filter:?}");
        let shown = filter.tenant.as_deref().unwrap_or_default();
        assert!(survey.groups.iter().all(|group| tenant::shown(&group.queue) == shown), "{filter:?}");
    }
    let page = |after| w.store.list(of("acme"), PageRequest { limit: 2, after });
    assert_eq!(page(None).await.expect("list").next, Some(id(3)));
    assert_eq!(page(Some(id(3))).await.expect("list").next, None);
}

/// F20: pages follow each other without gap or repetition, also while jobs are added.
pub async fn pages_have_no_gaps(w: Fixture) {
    w.offer_all(false, (1..=7).map(job)).await;
    let mut seen = Vec::new();
    let mut request = PageRequest::<JobId>::first(3);
    loop {
        let page = w.store.list(JobFilter::default(), request).await.expect("list");
        seen.extend(page.items.iter().map(|view| view.job.spec.id));
        w.submit(job(100 + seen.len() as u64)).await;
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, ids(&[7, 6, 5, 4, 3, 2, 1]));
}

/// F20: the last page has no next one, even when it is full; a page of no rows is empty.
pub async fn the_last_page_has_no_next(w: Fixture) {
    w.offer_all(false, (1..=4).map(job)).await;
    let page = |limit, after| w.store.list(JobFilter::default(), PageRequest { limit, after });
    assert_eq!(page(4, None).await.expect("list").next, None);
    assert_eq!(page(3, None).await.expect("list").next, Some(id(2)));
    assert_eq!(page(3, Some(id(2))).await.expect("list").next, None);
    let empty = page(0, None).await.expect("list");
    assert_eq!((empty.items.len(), empty.next), (0, None));
}

/// F20: filters and pages work together.
pub async fn a_filtered_list_is_paged_too(w: Fixture) {
    w.offer_all(false, (1..=6).map(|number| job(number).queue(if number % 2 == 0 { "even" } else { "odd" })))
        .await;
    let filter = JobFilter { queue: Some("even".into()), ..JobFilter::default() };
    let first = w.store.list(filter.clone(), PageRequest::first(2)).await.expect("list");
    assert_eq!(first.next, Some(id(4)));
    let second = w.store.list(filter, PageRequest { limit: 2, after: first.next }).await.expect("list");
    assert_eq!((second.items.len(), second.items[0].job.spec.id, second.next), (1, id(2), None));
}

/// F20: a page over the limit is refused with the limit in the message.
pub async fn a_page_over_the_limit_is_refused(w: Fixture) {
    let limit = Limits::default().page;
    let over = |refused: Error| assert!(matches!(refused, Error::TooMany { .. }), "{refused}");
    over(w.store.list(JobFilter::default(), PageRequest::first(limit + 1)).await.expect_err("too many"));
    over(w.store.attempts(id(1), PageRequest::first(limit + 1)).await.expect_err("too many"));
    over(w.store.incidents(limit + 1).await.expect_err("too many"));
    w.store.list(JobFilter::default(), PageRequest::first(limit)).await.expect("as many as allowed");
}

/// L9, F2: the ledger comes latest first, in pages by the number of the run.
pub async fn a_ledger_is_paged(w: Fixture) {
    let mut taken = w.running(job(1).policy(|policy| policy.max_retries = 9)).await;
    for _ in 0..4 {
        w.finish(&taken, ends_by(&taken, Cause::Error)).await;
        taken = w.take(taken.lease.worker).await;
    }
    let first = w.store.attempts(id(1), PageRequest::first(3)).await.expect("attempts");
    assert_eq!(first.items.iter().map(|run| run.number).collect::<Vec<_>>(), [4, 3, 2]);
    let rest = PageRequest { limit: 3, after: first.next };
    let second = w.store.attempts(id(1), rest).await.expect("attempts");
    assert_eq!(second.items.iter().map(|run| run.number).collect::<Vec<_>>(), [1]);
    assert_eq!(second.next, None);
    let unknown = w.store.attempts(id(9), PageRequest::first(3)).await.expect("attempts");
    assert_eq!((unknown.items.len(), unknown.next), (0, None));
}

/// F20: jobs are looked up in the order asked; an unknown id answers none.
pub async fn jobs_are_looked_up_in_order(w: Fixture) {
    w.offer_all(false, [job(1), job(2)]).await;
    let found = w.store.jobs(vec![id(2), id(9), id(1), id(2)]).await.expect("jobs");
    let found: Vec<_> = found.into_iter().map(|job| job.map(|job| job.view.job.spec.id)).collect();
    assert_eq!(found, [Some(id(2)), None, Some(id(1)), Some(id(2))]);
    assert!(w.store.jobs(Vec::new()).await.expect("jobs").is_empty());
}

/// L1: the counts of every queue are what counting the listed jobs gives.
pub async fn queue_counts_match_a_recount(w: Fixture) {
    varied(&w).await;
    w.pass(LEASE);
    recount(&w).await;
    w.worker(2).await;
    recount(&w).await;
    let queue = w.queue("default").await;
    let counts = (queue.running, queue.paused_jobs, queue.succeeded, queue.failed, queue.canceled);
    assert_eq!(counts, (1, 1, 1, 1, 1));
}

async fn recount(w: &Fixture) {
    let page = w.store.list(JobFilter::default(), PageRequest::first(1_000)).await.expect("list");
    let mut counted: BTreeMap<(String, State), u64> = BTreeMap::new();
    for view in &page.items {
        *counted.entry((view.job.spec.queue.to_string(), view.state())).or_default() += 1;
    }
    for queue in w.store.queues().await.expect("queues") {
        for (state, kept) in kept_counts(&queue) {
            let found = counted.remove(&(queue.name.clone(), state)).unwrap_or(0);
            assert_eq!(kept, found, "{} {state}", queue.name);
        }
    }
    assert!(counted.is_empty(), "every job is on a queue that is shown");
}

fn kept_counts(queue: &QueueView) -> [(State, u64); 7] {
    [
        (State::Pending, queue.pending),
        (State::Waiting, queue.waiting),
        (State::Running, queue.running),
        (State::Paused, queue.paused_jobs),
        (State::Succeeded, queue.succeeded),
        (State::Failed, queue.failed),
        (State::Canceled, queue.canceled),
    ]
}

/// L1: a queue is shown when it has ever had a job, was ever paused, or is served; by name.
pub async fn queues_are_shown_by_name(w: Fixture) {
    assert!(w.store.queues().await.expect("queues").is_empty());
    w.submit(job(1).queue("m")).await;
    w.cancel(id(1)).await;
    w.store.pause_queue("z", true, None).await.expect("pause");
    w.store.pause_queue("z", false, None).await.expect("resume");
    w.enlist(WorkerDraft::new(1).queues(&["a", "m"])).await;
    let shown = |queues: Vec<QueueView>| -> Vec<(String, u64)> {
        queues.into_iter().map(|queue| (queue.name, queue.workers)).collect()
    };
    let named = |name: &str, workers| (name.to_owned(), workers);
    let queues = shown(w.store.queues().await.expect("queues"));
    assert_eq!(queues, [named("a", 1), named("m", 1), named("z", 0)]);
    w.pass(LEASE);
    let queues = shown(w.store.queues().await.expect("queues"));
    assert_eq!(queues, [named("m", 0), named("z", 0)], "nobody serves `a` any more");
}

/// L2: the oldest due job is the one that became due first and can still be taken.
pub async fn the_oldest_due_job_is_shown(w: Fixture) {
    w.submit(job(1).after(secs(5))).await;
    let due = w.now().after(secs(5));
    assert_eq!(w.queue("default").await.oldest_due, None);
    w.pass(secs(5));
    assert_eq!(w.queue("default").await.oldest_due, Some(due));
    w.pass(secs(1));
    w.submit(job(2)).await;
    assert_eq!(w.queue("default").await.oldest_due, Some(due));
    w.cancel(id(1)).await;
    assert_eq!(w.queue("default").await.oldest_due, Some(w.now()));
}

/// F12: incidents come latest seen first, then by fingerprint, up to the limit.
pub async fn incidents_come_latest_first(w: Fixture) {
    let worker = w.worker(1).await;
    let mut messages = ["a", "b", "c"];
    messages.sort_by_key(|message| fingerprint(message));
    let [first, second, last] = messages;
    for (number, message) in [(1, last), (2, second), (3, first), (4, last)] {
        w.pass(Duration::from_secs(if number == 3 { 0 } else { 1 }));
        w.submit(job(number)).await;
        let taken = w.take(worker).await;
        let failed = backstop_core::failure::Failure::new(Cause::Permanent, "Boom", message);
        w.finish(&taken, ending(&taken, &failed)).await;
    }
    let expected = [last, first, second].map(fingerprint);
    for limit in [0, 2, 3, 10] {
        let found = w.store.incidents(limit).await.expect("incidents");
        let shown: Vec<_> = found.into_iter().map(|incident| incident.fingerprint).collect();
        assert_eq!(shown, expected[..limit.min(3)]);
    }
}

/// D2: a filter is part of the question: what it finds is found however many others come first.
pub async fn incidents_are_found_behind_others(w: Fixture) {
    let worker = w.worker(1).await;
    let mut muted = Vec::new();
    for number in 1..=9 {
        w.pass(Duration::from_secs(1));
        w.submit(job(number)).await;
        let taken = w.take(worker).await;
        let message = format!("failure {}", ["a", "b", "c", "d", "e", "f", "g", "h", "i"][muted.len()]);
        let failed = backstop_core::failure::Failure::new(Cause::Permanent, "Boom", &*message);
        w.finish(&taken, ending(&taken, &failed)).await;
        muted.push(fingerprint(&message));
    }
    let open = muted.drain(..2).collect::<Vec<_>>();
    let statement = IncidentUpdate { verb: IncidentVerb::Mute, by: "ann".into(), note: None };
    w.store.say(muted.clone(), statement).await.expect("say");
    for number in 3..=9 {
        w.operate(id(number), Operation::Retry).await.expect("a dead letter");
    }
    let found = async |filter: IncidentFilter, limit| {
        let found = w.store.incidents_like(filter, limit).await.expect("incidents");
        found.into_iter().map(|incident| incident.fingerprint).collect::<Vec<_>>()
    };
    let (latest, any) = ([open[1].clone(), open[0].clone()], IncidentFilter::default());
    for limit in [1, 2, 5] {
        let wanted = IncidentFilter { open: true, ..any.clone() };
        assert_eq!(found(wanted, limit).await, latest[..limit.min(2)]);
        let wanted = IncidentFilter { state: Some(IncidentState::New), ..any.clone() };
        assert_eq!(found(wanted, limit).await, latest[..limit.min(2)]);
    }
    let silent = IncidentFilter { state: Some(IncidentState::Muted), ..any.clone() };
    assert_eq!(found(silent.clone(), 9).await.len(), 7);
    assert!(found(IncidentFilter { open: true, ..silent }, 9).await.is_empty());
    assert!(found(IncidentFilter { tenant: Some("acme".into()), ..any.clone() }, 9).await.is_empty());
    w.submit(job(20).queue("acme/default")).await;
    let far = w.enlist(WorkerDraft::new(2).queues(&["acme/default"])).await;
    let mut wanted = claim(far, 1);
    wanted.queues[0].queue = "acme/default".into();
    let taken = w.claim_with(wanted).await.jobs.remove(0);
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    assert_eq!(found(IncidentFilter { tenant: Some("acme".into()), ..any.clone() }, 9).await.len(), 1);
    assert!(found(IncidentFilter { tenant: Some("acm".into()), ..any }, 9).await.is_empty());
}

/// F20: a waiting job is explained by its queue, its workers and its code.
pub async fn a_waiting_job_is_explained(w: Fixture) {
    w.submit(job(1).kind("unheard", 1)).await;
    let because = |w: &Fixture| {
        let store = w.store.clone();
        async move {
            let (view, around) = store.surroundings(id(1)).await.expect("surroundings").expect("stored");
            explain(&view, &around, &ExplainRelated::default()).because
        }
    };
    assert!(because(&w).await.contains("no live worker serves its queue"));
    w.worker(1).await;
    assert!(because(&w).await.contains("waits for code"));
    w.store.pause_queue("default", true, None).await.expect("pause");
    assert!(because(&w).await.contains("is paused"));
    let (view, around) = w.store.surroundings(id(1)).await.expect("surroundings").expect("stored");
    assert_eq!(view, w.detail(id(1)).await.view);
    assert_eq!((around.now, around.queue_paused), (w.now(), true));
    assert_eq!((around.workers_on_queue, around.workers_for_kind), (1, 0));
    assert_eq!(w.store.surroundings(id(2)).await.expect("surroundings"), None);
}

/// F20: a running job is explained by who holds it, also when that worker is silent or forgotten.
pub async fn a_running_job_is_explained(w: Fixture) {
    w.running(job(1)).await;
    let expires_at = w.now().after(LEASE);
    let holder = |w: &Fixture| {
        let store = w.store.clone();
        async move {
            let (_, around) = store.surroundings(id(1)).await.expect("surroundings").expect("stored");
            let holder = around.holder.expect("held");
            (holder.worker, holder.name, holder.until)
        }
    };
    assert_eq!(holder(&w).await, (worker_id(1), "worker-1".to_owned(), expires_at));
    w.pass(LEASE);
    assert_eq!(holder(&w).await, (worker_id(1), "worker-1".to_owned(), expires_at));
    w.store.retire(worker_id(1)).await.expect("retire");
    assert_eq!(holder(&w).await, (worker_id(1), "unknown".to_owned(), Timestamp::MIN));
}

/// F20: the decision of the latest run is there with every check it made, across retries and re-drives.
pub async fn the_last_decision_is_explained(w: Fixture) {
    let taken = w.running(job(1)).await;
    let last = |w: &Fixture| {
        let store = w.store.clone();
        async move { store.surroundings(id(1)).await.expect("surroundings").expect("stored").1.last_decision }
    };
    assert_eq!(last(&w).await, None);
    let ends = ends_by(&taken, Cause::Permanent);
    let decision = ends.decision.clone();
    w.finish(&taken, ends).await;
    assert_eq!(last(&w).await, Some(decision.clone()));
    w.operate(id(1), Operation::Retry).await.expect("failed");
    let taken = w.take(taken.lease.worker).await;
    assert_eq!(last(&w).await, Some(decision), "until the next run has ended");
    w.finish(&taken, success(&taken)).await;
    assert_eq!(last(&w).await, None, "a plain success decides nothing");
}

/// F20: live workers of the queue and of the kind are counted apart, and the dead are not.
pub async fn surroundings_count_live_workers(w: Fixture) {
    w.submit(job(1)).await;
    w.worker(1).await;
    w.pass(secs(20));
    w.enlist(WorkerDraft::new(2).kinds(&[("work", 5)])).await;
    w.enlist(WorkerDraft::new(3).kinds(&[("other", 1)])).await;
    w.enlist(WorkerDraft::new(4).queues(&["elsewhere"])).await;
    let crew =
        |around: backstop_core::explain::ExplainContext| (around.workers_on_queue, around.workers_for_kind);
    let around = w.store.surroundings(id(1)).await.expect("surroundings").expect("stored").1;
    assert_eq!(crew(around), (3, 2));
    w.pass(secs(10));
    let around = w.store.surroundings(id(1)).await.expect("surroundings").expect("stored").1;
    assert_eq!(crew(around), (2, 1));
}

/// L1: reading changes nothing.
pub async fn reading_changes_nothing(w: Fixture) {
    varied(&w).await;
    w.told.take();
    let before = w.store.list(JobFilter::default(), PageRequest::first(100)).await.expect("list");
    let mut wanted = claim(worker_id(1), 9);
    wanted.kinds = knows(&[("work", 1)]);
    w.store.peek(&wanted).await.expect("peek");
    w.store.orphans(10).await.expect("orphans");
    w.store.queues().await.expect("queues");
    w.store.workers().await.expect("workers");
    w.store.check().await.expect("check");
    assert_eq!(w.store.now().await.expect("now"), w.now());
    assert!(!w.store.info().backend.is_empty());
    let after = w.store.list(JobFilter::default(), PageRequest::first(100)).await.expect("list");
    assert_eq!((after, w.told.take()), (before, vec![]));
}

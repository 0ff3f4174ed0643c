//! Cases about storing jobs: what is kept, what a batch is, and what a repeated submit answers.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Backoff, Jitter};
use backstop_core::job::{NewJob, OnConflict, Priority, Signature, State};
use backstop_core::{Limits, Refusal};

use super::build::{WorkerDraft, id, job, success};
use super::fixture::{Fixture, secs};
use crate::{Error, JobFilter, PageRequest, Submit};

/// L1: a new job is pending, and every field that was submitted comes back.
pub async fn every_field_of_a_job_reads_back(w: Fixture) {
    let moment = w.now().after(secs(3_600));
    let draft = job(1).kind("mail", 3).queue("post").priority(Priority::High).callbacks().with(|new| {
        let spec = &mut new.spec;
        spec.expires_at = Some(moment);
        spec.idempotency_key = Some("once".into());
        spec.business_key = Some("order 7".into());
        spec.ordering_key = Some("account 7".into());
        spec.dependency = Some("partner".into());
        spec.correlation_id = Some("request 9".into());
        spec.tags = vec!["red".into(), "blue".into()];
        spec.params = Some("{\"a\":[1,2]}".into());
        spec.callback_of = Some(id(77));
        spec.policy.max_retries = 7;
        spec.policy.max_crashes = 3;
        spec.policy.timeout = Some(secs(5));
        spec.policy.max_wait = Some(Duration::from_millis(86_400_001));
        spec.policy.backoff = Backoff::exponential(secs(2), secs(9)).with_jitter(Jitter::Percent(20));
    });
    let spec = draft.0.spec.clone();
    w.submit(draft).await;
    let view = w.detail(id(1)).await.view;
    assert_eq!(view.job.spec, spec);
    assert_eq!(view.job.created_at, w.now());
    assert_eq!((view.record.state, view.record.run_at), (State::Pending, w.now()));
    assert_eq!((view.record.runs, view.record.attempt, view.record.hold), (0, 0, None));
    assert_eq!(view.record.expires_at, Some(moment), "the earlier of expiry and patience");
}

/// E9, V1: what travels with a job comes back on every way to it, and a callback belongs to the same trace.
pub async fn provenance_travels_with_the_job(w: Fixture) {
    let worker = w.enlist(WorkerDraft::new(1)).await;
    let trace: Arc<str> = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into();
    let both = |new: &mut NewJob| {
        let provenance = new.spec.provenance_mut();
        provenance.trace = Some(trace.clone());
        provenance.signature = Some(Signature { key: "k 1".into(), mac: "00ff".into() });
    };
    let signed = |new: &mut NewJob| {
        new.spec.provenance_mut().signature = Some(Signature { key: "k".into(), mac: "".into() });
    };
    let first = job(1).callbacks().with(both).0.spec.provenance;
    let third = job(3).with(signed).0.spec.provenance;
    w.offer_all(false, [job(1).callbacks().with(both), job(2), job(3).with(signed)]).await;
    let w = w.reopen().await;
    for (number, provenance) in [(1, &first), (2, &None), (3, &third)] {
        assert_eq!(&w.detail(id(number)).await.view.job.spec.provenance, provenance);
    }
    let page = w.store.list(JobFilter::default(), PageRequest::first(10)).await.expect("list");
    let listed: Vec<_> = page.items.into_iter().map(|view| view.job.spec.provenance).collect();
    assert_eq!(listed, [third.clone(), None, first.clone()]);
    let taken = w.claim(worker, 3).await;
    let claimed: Vec<_> = taken.iter().map(|taken| taken.job.spec.provenance.clone()).collect();
    assert_eq!(claimed, [first.clone(), None, third]);
    assert_eq!(taken[0].job.spec.header().trace_parent, Some(trace.clone()));
    let mut ending = success(&taken[0]);
    ending.follow_up = taken[0].job.follow_up(&taken[0].record, true).map(Box::new);
    let callback = ending.follow_up.as_ref().expect("asked for").spec.id;
    w.finish(&taken[0], ending).await;
    let provenance = w.detail(callback).await.view.job.spec.provenance.expect("a trace");
    assert_eq!(
        (provenance.trace, provenance.signature),
        (Some(trace), None),
        "a signature speaks for one job"
    );
}

/// L1: a job with nothing but a kind and a payload has no keys, tags or times of its own.
pub async fn absent_fields_stay_absent(w: Fixture) {
    let draft = job(1);
    let spec = draft.0.spec.clone();
    w.submit(draft).await;
    let view = w.detail(id(1)).await.view;
    assert_eq!(view.job.spec, spec);
    assert_eq!((view.last_failure, view.result, view.warning, view.started_at), (None, None, None, None));
    assert!(w.detail(id(1)).await.counters.is_empty());
}

/// L2: delays are counted by the store's clock, and a moment is taken as it is.
pub async fn start_times_are_resolved_by_the_store(w: Fixture) {
    let now = w.now();
    w.submit(job(1).after(secs(90))).await;
    w.submit(job(2).at(now.after(secs(7)))).await;
    w.submit(job(3).at(now.before(secs(7)))).await;
    assert_eq!(w.record(id(1)).await.run_at, now.after(secs(90)));
    assert_eq!(w.record(id(2)).await.run_at, now.after(secs(7)));
    assert_eq!(w.record(id(3)).await.run_at, now.before(secs(7)));
}

/// L19: patience counts from the moment the job becomes due.
pub async fn patience_counts_from_the_due_time(w: Fixture) {
    w.submit(job(1).after(secs(10)).policy(|policy| policy.max_wait = Some(secs(5)))).await;
    assert_eq!(w.record(id(1)).await.expires_at, Some(w.now().after(secs(15))));
}

/// L10: the acknowledgement of a submit may be lost, so the same id again is no second job.
pub async fn a_repeated_id_is_deduplicated(w: Fixture) {
    let first = w.offer(job(1)).await.expect("stored");
    let again = w.offer(job(1)).await.expect("known");
    assert_eq!((first.deduplicated, again.deduplicated), (false, true));
    assert_eq!((again.id, again.state), (id(1), State::Pending));
    assert_eq!(w.listed(JobFilter::default()).await, [id(1)]);
    let elsewhere = w.offer(job(1).queue("elsewhere")).await.expect("known");
    assert!(elsewhere.deduplicated);
    let queues = w.store.queues().await.expect("read");
    assert!(queues.iter().all(|queue| queue.name != "elsewhere"), "nothing of it is left: {queues:?}");
}

/// L10: a repeated submit tells where the job is now, and does not start it over.
pub async fn a_repeated_id_tells_where_the_job_is(w: Fixture) {
    let claimed = w.running(job(1)).await;
    assert_eq!(w.offer(job(1)).await.expect("known").state, State::Running);
    w.finish(&claimed, success(&claimed)).await;
    assert_eq!(w.offer(job(1)).await.expect("known").state, State::Succeeded);
    assert_eq!(w.state(id(1)).await, State::Succeeded);
}

/// L10: the id is looked at before the keys.
pub async fn the_id_comes_before_the_keys(w: Fixture) {
    w.submit(job(1).once("a")).await;
    w.submit(job(2)).await;
    let answer = w.offer(job(2).once("a")).await.expect("known");
    assert_eq!((answer.id, answer.deduplicated), (id(2), true));
}

/// L10: later items of a batch see earlier ones.
pub async fn later_items_see_earlier_ones(w: Fixture) {
    let answers = w.offer_all(false, [job(1).once("k"), job(1), job(2).once("k"), job(3)]).await;
    let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("none is refused")).collect();
    assert_eq!(answers.iter().map(|answer| answer.id).collect::<Vec<_>>(), [id(1), id(1), id(1), id(3)]);
    assert_eq!(
        answers.iter().map(|answer| answer.deduplicated).collect::<Vec<_>>(),
        [false, true, true, false]
    );
    assert_eq!(w.listed(JobFilter::default()).await, [id(3), id(1)]);
}

/// L11: an all-or-nothing batch with a refused item stores nothing, and every item says so.
pub async fn an_atomic_batch_is_all_or_nothing(w: Fixture) {
    w.submit(job(1).key("k", OnConflict::Reject)).await;
    let answers =
        w.offer_all(true, [job(2), job(1), job(3).key("k", OnConflict::Reject), job(4).supersedes(50)]).await;
    assert_eq!(answers[0], Err(Refusal::BatchRefused { index: 2 }));
    assert_eq!(answers[1], Err(Refusal::BatchRefused { index: 2 }), "deduplicated items too");
    assert!(matches!(answers[2], Err(Refusal::BusinessKeyConflict { .. })), "refused ones keep their reason");
    assert_eq!(answers[3], Err(Refusal::NoSuchJob { job: id(50) }));
    assert_eq!(w.listed(JobFilter::default()).await, [id(1)]);
}

/// L10, L22: what a refused batch had done on its way is undone: keys, and jobs it had replaced.
pub async fn a_refused_batch_leaves_no_trace(w: Fixture) {
    w.submit(job(1).key("k", OnConflict::Reject)).await;
    w.told.take();
    let batch = [
        job(2).once("o").key("k", OnConflict::Replace),
        job(3).key("k", OnConflict::Replace),
        job(4).supersedes(99),
    ];
    assert!(w.offer_all(true, batch).await.iter().all(Result::is_err));
    assert_eq!(w.told.take(), [], "V1: nothing is told of what was rolled back");
    let record = w.record(id(1)).await;
    assert_eq!((record.state, record.superseded_by, record.cancel_reason), (State::Pending, None, None));
    assert!(!w.exists(id(2)).await && !w.exists(id(3)).await);
    assert!(!w.offer(job(5).once("o")).await.expect("the key is free").deduplicated);
    assert_eq!(w.queue("default").await.pending, 2);
}

/// L11: in a partial batch each item stands for itself.
pub async fn a_partial_batch_stores_what_it_can(w: Fixture) {
    w.submit(job(1).key("k", OnConflict::Reject)).await;
    let answers = w.offer_all(false, [job(2), job(3).key("k", OnConflict::Reject), job(4)]).await;
    assert!(answers[0].is_ok() && answers[1].is_err() && answers[2].is_ok());
    assert_eq!(w.listed(JobFilter::default()).await, [id(4), id(2), id(1)]);
}

/// L12: a batch over the limit is refused whole, with the limit in the message.
pub async fn a_batch_over_the_limit_is_refused(w: Fixture) {
    let limit = Limits::default().batch;
    let jobs: Vec<_> = (0..=limit as u64).map(|number| job(number).0).collect();
    let refused = w.store.submit(Submit { jobs, atomic: false }).await.expect_err("too many");
    assert!(matches!(refused, Error::TooMany { limit: named, .. } if named == limit), "{refused}");
    assert!(w.listed(JobFilter::default()).await.is_empty());
}

/// L1: an empty batch is no error and has no answers.
pub async fn an_empty_batch_is_fine(w: Fixture) {
    assert!(w.offer_all(true, []).await.is_empty());
    assert!(w.offer_all(false, []).await.is_empty());
}

/// L1: an acknowledged job is there after the store was closed and opened.
pub async fn jobs_survive_a_reopened_store(w: Fixture) {
    let draft = job(1).callbacks().once("o").key("k", OnConflict::Reject).priority(Priority::Low);
    w.submit(draft.clone()).await;
    let before = w.detail(id(1)).await;
    let w = w.reopen().await;
    assert_eq!(w.detail(id(1)).await, before);
    assert_eq!(w.queue("default").await.pending, 1);
}

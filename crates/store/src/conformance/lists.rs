//! Cases about lists among many jobs: from wherever a store reads them, they are what the whole list says.

use backstop_core::JobId;
use backstop_core::failure::{Cause, TerminalReason};
use backstop_core::job::{JobView, Operation, Priority, State};
use backstop_core::tenant;

use super::build::{WorkerDraft, ends_by, id, job, knows, success};
use super::fixture::{Fixture, claim, ids};
use crate::{JobFilter, PageRequest};

/// Jobs in every state on a large queue, on a small one and on one whose jobs are the oldest.
async fn crowd(w: &Fixture) {
    let queues = ["default", "acme/mail", "b"];
    let worker = w.enlist(WorkerDraft::new(1).queues(&queues).kinds(&[("work", 1), ("other", 1)])).await;
    let draft = |(number, priority): (u64, Priority)| match number {
        3 | 6 | 9 | 12 | 15 => job(number).queue("acme/mail").kind("other", 1),
        1..=16 => job(number).queue("acme/mail"),
        _ if number.is_multiple_of(11) => job(number).queue("b").kind("other", 1),
        _ if number.is_multiple_of(13) => job(number).kind("unheard", 1),
        _ => job(number).with(|new| new.spec.priority = priority),
    };
    let priorities = Priority::ALL.into_iter().cycle();
    w.offer_all(false, (1..=150).zip(priorities).map(draft)).await;
    for (queue, taken) in [("default", 50), ("acme/mail", 9), ("b", 5)] {
        let mut wanted = claim(worker, taken);
        wanted.queues[0].queue = queue.into();
        wanted.kinds = knows(&[("work", 1), ("other", 1)]);
        for (number, held) in w.claim_with(wanted).await.jobs.iter().enumerate() {
            match number % 4 {
                0 => w.finish(held, success(held)).await,
                1 => w.finish(held, ends_by(held, Cause::Invalid)).await,
                2 => w.finish(held, ends_by(held, Cause::Permanent)).await,
                _ => State::Running,
            };
        }
    }
    for number in (100..150).chain([10, 12, 22]) {
        w.cancel(id(number)).await;
    }
    for number in [2, 6, 13, 20, 21, 23, 60, 61] {
        // Some of them are running or done; a dead letter keeps its reason.
        drop(w.store.operate(vec![id(number)], Operation::Pause).await.expect("asked"));
    }
    w.cancel(id(6)).await;
}

/// The ids that a filter finds, page by page.
async fn paged(w: &Fixture, filter: &JobFilter, limit: usize) -> Vec<JobId> {
    let (mut found, mut request) = (Vec::new(), PageRequest::first(limit));
    loop {
        let page = w.store.list(filter.clone(), request).await.expect("list");
        found.extend(page.items.iter().map(|view| view.job.spec.id));
        match page.next {
            Some(next) => request.after = Some(next),
            None => return found,
        }
    }
}

/// What a filter means for one job, by names, state and reason.
fn matches(filter: &JobFilter, view: &JobView) -> bool {
    let spec = &view.job.spec;
    filter.queue.as_deref().is_none_or(|queue| queue == &*spec.queue)
        && filter.kind.as_deref().is_none_or(|kind| kind == &*spec.kind)
        && filter.tenant.as_deref().is_none_or(|name| name == tenant::shown(&spec.queue))
        && filter.state.is_none_or(|state| state == view.state())
        && filter.reason.is_none_or(|reason| view.record.reason == Some(reason))
}

/// F20: every name with every state, and with a reason: pages and surveys of them are parts of the whole list.
pub async fn names_and_states_agree_with_the_whole(w: Fixture) {
    crowd(&w).await;
    let whole = w.store.list(JobFilter::default(), PageRequest::first(1_000)).await.expect("list").items;
    assert_eq!(whole.len(), 150);
    let text = |text: &str| Some(text.to_owned());
    let all = JobFilter::default;
    let names = [
        all(),
        JobFilter { queue: text("default"), ..all() },
        JobFilter { queue: text("acme/mail"), ..all() },
        JobFilter { tenant: text("acme"), kind: text("other"), ..all() },
        JobFilter { kind: text("other"), ..all() },
        JobFilter { kind: text("unheard"), ..all() },
        JobFilter { tenant: text("default"), ..all() },
    ];
    let states = State::ALL.into_iter().map(Some).chain([None]);
    let reasons = [None, Some(TerminalReason::Invalid)];
    for (name, state) in names.iter().flat_map(|name| states.clone().map(move |state| (name, state))) {
        for reason in reasons {
            let filter = JobFilter { state, reason, ..name.clone() };
            let fits = whole.iter().filter(|view| matches(&filter, view));
            let expected: Vec<JobId> = fits.map(|view| view.job.spec.id).collect();
            assert_eq!(paged(&w, &filter, 30).await, expected, "{filter:?}");
            let survey = w.store.survey(filter.clone(), 30).await.expect("survey");
            assert_eq!(survey.jobs(), expected.len().min(30) as u64, "{filter:?}");
            assert_eq!(survey.complete, expected.len() <= 30, "{filter:?}");
        }
    }
}

/// F20: the ids between two, whatever else is asked: what a person's first characters of an id mean.
pub async fn ids_between_two_are_found(w: Fixture) {
    crowd(&w).await;
    let whole = w.store.list(JobFilter::default(), PageRequest::first(1_000)).await.expect("list").items;
    let text = |text: &str| Some(text.to_owned());
    let all = JobFilter::default;
    let asked = [
        all(),
        JobFilter { queue: text("default"), ..all() },
        JobFilter { tenant: text("acme"), ..all() },
        JobFilter { tenant: text("acme"), state: Some(State::Failed), ..all() },
        JobFilter { state: Some(State::Canceled), ..all() },
        JobFilter { state: Some(State::Pending), ..all() },
        JobFilter { state: Some(State::Running), ..all() },
        JobFilter { state: Some(State::Succeeded), ..all() },
        JobFilter { reason: Some(TerminalReason::Invalid), ..all() },
    ];
    for filter in asked {
        for (from, after) in [(1, 151), (10, 20), (12, 13), (100, 104), (149, 1_000), (151, 152), (20, 10)] {
            let filter = JobFilter { id_from: Some(id(from)), ..filter.clone() };
            let within = |view: &&JobView| (id(from)..id(after.max(from))).contains(&view.job.spec.id);
            let fits = whole.iter().filter(within).filter(|view| matches(&filter, view));
            let expected: Vec<JobId> = fits.map(|view| view.job.spec.id).collect();
            let page = PageRequest { limit: 150, after: Some(id(after)) };
            let found = w.store.list(filter.clone(), page).await.expect("list");
            let found: Vec<JobId> = found.items.iter().map(|view| view.job.spec.id).collect();
            assert_eq!(found, expected, "from {from} to {after}: {filter:?}");
        }
        let upwards = JobFilter { id_from: Some(id(75)), ..filter.clone() };
        let expected = whole.iter().filter(|view| matches(&filter, view) && view.job.spec.id >= id(75));
        let expected: Vec<JobId> = expected.map(|view| view.job.spec.id).collect();
        assert_eq!(paged(&w, &upwards, 7).await, expected, "{upwards:?}");
        let survey = w.store.survey(upwards.clone(), 1_000).await.expect("survey");
        assert_eq!(survey.jobs(), expected.len() as u64, "{upwards:?}");
    }
}

/// F20: the oldest jobs, in many lanes, behind many others.
pub async fn the_oldest_jobs_of_many_lanes_are_found(w: Fixture) {
    let lane = |number: u64| job(number).queue("acme/mail").kind(&format!("kind-{}", number % 20), 1);
    w.offer_all(false, (1..=50).map(lane)).await;
    w.offer_all(false, (51..=950).map(job)).await;
    let acme = JobFilter { tenant: Some("acme".into()), ..JobFilter::default() };
    let newest_first: Vec<JobId> = (1..=50).rev().map(id).collect();
    for limit in [7, 50, 60] {
        assert_eq!(paged(&w, &acme, limit).await, newest_first, "pages of {limit}");
    }
    w.cancel(id(3)).await;
    let canceled = JobFilter { state: Some(State::Canceled), ..acme.clone() };
    assert_eq!(paged(&w, &canceled, 7).await, ids(&[3]));
    let pending = JobFilter { state: Some(State::Pending), ..acme };
    assert_eq!(paged(&w, &pending, 7).await.len(), 49);
}

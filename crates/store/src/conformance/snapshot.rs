//! The whole state of a store as text, read through the contract.

use backstop_core::JobId;
use backstop_core::job::State;
use backstop_core::run_limit::{CountBy, RunLimit};

use super::build::worker_id;
use super::command::said;
use super::fixture::{claim, room};
use crate::{DocumentRange, Drawer, JobFilter, LineRange, PageRequest, Store};

/// Everything that can be asked of a store, with a name for each answer. Nothing lists what is archived: `named` are
/// the jobs to look for there.
pub(super) async fn whole(store: &dyn Store, queues: &[&str], named: &[JobId]) -> Vec<(String, String)> {
    let mut state = Vec::new();
    for id in every_job(store, &mut state).await {
        state.push((format!("job {id}"), said(store.jobs(vec![id]).await)));
        state.push((format!("summary of {id}"), said(store.job_summaries(vec![id]).await)));
        state.push((format!("surroundings of {id}"), said(store.surroundings(id).await)));
        // Small pages, so that paging is compared too.
        let mut request = PageRequest::first(2);
        loop {
            let page = store.attempts(id, request).await;
            request.after = page.as_ref().ok().and_then(|page| page.next);
            state.push((format!("attempts of {id}"), said(page)));
            if request.after.is_none() {
                break;
            }
        }
    }
    for id in named {
        state.push((format!("archived {id}"), said(store.archived(vec![*id]).await)));
    }
    for status in State::ALL {
        let filter = JobFilter { state: Some(status), ..JobFilter::default() };
        let page = store.list(filter, PageRequest::first(1_000)).await;
        let ids = page.map(|page| page.items.iter().map(|view| view.job.spec.id).collect::<Vec<_>>());
        state.push((format!("{status} jobs"), said(ids)));
    }
    let mut wide = claim(worker_id(1), 0);
    wide.queues = queues.iter().map(|queue| room(queue, 1)).collect();
    wide.queues.iter_mut().for_each(|queue| queue.any_kind = true);
    state.push(("peek".into(), said(store.peek(&wide).await)));
    state.push(("queues".into(), said(store.queues().await)));
    state.push(("workers".into(), said(store.workers().await)));
    state.push(("incidents".into(), said(store.incidents(1_000).await)));
    // When a bucket is made is up to the store: claims tell what is left in it.
    let buckets = [Drawer::RunBuckets, Drawer::KeyBuckets];
    for drawer in Drawer::ALL.into_iter().filter(|drawer| !buckets.contains(drawer)) {
        state.push((
            format!("drawer {drawer}"),
            said(store.documents(DocumentRange::first(drawer, 1_000)).await),
        ));
    }
    state.push(("archive".into(), said(store.archive_page(PageRequest::first(1_000)).await)));
    state.push(("prunable".into(), said(store.prunable(std::time::Duration::ZERO, 1_000).await)));
    state.push(("survey".into(), said(store.survey(JobFilter::default(), 1_000).await)));
    state.push(("held lanes".into(), said(store.held_lanes().await)));
    let by_key = RunLimit { by: CountBy::Key, concurrency: Some(1), ..RunLimit::new("by key") };
    let names = queues.iter().map(|queue| (*queue).to_owned()).collect();
    state.push(("sharing work".into(), said(store.sharing_work(names, vec![by_key], 100).await)));
    for blocked in [false, true] {
        let range = LineRange { blocked, limit: 1_000, ..LineRange::default() };
        state.push((format!("lines, blocked: {blocked}"), said(store.lines(range).await)));
    }
    state.push(("orphans".into(), said(store.orphans(1_000).await)));
    state
}

async fn every_job(store: &dyn Store, state: &mut Vec<(String, String)>) -> Vec<JobId> {
    let mut ids = Vec::new();
    let mut request = PageRequest::first(7);
    loop {
        let page = store.list(JobFilter::default(), request).await;
        request.after = page.as_ref().ok().and_then(|page| page.next);
        ids.extend(page.iter().flat_map(|page| &page.items).map(|view| view.job.spec.id));
        state.push((format!("page {}", state.len()), said(page)));
        if request.after.is_none() {
            return ids;
        }
    }
}

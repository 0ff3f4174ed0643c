//! What workers tell of their health, through the store: one small document each.
//!
//! The document of a worker in a process of the engine goes by its id. That of a remote worker is written by whichever
//! server hears of it, and goes by what the ids of the worker and of its batches have in common.

use std::collections::{HashMap, HashSet};

use backstop_core::health::{
    CountsByKind, DependencyEvent, DependencyReport, DependencyState, WorkerReport, add_counts,
};
use backstop_core::job::Spec;
use backstop_core::{Timestamp, WorkerId};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Store, WorkStore,
    WorkerView,
};

use crate::ids::owner;

/// Documents that are read in one call.
const PAGE: usize = 100;

/// How the keys of remote workers begin.
const REMOTE: &str = "remote-";

/// The key of a worker in a process of the engine.
pub(crate) fn key_of(worker: WorkerId) -> String {
    worker.to_string()
}

/// The key of a remote worker, from its id or that of one of its batches.
pub(crate) fn remote_key(worker: WorkerId) -> String {
    format!("{REMOTE}{}", owner(worker))
}

/// Writes what a worker tells; none removes it.
pub(crate) async fn write(
    store: &dyn Store,
    key: String,
    report: Option<&WorkerReport>,
) -> Result<(), StoreError> {
    let body = report.map(|report| serde_json::to_string(report).unwrap_or_default().into());
    let edit = Edit { drawer: Drawer::WorkerReports, key, expect: Expect::Any, body };
    store.amend(Amend { edits: vec![edit], ..Amend::default() }).await.map(drop)
}

/// What was told of one remote worker, as it is now, with the store's clock.
pub(crate) async fn of_remote(
    store: &dyn WorkStore,
    key: &str,
) -> Result<(WorkerReport, Timestamp), StoreError> {
    let (_, report, now) = read_remote(store, key).await?;
    Ok((report, now))
}

async fn read_remote(
    store: &dyn WorkStore,
    key: &str,
) -> Result<(Option<Document>, WorkerReport, Timestamp), StoreError> {
    let found = store.documents(DocumentRange::first(Drawer::WorkerReports, 1).under(key)).await?;
    let document = found.items.into_iter().find(|document| document.key == key);
    let told = document.as_ref().and_then(|document| serde_json::from_str(&document.body).ok());
    let mut report: WorkerReport = told.unwrap_or_default();
    bring_up_to_date(&mut report, found.now);
    Ok((document, report, found.now))
}

/// Changes what is told of one remote worker, which several servers may do at a time: `change` is asked again when it
/// changed what another one has written since. Answers what is told then.
pub(crate) async fn change_remote<T>(
    store: &dyn Store,
    key: &str,
    mut change: impl FnMut(&mut WorkerReport, Timestamp) -> T,
) -> Result<(WorkerReport, T), StoreError> {
    loop {
        let (document, before, now) = read_remote(store, key).await?;
        let mut report = before.clone();
        let answer = change(&mut report, now);
        if report == before {
            return Ok((report, answer));
        }
        let expect = document.map_or(Expect::Absent, |document| Expect::Revision(document.revision));
        let body = Some(serde_json::to_string(&report).unwrap_or_default().into());
        let edit = Edit { drawer: Drawer::WorkerReports, key: key.to_owned(), expect, body };
        match store.amend(Amend { edits: vec![edit], ..Amend::default() }).await? {
            Amended::Conflict { .. } => {}
            Amended::Done { .. } | Amended::Refused { .. } => return Ok((report, answer)),
        }
    }
}

/// Nobody writes that time has passed.
fn bring_up_to_date(report: &mut WorkerReport, now: Timestamp) {
    report.dependencies.iter_mut().for_each(|one| turn_by_time(one, now));
    report.tick(now);
}

fn turn_by_time(report: &mut DependencyReport, now: Timestamp) {
    let mut state = DependencyState::told(report);
    if state.follow(DependencyEvent::Tick, now) {
        *report = state.report(&report.dependency, std::mem::take(&mut report.kinds));
    }
}

/// What every worker tells, by key. What cannot be read is of another version, and left out.
pub(crate) async fn all(store: &dyn WorkStore) -> Result<HashMap<String, WorkerReport>, StoreError> {
    let mut found = HashMap::new();
    let mut range = DocumentRange::first(Drawer::WorkerReports, PAGE);
    loop {
        let page = store.documents(range.clone()).await?;
        let last = page.items.last().map(|document| document.key.clone());
        let read = page.items.into_iter().filter_map(|document| {
            let mut report: WorkerReport = serde_json::from_str(&document.body).ok()?;
            if document.key.starts_with(REMOTE) {
                bring_up_to_date(&mut report, page.now);
            }
            Some((document.key, report))
        });
        found.extend(read);
        match last {
            Some(last) if page.more => range = range.after(last),
            _ => return Ok(found),
        }
    }
}

/// True for a live worker that serves the queue of a job and knows its kind.
pub(crate) fn could_run(worker: &WorkerView, spec: &Spec) -> bool {
    worker.live
        && worker.queues.iter().any(|queue| **queue == *spec.queue)
        && worker.kinds.iter().any(|known| known.covers(&spec.kind, spec.version))
}

/// Those of these workers that tell something.
pub(crate) fn by_worker(
    mut reports: HashMap<String, WorkerReport>,
    workers: &[WorkerView],
) -> HashMap<WorkerId, WorkerReport> {
    let report = |worker: &WorkerView| {
        let own = reports.remove(&key_of(worker.id));
        // A batch has the key of its worker, and is no worker itself.
        let told = own
            .or_else(|| reports.get(&remote_key(worker.id)).filter(|_| !worker.queues.is_empty()).cloned());
        Some((worker.id, told?))
    };
    workers.iter().filter_map(report).collect()
}

/// What the runs of all live workers came to, but for one that is judged by them (H8).
pub(crate) async fn rest_of_fleet(
    store: &dyn Store,
    is_own: impl Fn(WorkerId) -> bool,
) -> Result<CountsByKind, StoreError> {
    let told = all(store).await?;
    let mut others = store.workers().await?;
    others.retain(|worker| worker.live && !is_own(worker.id));
    let mut rest = CountsByKind::new();
    by_worker(told, &others).values().for_each(|one| add_counts(&mut rest, &one.runs));
    Ok(rest)
}

/// Removes what workers told that are gone.
pub(crate) async fn sweep(store: &dyn Store) -> Result<(), StoreError> {
    // The workers are read last: whoever tells something was known before.
    let told = all(store).await?;
    if told.is_empty() {
        return Ok(());
    }
    let workers = store.workers().await?;
    let known: HashSet<String> =
        workers.iter().flat_map(|worker| [key_of(worker.id), remote_key(worker.id)]).collect();
    for key in told.into_keys().filter(|key| !known.contains(key)) {
        write(store, key, None).await?;
    }
    Ok(())
}

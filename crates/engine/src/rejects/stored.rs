//! The documents of rejects: read in pages, counted by group exactly once, and removed with their counts.
//!
//! A run writes a batch and a note beside it. Whoever counts takes notes away and adds their batches to the groups, in
//! one transaction over the revisions that were read, so that each batch counts once however many count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Fingerprint;
use backstop_core::job::read_document;
use backstop_core::reject::{RejectBatch, RejectGroup, RejectView};
use backstop_core::{JobId, tenant};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Page, Store, Term,
    WorkStore, retire,
};
use serde_json::Value;

use super::{RejectCursor, RejectFilter};
use crate::loops::LoopHeartbeat;

/// Batches that are counted or removed together: each has a hundred groups at most, and an amendment has a limit.
const TOGETHER: usize = 4;

/// Batches that are read for a page at once, and in all.
const READ: usize = 10;
const READ_MOST: usize = 100;

/// Rounds of counting or removing in a row, so that nobody else has to wait for long.
const ROUNDS: usize = 500;

fn read_batch(document: &Document) -> Option<RejectBatch> {
    serde_json::from_str(&document.body).ok()
}

/// How the keys of the batches begin that a filter is about; none when its job is not known, or another tenant's.
pub(super) async fn prefix(store: &dyn Store, filter: &RejectFilter) -> Result<Option<String>, StoreError> {
    let own = filter.tenant.as_deref().map(|tenant| format!("{tenant}/"));
    let Some(job) = filter.job else { return Ok(Some(own.unwrap_or_default())) };
    let under = match owners(store, &[job]).await?.pop() {
        Some((job, queue)) => Some(RejectBatch::under(&queue, job)),
        None => left_behind(store, filter.tenant.as_deref(), job).await?,
    };
    Ok(under.filter(|under| own.is_none_or(|own| under.starts_with(&own))))
}

/// Where rejects stand that have outlived their job: they may be kept longer than the archive. Then nobody knows the
/// tenant any more, and all that have rejects are asked.
async fn left_behind(
    store: &dyn Store,
    tenant: Option<&str>,
    job: JobId,
) -> Result<Option<String>, StoreError> {
    let tenants = match tenant {
        Some(tenant) => vec![tenant.to_owned()],
        None => counts(store).await?.into_iter().map(|(tenant, _)| tenant).collect(),
    };
    for tenant in tenants {
        let under = RejectBatch::under_tenant(&tenant, job);
        let range = DocumentRange::first(Drawer::Rejects, 1).under(under.as_str());
        if !store.documents(range).await?.items.is_empty() {
            return Ok(Some(under));
        }
    }
    Ok(None)
}

/// Those of these jobs that have rejects, hot or archived, each with its queue.
pub(crate) async fn owners(store: &dyn Store, jobs: &[JobId]) -> Result<Vec<(JobId, String)>, StoreError> {
    let mut owners = Vec::new();
    let mut others = Vec::new();
    for (job, detail) in jobs.iter().zip(store.jobs(jobs.to_vec()).await?) {
        match detail {
            Some(detail) if detail.view.record.rejects().is_some() => {
                owners.push((*job, detail.view.job.spec.queue.to_string()));
            }
            Some(_) => {}
            None => others.push(*job),
        }
    }
    if others.is_empty() {
        return Ok(owners);
    }
    for (job, archived) in others.iter().zip(store.archived(others.clone()).await?) {
        let document = archived.and_then(|archived| read_document(&archived.document)).unwrap_or_default();
        if let Some(queue) =
            document["job"]["queue"].as_str().filter(|_| document["job"]["rejects"].is_object())
        {
            owners.push((*job, queue.to_owned()));
        }
    }
    Ok(owners)
}

/// A page of rejects under a prefix. `show` says how an item is shown.
pub(super) async fn page(
    store: &dyn Store,
    prefix: &str,
    fingerprint: Option<&Fingerprint>,
    after: Option<RejectCursor>,
    limit: usize,
    show: impl Fn(&RejectBatch, &Arc<str>) -> Value,
) -> Result<Page<RejectView, RejectCursor>, StoreError> {
    let (mut items, mut last) = (Vec::new(), after.clone());
    // The batch in which the page before ended has more, perhaps.
    let mut begun = match after.filter(|after| after.key.starts_with(prefix)) {
        Some(after) => {
            let name = vec![(Drawer::Rejects, after.key.clone())];
            store.named_documents(name).await?.pop().flatten().map(|document| (document, after.index + 1))
        }
        None => None,
    };
    let mut range = DocumentRange::first(Drawer::Rejects, READ).under(prefix);
    range.after = last.as_ref().map(|last| last.key.clone());
    for _ in 0..READ_MOST / READ {
        let found = store.documents(range.clone()).await?;
        range.after = found.items.last().map(|document| document.key.clone()).or(range.after);
        let documents = begun.take().into_iter().chain(found.items.into_iter().map(|document| (document, 0)));
        for (document, first) in documents {
            let Some(batch) = read_batch(&document) else { continue };
            for (index, reject) in batch.rejects.iter().enumerate().skip(first) {
                if items.len() == limit {
                    return Ok(Page { items, next: last });
                }
                last = Some(RejectCursor { key: document.key.clone(), index });
                if fingerprint.is_none_or(|wanted| *wanted == reject.fingerprint) {
                    let number = document.key.rsplit('/').next().unwrap_or_default();
                    items.push(RejectView::new(&batch, number, index, |item| show(&batch, item)));
                }
            }
        }
        if !found.more {
            return Ok(Page { items, next: None });
        }
    }
    Ok(Page { items, next: last })
}

/// A page of groups.
pub(super) async fn groups(
    store: &dyn Store,
    tenant: Option<&str>,
    after: Option<String>,
    limit: usize,
) -> Result<Page<RejectGroup, String>, StoreError> {
    let prefix = tenant.map(|tenant| format!("{tenant}/")).unwrap_or_default();
    let range = DocumentRange { after, ..DocumentRange::first(Drawer::RejectGroups, limit).under(prefix) };
    let found = store.documents(range).await?;
    let next = found.items.last().filter(|_| found.more).map(|document| document.key.clone());
    let items = found.items.iter().filter_map(|document| serde_json::from_str(&document.body).ok()).collect();
    Ok(Page { items, next })
}

/// One group. Without a tenant it may be any tenant's: a fingerprint is of one alone.
pub(super) async fn group(
    store: &dyn Store,
    tenant: Option<&str>,
    fingerprint: &Fingerprint,
) -> Result<Option<RejectGroup>, StoreError> {
    let tenants = match tenant {
        Some(tenant) => vec![tenant.to_owned()],
        None => counts(store).await?.into_iter().map(|(tenant, _)| tenant).collect(),
    };
    let names: Vec<(Drawer, String)> =
        tenants.iter().map(|tenant| (Drawer::RejectGroups, format!("{tenant}/{fingerprint}"))).collect();
    for names in names.chunks(TOGETHER * 100) {
        let found = store.named_documents(names.to_vec()).await?.into_iter().flatten().next();
        if let Some(group) = found.and_then(|document| serde_json::from_str(&document.body).ok()) {
            return Ok(Some(group));
        }
    }
    Ok(None)
}

/// Items with stored rejects, by tenant.
async fn counts(store: &dyn Store) -> Result<Vec<(String, u64)>, StoreError> {
    let mut range = DocumentRange::first(Drawer::RejectCounts, 500);
    let mut all = Vec::new();
    loop {
        let found = store.documents(range.clone()).await?;
        range.after = found.items.last().map(|document| document.key.clone());
        all.extend(found.items.into_iter().map(|one| (one.key, one.body.parse().unwrap_or_default())));
        if !found.more {
            return Ok(all);
        }
    }
}

/// Items with stored rejects, of all tenants.
pub(super) async fn count(store: &dyn Store) -> Result<u64, StoreError> {
    Ok(counts(store).await?.into_iter().map(|(_, count)| count).fold(0, u64::saturating_add))
}

/// How groups and counts change by some batches.
#[derive(Default)]
struct Changes {
    /// Items of each group, with one of its batches, by key.
    groups: BTreeMap<String, (Arc<RejectBatch>, Fingerprint, u64)>,
    /// Items by tenant.
    tenants: BTreeMap<String, u64>,
}

impl Changes {
    fn note(&mut self, batch: &Arc<RejectBatch>) {
        for (fingerprint, items) in batch.by_group() {
            let new = || (batch.clone(), fingerprint.clone(), 0);
            let group = self.groups.entry(RejectGroup::key(&batch.queue, fingerprint)).or_insert_with(new);
            group.2 = group.2.saturating_add(items);
            if batch.at > group.0.at {
                group.0 = batch.clone();
            }
            let tenant = self.tenants.entry(tenant::shown(&batch.queue).to_owned()).or_default();
            *tenant = tenant.saturating_add(items);
        }
    }

    /// The edits of groups and counts, over what is stored now: counted up, or down.
    async fn edits(&self, store: &dyn WorkStore, up: bool) -> Result<Vec<Edit>, StoreError> {
        let of = |drawer: Drawer, key: &String| (drawer, key.clone());
        let groups = self.groups.keys().map(|key| of(Drawer::RejectGroups, key));
        let tenants = self.tenants.keys().map(|key| of(Drawer::RejectCounts, key));
        let names: Vec<(Drawer, String)> = groups.chain(tenants).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let found = store.named_documents(names.clone()).await?;
        let mut edits = Vec::with_capacity(names.len());
        for ((drawer, key), stored) in names.into_iter().zip(found) {
            let expect = stored.as_ref().map_or(Expect::Absent, |stored| Expect::Revision(stored.revision));
            let body = match self.groups.get(&key).filter(|_| drawer == Drawer::RejectGroups) {
                Some(change) => group_after(stored.as_ref(), change, up),
                None => Some(count_after(stored.as_ref(), self.tenants.get(&key).copied(), up)),
            };
            if body.is_some() || stored.is_some() {
                edits.push(Edit { drawer, key, expect, body });
            }
        }
        Ok(edits)
    }
}

/// What a group says afterwards; none when nothing of it is left.
fn group_after(
    stored: Option<&Document>,
    (batch, fingerprint, items): &(Arc<RejectBatch>, Fingerprint, u64),
    up: bool,
) -> Option<Arc<str>> {
    let stored: Option<RejectGroup> = stored.and_then(|stored| serde_json::from_str(&stored.body).ok());
    let mut group = match stored {
        Some(group) => group,
        None if up => {
            let first = batch.rejects.iter().find(|reject| reject.fingerprint == *fingerprint)?;
            RejectGroup::first(batch, first)
        }
        None => return None,
    };
    if up {
        group.add(batch, *items);
    } else if !group.remove(*items) {
        return None;
    }
    // Texts and numbers: there is no way to fail.
    Some(serde_json::to_string(&group).unwrap_or_default().into())
}

fn count_after(stored: Option<&Document>, items: Option<u64>, up: bool) -> Arc<str> {
    let before: u64 = stored.and_then(|stored| stored.body.parse().ok()).unwrap_or_default();
    let items = items.unwrap_or_default();
    let after = if up { before.saturating_add(items) } else { before.saturating_sub(items) };
    after.to_string().into()
}

fn gone(drawer: Drawer, key: &str, expect: Expect) -> Edit {
    Edit { drawer, key: key.to_owned(), expect, body: None }
}

/// Counts all batches that nobody has counted, as far as the rounds go.
pub(crate) async fn count_all(
    store: &dyn WorkStore,
    heartbeat: Option<&LoopHeartbeat>,
) -> Result<(), StoreError> {
    for _ in 0..ROUNDS {
        heartbeat.into_iter().for_each(LoopHeartbeat::record);
        if count_some(store).await? == 0 {
            break;
        }
    }
    Ok(())
}

/// Counts a few; answers how many there were.
async fn count_some(store: &dyn WorkStore) -> Result<usize, StoreError> {
    let notes = store.documents(DocumentRange::first(Drawer::RejectNotes, TOGETHER)).await?.items;
    if notes.is_empty() {
        return Ok(0);
    }
    let names = notes.iter().map(|note| (Drawer::Rejects, note.key.clone())).collect();
    let batches = store.named_documents(names).await?;
    let (mut changes, mut edits) = (Changes::default(), Vec::new());
    for (note, stored) in notes.iter().zip(batches) {
        edits.push(gone(Drawer::RejectNotes, &note.key, Expect::Revision(note.revision)));
        // One that was removed meanwhile, or that nobody can read, counts for nothing.
        if let Some(batch) = stored.as_ref().and_then(read_batch) {
            let key = Drawer::reject_moment(batch.at, &note.key);
            let body = Some(Arc::from("1"));
            edits.push(Edit { drawer: Drawer::RejectTimes, key, expect: Expect::Any, body });
            changes.note(&Arc::new(batch));
        }
    }
    edits.extend(changes.edits(store, true).await?);
    // When somebody else has counted them meanwhile, nothing is written, and the next round looks again.
    store.amend(Amend { edits, ..Amend::default() }).await?;
    Ok(notes.len())
}

/// Removes all rejects of a job.
pub(crate) async fn forget_job(store: &dyn WorkStore, queue: &str, job: JobId) -> Result<(), StoreError> {
    let range = DocumentRange::first(Drawer::Rejects, TOGETHER).under(RejectBatch::under(queue, job));
    loop {
        let found = store.documents(range.clone()).await?.items;
        if found.is_empty() {
            return Ok(());
        }
        forget(store, None, found, Vec::new()).await?;
    }
}

/// Removes batches with all that tells of them. What somebody else changes meanwhile stays until the next call.
async fn forget(
    store: &dyn WorkStore,
    term: Option<Term>,
    batches: Vec<Document>,
    mut edits: Vec<Edit>,
) -> Result<(), StoreError> {
    let names = batches.iter().map(|batch| (Drawer::RejectNotes, batch.key.clone())).collect();
    let notes = store.named_documents(names).await?;
    let mut changes = Changes::default();
    for (stored, note) in batches.iter().zip(notes) {
        edits.push(gone(Drawer::Rejects, &stored.key, Expect::Revision(stored.revision)));
        match (note, read_batch(stored)) {
            // Nobody has counted it: whoever does so in this moment is refused, or refuses us.
            (Some(note), _) => {
                edits.push(gone(Drawer::RejectNotes, &note.key, Expect::Revision(note.revision)));
            }
            (None, Some(batch)) => {
                let key = Drawer::reject_moment(batch.at, &stored.key);
                edits.push(gone(Drawer::RejectTimes, &key, Expect::Any));
                changes.note(&Arc::new(batch));
            }
            (None, None) => {}
        }
    }
    edits.extend(changes.edits(store, false).await?);
    let amended = store.amend(Amend { term, edits, ..Amend::default() }).await?;
    if let Amended::Conflict { drawer, key } = amended {
        tracing::debug!(%drawer, key, "rejects change while they are removed: trying again");
    }
    Ok(())
}

/// Removes rejects that were written longer ago than `keep`; none keeps them for ever.
pub(crate) async fn retire_old(
    store: &dyn WorkStore,
    keep: Option<Duration>,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let Some(keep) = keep else { return Ok(()) };
    let Some(cutoff) = retire::cutoff(keep, store.now().await?) else { return Ok(()) };
    let end = Drawer::reject_moment(cutoff, "~");
    for _ in 0..ROUNDS {
        heartbeat.record();
        let times = store.documents(DocumentRange::first(Drawer::RejectTimes, TOGETHER)).await?.items;
        let old: Vec<&Document> = times.iter().take_while(|time| time.key < end).collect();
        if old.is_empty() {
            return Ok(());
        }
        let key_of = |time: &&Document| time.key.split_once('/').map(|(_, key)| key.to_owned());
        let keys: BTreeSet<String> = old.iter().filter_map(key_of).collect();
        let names = keys.into_iter().map(|key| (Drawer::Rejects, key)).collect();
        let batches: Vec<Document> = store.named_documents(names).await?.into_iter().flatten().collect();
        let kept: BTreeSet<&str> = batches.iter().map(|batch| batch.key.as_str()).collect();
        // Of a job that was removed only the moment is left.
        let alone = |time: &&&Document| key_of(time).is_none_or(|key| !kept.contains(key.as_str()));
        let edits =
            old.iter().filter(alone).map(|time| gone(Drawer::RejectTimes, &time.key, Expect::Any)).collect();
        forget(store, Some(term), batches, edits).await?;
    }
    Ok(())
}

//! A run that is about to wait for a signal.

use std::time::Duration;

use backstop_core::job::{SignalAnswer, Spec, Stale};
use backstop_core::{Lease, Timestamp};
use backstop_store::{Amend, Amended, DocumentRange, Drawer, Error as StoreError, Expect, WorkStore};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::stored::{
    self, KeptCount, SignalLook, SignalName, StoredSignal, StoredWait, parsed, remembered, remove,
    tenant_prefix, write,
};
use crate::parts::EngineParts;
use crate::sealing;

/// Signals that are read at once.
const PAGE: usize = 100;

/// Times that a kept signal is tried for while others take what was seen.
const TRIES: usize = 200;

/// What a run waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WaitRequest {
    pub(crate) signal: String,
    /// The step that keeps what comes.
    pub(crate) step: String,
    /// The order of its call; none puts it behind all that are stored.
    pub(crate) index: Option<u32>,
    pub(crate) timeout: Duration,
}

/// What a run that is about to wait finds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum WaitStart {
    /// A signal was kept for it: it has it now, and goes on.
    Taken(Value),
    /// Nothing: its run is to end, and the job waits until this moment.
    Until(Timestamp),
}

/// Says that a run of this job waits, then looks for a signal that came before. In this order, and both before the end
/// of the run is written: see the module above.
pub(crate) async fn begin(
    parts: &EngineParts,
    lease: Lease,
    spec: &Spec,
    request: &WaitRequest,
) -> Result<Result<WaitStart, Stale>, StoreError> {
    let store = &parts.store;
    let now = store.now().await?;
    let until = now.after(request.timeout.min(parts.config.limits.delay));
    let name = SignalName::new(spec.tenant(), &request.signal);
    let wait = StoredWait {
        key: request.signal.clone(),
        job: lease.job,
        fence: lease.fence,
        step: request.step.clone(),
        index: request.index,
        until,
        look_at: None,
        sealed: sealing::seals(&parts.config, spec).then(|| spec.kind.clone()),
    };
    let (wait, place) = (wait.looked_at_after(now), name.wait(lease.job));
    let edits = vec![write(Drawer::SignalWaits, place.clone(), Expect::Any, &wait), wait.put_look(&place)];
    store.amend(Amend { edits, ..Amend::default() }).await?;
    for _ in 0..TRIES {
        let Some(kept) = oldest(&**store, &name, &wait, now).await? else {
            return Ok(Ok(WaitStart::Until(until)));
        };
        let amend = taken(parts, &name, kept.clone(), &wait, &place)?;
        match store.amend(amend).await? {
            Amended::Done { .. } => return Ok(Ok(WaitStart::Taken(kept.signal.payload))),
            Amended::Conflict { .. } => {}
            Amended::Refused { .. } => {
                // Either the lease is gone, or a sender was quicker: then the end of the run finds what came.
                let found = store.jobs(vec![lease.job]).await?.pop().flatten();
                let held = found.is_some_and(|detail| detail.view.record.held_by(&lease).is_ok());
                let stale = Stale { job: lease.job, fence: lease.fence };
                return Ok(if held { Ok(WaitStart::Until(until)) } else { Err(stale) });
            }
        }
    }
    // Whoever took them was quicker each time; one that is left is found by the next look at it.
    Ok(Ok(WaitStart::Until(until)))
}

#[derive(Clone)]
struct FoundSignal {
    place: String,
    revision: i64,
    signal: StoredSignal,
    count: KeptCount,
}

/// The signal that has been kept for the longest time, of those that the job may take.
async fn oldest(
    store: &dyn WorkStore,
    name: &SignalName,
    wait: &StoredWait,
    now: Timestamp,
) -> Result<Option<FoundSignal>, StoreError> {
    let mut range = DocumentRange::first(Drawer::Signals, PAGE).under(name.prefix());
    let mut best: Option<(Timestamp, String)> = None;
    loop {
        let page = store.documents(range.clone()).await?;
        range.after = page.items.last().map(|document| document.key.clone());
        for document in page.items {
            let Some(signal) = parsed::<StoredSignal>(&document) else { continue };
            let is_older = best.as_ref().is_none_or(|(sent_at, _)| signal.sent_at < *sent_at);
            if signal.is_for(wait.job, now) && is_older {
                best = Some((signal.sent_at, document.key));
            }
        }
        if !page.more {
            break;
        }
    }
    let Some((_, place)) = best else { return Ok(None) };
    let (found, _, count) = stored::read(store, &place, name.tenant.as_deref()).await?;
    let found = found.filter(|(_, signal)| signal.is_for(wait.job, now));
    Ok(found.map(|(revision, signal)| FoundSignal { place, revision, signal, count }))
}

/// The change that gives a kept signal to the job that waits.
fn taken(
    parts: &EngineParts,
    name: &SignalName,
    kept: FoundSignal,
    wait: &StoredWait,
    place: &str,
) -> Result<Amend, StoreError> {
    let FoundSignal { place: at, revision, signal, count } = kept;
    let mut edits = vec![
        remove(Drawer::Signals, at.clone(), Expect::Revision(revision)),
        SignalLook::Signal(at.clone()).removed(signal.look_at),
        count.changed(name.tenant.as_deref(), false),
        remove(Drawer::SignalWaits, place.to_owned(), Expect::Any),
        wait.remove_look(place),
    ];
    edits.extend(remembered(&at, &signal, 1));
    let operations = vec![wait.answered(parts, &SignalAnswer::Received(signal.payload))?];
    Ok(Amend { edits, operations, strict: true, ..Amend::default() })
}

/// How the names of all waits of a tenant begin; of everybody's when there is none to ask for.
pub(super) fn of_tenant(tenant: Option<&str>) -> String {
    tenant.map_or_else(String::new, |tenant| tenant_prefix(Some(tenant)))
}

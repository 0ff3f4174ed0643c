//! Delivers alerts (D3): takes them out of the outbox, puts those of one incident together, tells every channel.
//!
//! What is to be told is written down before it is told, and that it was told after: a node that dies in between leaves
//! a message that is told again under the same id, and never one that is lost. Channels know nothing of each other.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::alert::Notice;
use backstop_core::circuit::{CircuitAlert, CircuitNotice};
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentState;
use backstop_core::{Timestamp, WorkerId};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Documents, Drawer, Duty, Edit, Error as StoreError, Expect,
    Store, Term, WorkStore,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::BATCH;
use crate::alerts::channel_log::TOO_LATE;
use crate::alerts::stored::{self, NamedChannel, StoredChannelLog};
use crate::alerts::{AlertChannel, AlertMessage};
use crate::config::Config;
use crate::parts::EngineParts;

/// Batches that one look takes out of the outbox at most.
const BATCHES: usize = 20;

/// Logs of channels that are read at once.
const PAGE: usize = 200;

/// How long one delivery may take, and how long a channel may go on delivering in one look.
const DEADLINE: Duration = Duration::from_secs(10);

/// The leadership of this duty. Deliveries may take longer than a term runs, so it is renewed before every write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lead {
    term: Term,
    span: Duration,
    since: Instant,
}

impl Lead {
    /// Asks for the leadership, or renews it.
    pub(super) async fn ask(
        store: &dyn WorkStore,
        node: WorkerId,
        span: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let since = Instant::now();
        let term = store.lead(node, vec![Duty::Alert], span).await?.pop().flatten();
        Ok(term.map(|term| Self { term, span, since }))
    }

    /// Writes changes while this node leads. When a document is not as it was read, another node has led in between.
    async fn write(&mut self, store: &dyn WorkStore, edits: Vec<Edit>) -> Result<(), StoreError> {
        let deposed = StoreError::Deposed { duty: Duty::Alert };
        if self.since.elapsed() >= self.span / 3 {
            match Self::ask(store, self.term.node, self.span).await? {
                Some(renewed) => *self = renewed,
                None => return Err(deposed),
            }
        }
        match store.amend(Amend { term: Some(self.term), edits, ..Amend::default() }).await? {
            Amended::Done { .. } => Ok(()),
            Amended::Conflict { .. } | Amended::Refused { .. } => Err(deposed),
        }
    }
}

/// Does the whole duty once, and waits for every channel, each for its deadline at most.
pub(super) async fn alert(parts: &Arc<EngineParts>, term: Term, span: Duration) -> Result<(), StoreError> {
    let mut lead = Lead { term, span, since: Instant::now() };
    gather(&*parts.store, &parts.config, &mut lead).await?;
    let mut channels = JoinSet::new();
    for named in stored::named_channels(&parts.config.alerts) {
        channels.spawn(deliver(parts.clone(), lead, named));
    }
    let mut answer = Ok(());
    while let Some(done) = channels.join_next().await {
        // A panic in a channel's own code is caught where it is called.
        if let Ok(Err(error)) = done {
            answer = Err(error);
        }
    }
    answer
}

/// Takes what waits in the outbox into the logs of all channels; answers whether there was anything.
pub(super) async fn gather(store: &dyn Store, config: &Config, lead: &mut Lead) -> Result<bool, StoreError> {
    let named_channels = stored::named_channels(&config.alerts);
    // Each alert is one change, and at most two more in the log of each channel.
    let most = BATCH.min(config.limits.batch / (2 * named_channels.len() + 1)).max(1);
    for batch in 0..BATCHES {
        let found = store.documents(DocumentRange::first(Drawer::Alerts, most)).await?;
        if found.items.is_empty() {
            return Ok(batch > 0);
        }
        file(store, lead, &named_channels, &found).await?;
        if !found.more {
            break;
        }
    }
    Ok(true)
}

async fn file(
    store: &dyn Store,
    lead: &mut Lead,
    named_channels: &[NamedChannel],
    found: &Documents,
) -> Result<(), StoreError> {
    let mut edits: Vec<Edit> = found.items.iter().map(taken).collect();
    let incidents = by_incident(&found.items);
    let muted = muted(store, incidents.keys()).await?;
    let mut stale = 0_u64;
    for named in named_channels {
        stale = 0;
        for (incident, notices) in &incidents {
            let known = stored::one(store, &named.name, incident).await?;
            let mut stored = known.unwrap_or_else(|| StoredChannelLog::new(incident));
            for notice in notices {
                if muted.contains(incident) {
                    stored.log.count_muted();
                } else if found.now.since(notice.at()) >= TOO_LATE {
                    stored.log.count_dropped();
                    stale += 1;
                } else {
                    match notice {
                        OutboxNotice::Circuit(notice) => stored.log.gather_circuit(notice, message_id),
                        OutboxNotice::Job(notice) => stored.log.gather(notice, message_id),
                    }
                }
            }
            edits.extend(stored.edits(&named.name));
        }
    }
    lead.write(store, edits).await?;
    if stale > 0 {
        tracing::warn!(stale, "alerts waited for a day and were dropped: no node delivered them");
    }
    Ok(())
}

fn taken(document: &Document) -> Edit {
    let (key, expect) = (document.key.clone(), Expect::Revision(document.revision));
    Edit { drawer: Drawer::Alerts, key, expect, body: None }
}

/// What waits in the outbox.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum OutboxNotice {
    /// A circuit opened or closed (H3).
    Circuit(CircuitNotice),
    /// A job died.
    Job(Box<Notice>),
}

impl OutboxNotice {
    fn at(&self) -> Timestamp {
        match self {
            Self::Circuit(notice) => notice.at,
            Self::Job(notice) => notice.at,
        }
    }

    fn about(&self) -> String {
        match self {
            Self::Circuit(notice) => CircuitAlert::about(&notice.circuit.key),
            Self::Job(notice) => notice.about.clone(),
        }
    }
}

fn by_incident(documents: &[Document]) -> BTreeMap<String, Vec<OutboxNotice>> {
    let mut incidents: BTreeMap<String, Vec<OutboxNotice>> = BTreeMap::new();
    for document in documents {
        match serde_json::from_str::<OutboxNotice>(&document.body) {
            Ok(notice) => incidents.entry(notice.about()).or_default().push(notice),
            Err(error) => {
                tracing::warn!(key = %document.key, %error, "an alert cannot be read and is dropped")
            }
        }
    }
    incidents
}

/// The incidents of which nobody wants to hear.
async fn muted<'a>(
    store: &dyn Store,
    incidents: impl Iterator<Item = &'a String>,
) -> Result<HashSet<String>, StoreError> {
    // What no run killed has no incident that a person could mute.
    let known: Vec<Fingerprint> = incidents.filter_map(|about| about.parse().ok()).collect();
    if known.is_empty() {
        return Ok(HashSet::new());
    }
    let found = store.incidents_of(known).await?.into_iter().flatten();
    let muted = found.filter(|incident| incident.standing.state == IncidentState::Muted);
    Ok(muted.map(|incident| incident.fingerprint.to_string()).collect())
}

fn message_id() -> String {
    format!("alert_{}", crate::ids::job_id())
}

/// Tells one channel what is due, for its deadline at most; answers how long until it has something to do again.
pub(super) async fn deliver(
    parts: Arc<EngineParts>,
    mut lead: Lead,
    named: NamedChannel,
) -> Result<Option<Duration>, StoreError> {
    let (store, gap) = (&*parts.store, parts.config.alerts.gap);
    let over = Instant::now() + DEADLINE;
    let (mut after, mut next) = (None, None);
    loop {
        let page = stored::open_page(store, &named.name, after, PAGE).await?;
        let now = page.now;
        let mut items = page.items;
        prepare(store, &mut lead, &named, &mut items, now, gap).await?;
        for stored in &mut items {
            if Instant::now() >= over {
                return Ok(Some(Duration::ZERO));
            }
            if let Some(message) = stored.log.due(now).cloned() {
                tell(store, &parts.config, &mut lead, &named, stored, message).await?;
            }
            let wait = stored.log.wakes_at(now, gap).map(|at| now.until(at));
            next = [next, wait].into_iter().flatten().min();
        }
        after = page.next;
        if after.is_none() {
            return Ok(next);
        }
    }
}

/// Drops what nobody wants or needs to hear any more, seals what may be told now, and writes that down.
async fn prepare(
    store: &dyn Store,
    lead: &mut Lead,
    named: &NamedChannel,
    items: &mut [StoredChannelLog],
    now: Timestamp,
    gap: Duration,
) -> Result<(), StoreError> {
    let muted = muted(store, items.iter().map(|stored| &stored.incident)).await?;
    let mut changed = Vec::new();
    for (at, stored) in items.iter_mut().enumerate() {
        let hushed = muted.contains(&stored.incident) && stored.log.mute();
        let dropped = stored.log.drop_stale(now);
        if dropped > 0 {
            tracing::warn!(channel = %named.name, incident = %stored.incident, dropped,
                "alerts could not be delivered for a day and were dropped");
        }
        let sealed = stored.log.seal(now, gap);
        // One that was open and could not be read has nothing to tell either.
        if hushed || dropped > 0 || sealed || !stored.log.is_open() {
            changed.push(at);
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    lead.write(store, changed.iter().flat_map(|at| items[*at].edits(&named.name)).collect()).await?;
    changed.into_iter().for_each(|at| items[at].written(&named.name));
    Ok(())
}

/// Makes one delivery and writes down what became of it.
async fn tell(
    store: &dyn Store,
    config: &Config,
    lead: &mut Lead,
    named: &NamedChannel,
    stored: &mut StoredChannelLog,
    message: AlertMessage,
) -> Result<(), StoreError> {
    let answer = attempt(named.channel.clone(), message).await;
    let now = store.now().await?;
    match answer {
        Ok(()) => stored.log.delivered(now),
        Err(why) => {
            let why = config.sanitized(&why);
            stored.log.failed(now, why.clone());
            let failures = stored.log.failures();
            tracing::warn!(channel = %named.name, incident = %stored.incident, failures, error = why,
                "an alert was not delivered and is tried again");
        }
    }
    lead.write(store, stored.edits(&named.name)).await?;
    stored.written(&named.name);
    Ok(())
}

/// Calls the channel, which is others' code: it may hang or panic.
async fn attempt(channel: Arc<dyn AlertChannel>, message: AlertMessage) -> Result<(), String> {
    let mut call = JoinSet::new();
    call.spawn(async move { channel.deliver(&message).await });
    match tokio::time::timeout(DEADLINE, call.join_next()).await {
        Err(_) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
        Ok(Some(Ok(answer))) => answer.map_err(|error| error.to_string()),
        Ok(_) => Err("the channel panicked".to_owned()),
    }
}

/// Drops alerts that waited for a day although no node with a channel took them: the outbox must not grow for ever.
pub(super) async fn sweep(store: &dyn WorkStore) -> Result<(), StoreError> {
    let found = store.documents(DocumentRange::first(Drawer::Alerts, BATCH)).await?;
    let stale = |document: &&Document| {
        serde_json::from_str::<OutboxNotice>(&document.body)
            .map_or(true, |notice| found.now.since(notice.at()) >= TOO_LATE)
    };
    let edits: Vec<Edit> = found.items.iter().filter(stale).map(taken).collect();
    let dropped = edits.len();
    if dropped > 0 && matches!(store.amend(Amend { edits, ..Amend::default() }).await?, Amended::Done { .. })
    {
        tracing::warn!(
            dropped,
            "alerts waited for a day and were dropped: no node with a channel delivered them"
        );
    }
    Ok(())
}

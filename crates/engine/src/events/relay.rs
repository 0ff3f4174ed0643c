//! Moves events from the outbox into the event log (V2), and switches the log on and off.
//!
//! Whoever comes first gives the next numbers: the amendment that adds a document to the log removes what is in it from
//! the outbox, and rests on that still being there and on the head of the log. So of two processes one is refused, and
//! looks again. Nobody needs a lease, and nobody waits for one who died.

use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::outbox::{OutboxKey, STREAM_SINK, Sink, SinkSort};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Observer, WorkStore,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::kept::{
    EVENTS, EventLogHead, EventLogKey, EventLogLimits, EventLogStreams, HEAD, KeptEventPart, KeptEvents,
    LISTENERS, edit, expect,
};
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::sinks::measure;
use crate::sinks::stored::{self, Part, SinkDocuments, SinkLimits, StoredSink};

/// How long somebody counts as listening after having said so, and what may be left of that before it is said again.
const LISTENS: Duration = Duration::from_secs(120);
const RENEWED_AT: Duration = Duration::from_secs(90);

/// How long the log stays on when nobody listens any more.
const LINGER: Duration = Duration::from_secs(300);

/// Documents of the outbox, events and bytes that become one document of the log.
const DOCUMENTS: usize = 200;
const MOST_TOGETHER: u64 = 2_000;
const MOST_BYTES_TOGETHER: usize = 256 * 1024;

/// Documents of the log that are read to be removed: as many as have to go, mostly, and more when that is not enough.
const OLDEST: usize = 2;
const MORE_OLDEST: usize = 64;

/// Documents that one amendment removes for being too old, or too many.
const MOST_REMOVED: usize = 2_000;

/// Rounds in a row, so that nobody else has to wait for long.
const ROUNDS: usize = 100;

/// How old documents of a log are of which it is known whether it is still there.
const SETTLED: Duration = Duration::from_secs(60);

/// The two documents of the log itself, as they are stored.
struct LogDocuments {
    head: Option<Document>,
    listeners: Option<Document>,
}

impl LogDocuments {
    async fn read(store: &dyn WorkStore) -> Result<Self, StoreError> {
        let names = [HEAD, LISTENERS].map(|name| (Drawer::EventLog, name.to_owned()));
        let mut found = store.named_documents(names.into()).await?.into_iter();
        Ok(Self { head: found.next().flatten(), listeners: found.next().flatten() })
    }

    fn head(&self) -> Option<EventLogHead> {
        body(self.head.as_ref()).filter(EventLogHead::is_sound)
    }

    fn listened_until(&self) -> Timestamp {
        let listeners: Option<EventLogStreams> = body(self.listeners.as_ref());
        listeners.map_or(Timestamp::MIN, |listeners| listeners.until)
    }
}

/// What a document says; none when it is not there, or of another form.
fn body<T: DeserializeOwned>(document: Option<&Document>) -> Option<T> {
    document.and_then(|document| serde_json::from_str(&document.body).ok())
}

/// What waits for streams.
fn waiting(drawer: Drawer) -> DocumentRange {
    DocumentRange::first(drawer, DOCUMENTS).under(OutboxKey::prefix(STREAM_SINK))
}

fn removal(drawer: Drawer, key: &str) -> Edit {
    Edit { drawer, key: key.to_owned(), expect: Expect::Any, body: None }
}

/// The removal of a document that goes into the log, unless somebody else has moved it there since it was read.
fn moved(drawer: Drawer, document: &Document) -> Edit {
    Edit { expect: Expect::Revision(document.revision), ..removal(drawer, &document.key) }
}

async fn amended(store: &dyn WorkStore, edits: Vec<Edit>) -> Result<bool, StoreError> {
    Ok(matches!(store.amend(Amend { edits, ..Amend::default() }).await?, Amended::Done { .. }))
}

/// Says that somebody listens, and switches the log on if it is off. Answers how far it is. Nothing is written while
/// somebody has said so not long ago.
pub(super) async fn listen(parts: &EngineParts) -> Result<EventLogHead, StoreError> {
    let store = &*parts.store;
    loop {
        let found = LogDocuments::read(store).await?;
        let sinks = SinkDocuments::read(store).await?;
        let now = match sinks.now {
            Some(now) => now,
            None => store.now().await?,
        };
        let is_on = sinks.sinks().any(|known| known.sink.sort() == SinkSort::Streams);
        let known = found.head();
        let head = known.clone().unwrap_or_else(EventLogHead::new);
        let renewed = found.listened_until() >= now.after(RENEWED_AT);
        if !(is_on && known.is_some() && renewed) {
            let until = found.listened_until().max(now.after(LISTENS));
            let listeners = EventLogStreams { until };
            let mut edits = vec![edit(LISTENERS, expect(found.listeners.as_ref()), &listeners)];
            if known.is_none() {
                edits.push(edit(HEAD, expect(found.head.as_ref()), &head));
            }
            if !is_on {
                let sink =
                    StoredSink { sink: Sink::of_streams(), limits: SinkLimits::default(), target: None };
                edits.push(stored::edit(Part::Sink, STREAM_SINK, Expect::Any, Some(&sink)));
            }
            if !amended(store, edits).await? {
                // Somebody else has just said the same, or has switched it off: look again.
                continue;
            }
        }
        // From the next transaction on, this process writes what streams are told.
        if !parts.events.sinks().iter().any(|sink| sink.sort() == SinkSort::Streams) {
            parts.sinks.refresh(store, &parts.events).await?;
        }
        return Ok(head);
    }
}

/// Moves a page of what waits into the log. True when more may wait.
pub(super) async fn relay(
    store: &dyn WorkStore,
    limits: &EventLogLimits,
    with_refused: bool,
) -> Result<bool, StoreError> {
    let found = store.documents(waiting(Drawer::Outbox)).await?;
    let refused = if with_refused && !found.more {
        store.documents(waiting(Drawer::OutboxRefused)).await?.items
    } else {
        Vec::new()
    };
    if found.items.is_empty() && refused.is_empty() {
        return Ok(false);
    }
    let log = LogDocuments::read(store).await?;
    // While it is off, what waits is removed by whoever keeps outboxes in order.
    let Some(mut head) = log.head() else { return Ok(false) };
    let (mut kept, mut edits, mut bytes, mut count) = (KeptEvents::default(), Vec::new(), 0, 0);
    let mut more = found.more;
    for document in &found.items {
        if bytes >= MOST_BYTES_TOGETHER || count >= MOST_TOGETHER {
            more = true;
            break;
        }
        let batch: Option<&RawValue> = serde_json::from_str(&document.body).ok();
        if batch.is_none() {
            tracing::error!(
                key = document.key,
                "events for streams cannot be read; they are told of as a gap"
            );
        }
        kept.parts.push(KeptEventPart { count: messages(&document.key), batch });
        edits.push(moved(Drawer::Outbox, document));
        (bytes, count) = (bytes + document.body.len(), count + messages(&document.key));
    }
    // What was refused comes after what was kept.
    for document in refused.iter().filter(|_| !more) {
        kept.parts.push(KeptEventPart { count: messages(&document.key), batch: None });
        edits.push(moved(Drawer::OutboxRefused, document));
        count += messages(&document.key);
    }
    kept.parts.retain(|part| part.count > 0);
    if count > 0 {
        // Texts and numbers have no way to fail.
        let text = serde_json::to_string(&kept).unwrap_or_default();
        head.last += count;
        head.bytes += text.len() as u64;
        let key = EventLogKey { last: head.last, count, at: found.now }.text(&head.epoch);
        edits.push(Edit { drawer: Drawer::EventLog, key, expect: Expect::Any, body: Some(text.into()) });
    }
    edits.extend(outworn(store, &mut head, limits, None).await?);
    edits.push(edit(HEAD, expect(log.head.as_ref()), &head));
    // When somebody else was faster, these are in the log already.
    Ok(amended(store, edits).await? && more)
}

/// How many events a document of the outbox has.
fn messages(key: &str) -> u64 {
    OutboxKey::read(key).map_or(0, |key| key.messages as u64)
}

/// The removal of the oldest documents of the log: as long as too much is kept, or those that were written before a
/// moment. Says so in the head.
async fn outworn(
    store: &dyn WorkStore,
    head: &mut EventLogHead,
    limits: &EventLogLimits,
    before: Option<Timestamp>,
) -> Result<Vec<Edit>, StoreError> {
    let (mut gone, mut limit) = (Vec::new(), OLDEST);
    let mut range = DocumentRange::first(Drawer::EventLog, limit).under(EventLogKey::prefix(&head.epoch));
    while (head.is_over(limits) || before.is_some()) && gone.len() < MOST_REMOVED {
        let found = store.documents(DocumentRange { limit, ..range.clone() }).await?;
        for document in &found.items {
            let Some(key) = EventLogKey::read(&document.key) else { continue };
            if !head.is_over(limits) && before.is_none_or(|before| key.at >= before) {
                return Ok(gone);
            }
            head.before = key.last;
            head.bytes = head.bytes.saturating_sub(document.body.len() as u64);
            gone.push(removal(Drawer::EventLog, &document.key));
        }
        match found.items.last().filter(|_| found.more) {
            Some(last) => range = range.after(last.key.as_str()),
            None => break,
        }
        limit = MORE_OLDEST;
    }
    Ok(gone)
}

/// Looks after the log, for whoever leads the counts: moves what waits also while nobody reads, and what was refused,
/// removes what is too old, and switches the log off when nobody has listened for long.
pub(crate) async fn tend(
    parts: &EngineParts,
    sinks: &SinkDocuments,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    if !sinks.sinks().any(|known| known.sink.sort() == SinkSort::Streams) {
        return Ok(());
    }
    let (store, limits) = (&*parts.store, &parts.config.event_log);
    for _ in 0..ROUNDS {
        heartbeat.record();
        if !relay(store, limits, true).await? {
            break;
        }
    }
    let log = LogDocuments::read(store).await?;
    let now = store.now().await?;
    if now > log.listened_until().after(LINGER) {
        return switch_off(parts, &log, now).await;
    }
    let Some(mut head) = log.head() else { return Ok(()) };
    let old = outworn(store, &mut head, limits, Some(now.before(limits.keep))).await?;
    if !old.is_empty() {
        let edits = old.into_iter().chain([edit(HEAD, expect(log.head.as_ref()), &head)]).collect();
        // Whoever was faster has moved something meanwhile; what is too old goes with the next look.
        amended(store, edits).await?;
    }
    Ok(())
}

/// Switches the log off, unless somebody has just said that he listens. What follows is another log, and may have begun
/// before this is through: what was written after `now` is left to it, or to whoever clears what nobody owns.
async fn switch_off(parts: &EngineParts, log: &LogDocuments, now: Timestamp) -> Result<(), StoreError> {
    let store = &*parts.store;
    let mut edits = vec![
        Edit { expect: expect(log.listeners.as_ref()), ..removal(Drawer::EventLog, LISTENERS) },
        removal(Drawer::EventLog, HEAD),
    ];
    for part in [Part::Sink, Part::State, Part::Pause, Part::Lease] {
        edits.push(stored::edit::<StoredSink>(part, STREAM_SINK, Expect::Any, None));
    }
    if !amended(store, edits).await? {
        return Ok(());
    }
    parts.sinks.refresh(store, &parts.events).await?;
    for drawer in [Drawer::Outbox, Drawer::OutboxRefused] {
        measure::clear(store, drawer, STREAM_SINK, now).await?;
    }
    clear(store).await
}

/// Removes events of logs that are no more.
pub(crate) async fn clear(store: &dyn WorkStore) -> Result<(), StoreError> {
    let head = LogDocuments::read(store).await?.head();
    let prefix = head.map(|head| EventLogKey::prefix(&head.epoch));
    let is_kept = |key: &str| prefix.as_ref().is_some_and(|prefix| key.starts_with(prefix));
    let mut range = DocumentRange::first(Drawer::EventLog, MORE_OLDEST).under(EVENTS);
    for _ in 0..ROUNDS {
        let found = store.documents(range.clone()).await?;
        let Some(last) = found.items.last() else { break };
        // A log that was switched on since we looked is young.
        let settled = found.now.before(SETTLED);
        let is_young = |key: &str| EventLogKey::read(key).is_some_and(|key| key.at >= settled);
        let old = found.items.iter().filter(|document| !is_kept(&document.key) && !is_young(&document.key));
        let edits: Vec<_> = old.map(|document| removal(Drawer::EventLog, &document.key)).collect();
        if !edits.is_empty() {
            amended(store, edits).await?;
        }
        // Above every key of the log that is there.
        range = match &prefix {
            Some(prefix) if is_kept(&last.key) => range.after(format!("{prefix}\u{10ffff}")),
            _ => range.after(last.key.as_str()),
        };
    }
    Ok(())
}

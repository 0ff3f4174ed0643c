//! How the event log is kept (V2): which documents it has, and how events are read from them.
//!
//! Messages are copied from the outbox as they are, and an event's JSON goes to readers as it was written: nobody takes
//! it apart on the way.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::tenant::NO_TENANT;
use backstop_core::{JobId, Timestamp};
use backstop_store::{Document, Drawer, Edit, Expect};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The document that says how far the log is. Whoever adds to the log or takes away from it rests on its revision.
pub(super) const HEAD: &str = "head";

/// The document that says until when somebody listens.
pub(super) const LISTENERS: &str = "listeners";

/// How the keys of all documents with events begin.
pub(super) const EVENTS: &str = "events/";

/// No log comes near this number, and what is added to it does not run over.
const MOST_NUMBER: u64 = 1 << 60;

/// How much of the event log stays for streams that come back (V2). Above it the oldest events go.
///
/// ```
/// # use std::time::Duration;
/// use backstop::{Config, EventLogLimits};
/// let a_day = EventLogLimits::default().keep(Duration::from_secs(86_400)).events(1_000_000);
/// let config = Config::default().event_log(a_day);
/// # drop(config);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventLogLimits {
    /// Events.
    pub events: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time.
    pub keep: Duration,
}

impl Default for EventLogLimits {
    fn default() -> Self {
        Self { events: 65_536, bytes: 64 * 1024 * 1024, keep: Duration::from_secs(60 * 60) }
    }
}

impl EventLogLimits {
    /// Keeps so many events at most.
    #[must_use]
    pub const fn events(mut self, most: u64) -> Self {
        self.events = most;
        self
    }

    /// Keeps so many bytes of them at most.
    #[must_use]
    pub const fn bytes(mut self, most: u64) -> Self {
        self.bytes = most;
        self
    }

    /// Keeps them for so long at most.
    #[must_use]
    pub const fn keep(mut self, span: Duration) -> Self {
        self.keep = span;
        self
    }
}

/// How far the log is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EventLogHead {
    /// Names this log: the numbers of another mean nothing here.
    pub(super) epoch: Arc<str>,
    /// The number before the oldest event that is kept.
    pub(super) before: u64,
    /// The latest number; the first is 1.
    pub(super) last: u64,
    /// Bytes of the documents that are kept.
    pub(super) bytes: u64,
}

impl EventLogHead {
    /// That of a log in which nothing is.
    pub(super) fn new() -> Self {
        let text = crate::ids::worker_id().to_string().replace('-', "");
        // The end of the id is its random part.
        let epoch = text.get(text.len().saturating_sub(16)..).unwrap_or(&text).into();
        Self { epoch, before: 0, last: 0, bytes: 0 }
    }

    /// True when it can be one of this program's: a damaged one is replaced, and nothing is counted on from it.
    pub(super) fn is_sound(&self) -> bool {
        let is_name = !self.epoch.is_empty() && self.epoch.chars().all(|c| c.is_ascii_alphanumeric());
        is_name && self.before <= self.last && self.last <= MOST_NUMBER && self.bytes <= MOST_NUMBER
    }

    /// True when more is kept than may be.
    pub(super) const fn is_over(&self, limits: &EventLogLimits) -> bool {
        self.last.saturating_sub(self.before) > limits.events || self.bytes > limits.bytes
    }
}

/// Until when somebody listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EventLogStreams {
    pub(super) until: Timestamp,
}

/// The change of one of the log's own documents.
pub(super) fn edit<T: Serialize>(key: &str, expect: Expect, body: &T) -> Edit {
    // Texts and numbers have no way to fail.
    let body = serde_json::to_string(body).unwrap_or_default();
    Edit { drawer: Drawer::EventLog, key: key.to_owned(), expect, body: Some(body.into()) }
}

/// What a change of a document rests on that was read, or was not there.
pub(super) fn expect(found: Option<&Document>) -> Expect {
    found.map_or(Expect::Absent, |document| Expect::Revision(document.revision))
}

/// The key of a document with events: `events/EPOCH/LAST-COUNT-AT`, so that the one behind a number is found by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventLogKey {
    /// The number of its last event.
    pub(super) last: u64,
    /// How many numbers it has.
    pub(super) count: u64,
    /// When it was written.
    pub(super) at: Timestamp,
}

impl EventLogKey {
    /// How the keys of one log begin.
    pub(super) fn prefix(epoch: &str) -> String {
        format!("{EVENTS}{epoch}/")
    }

    /// What is above the key of the document that ends with this number, and below every later one.
    pub(super) fn behind(epoch: &str, seq: u64) -> String {
        format!("{}{seq:020}~", Self::prefix(epoch))
    }

    pub(super) fn text(&self, epoch: &str) -> String {
        let Self { last, count, at } = self;
        format!("{}{last:020}-{count:06}-{:020}", Self::prefix(epoch), at.as_micros().max(0))
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let (_, rest) = text.strip_prefix(EVENTS)?.split_once('/')?;
        let mut parts = rest.splitn(3, '-');
        let (last, count) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let is_range = last <= MOST_NUMBER && (1..=last).contains(&count);
        let at = Timestamp::from_micros(parts.next()?.parse().ok()?);
        is_range.then_some(Self { last, count, at })
    }
}

/// The body of a document with events.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct KeptEvents<'a> {
    #[serde(borrow)]
    pub(super) parts: Vec<KeptEventPart<'a>>,
}

impl KeptEvents<'_> {
    /// How many numbers it has; none when that is no number.
    fn count(&self) -> Option<u64> {
        self.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.count))
    }
}

/// What one document of the outbox had.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeptEventPart<'a> {
    /// How many numbers it has.
    pub(super) count: u64,
    /// The document as it was; none when its events are lost.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) batch: Option<&'a RawValue>,
}

/// What the log reads of [`backstop_core::outbox::OutboxBatch`].
#[derive(Debug, Deserialize)]
struct KeptBatch<'a> {
    #[serde(borrow)]
    messages: Vec<KeptMessage<'a>>,
}

/// What the log reads of [`backstop_core::outbox::OutboxMessage`].
#[derive(Debug, Deserialize)]
struct KeptMessage<'a> {
    #[serde(default, rename = "id")]
    job: Option<JobId>,
    kind: Arc<str>,
    queue: Arc<str>,
    #[serde(default)]
    queues: BTreeSet<Arc<str>>,
    tenant: Arc<str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// What the log reads of an event.
#[derive(Debug, Deserialize)]
struct KeptName<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
}

/// An event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvent {
    /// Its number, by which it follows all earlier ones of every process.
    pub seq: u64,
    /// Its name, such as `dead`. A process of another version may tell of what this one does not know.
    pub name: String,
    /// The job that it is about.
    pub job: Option<JobId>,
    /// The kind that it is about.
    pub kind: Option<Arc<str>>,
    /// The queue that it is about.
    pub queue: Option<Arc<str>>,
    /// Whose workflow it is about, and on which queues, if it is about one.
    pub workflow: Option<LoggedWorkflow>,
    /// The event as JSON, on one line.
    pub data: String,
}

/// Who may be told of a workflow: whoever sees all its queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedWorkflow {
    /// Whose it is.
    pub tenant: Option<Arc<str>>,
    /// The queues of its jobs.
    pub queues: BTreeSet<Arc<str>>,
}

impl LoggedEvent {
    fn of(seq: u64, message: KeptMessage<'_>) -> Option<Self> {
        let KeptMessage { job, kind, queue, queues, tenant, data } = message;
        let name = serde_json::from_str::<KeptName<'_>>(data.get()).ok()?.event.into_owned();
        if name.chars().any(char::is_control) {
            return None;
        }
        let of_workflow = matches!(name.as_str(), "workflow" | "branch_taken");
        let tenant = Some(tenant).filter(|tenant| **tenant != *NO_TENANT);
        let named = |name: Arc<str>| Some(name).filter(|name| !name.is_empty());
        Some(Self {
            seq,
            job,
            kind: named(kind),
            queue: named(queue),
            workflow: of_workflow.then_some(LoggedWorkflow { tenant, queues }),
            // Between its parts JSON may have lines, and what is told of it may not.
            data: data.get().replace(['\n', '\r'], " "),
            name,
        })
    }
}

/// What comes next in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventLogEntry {
    /// An event.
    Told(LoggedEvent),
    /// Events that are not to be had: too much waited when they came, or they cannot be read.
    Lost {
        /// The number of the last of them.
        last: u64,
        /// How many they are.
        count: u64,
    },
}

impl EventLogEntry {
    /// Its first number.
    #[must_use]
    pub const fn first(&self) -> u64 {
        match self {
            Self::Told(event) => event.seq,
            Self::Lost { last, count } => (*last + 1).saturating_sub(*count),
        }
    }

    /// Its last number.
    #[must_use]
    pub const fn last(&self) -> u64 {
        match self {
            Self::Told(event) => event.seq,
            Self::Lost { last, .. } => *last,
        }
    }

    /// What a document has behind a number.
    pub(super) fn all_of(document: &Document, behind: u64) -> Vec<Self> {
        let Some(key) = EventLogKey::read(&document.key) else { return Vec::new() };
        let mut seq = key.last - key.count;
        let kept = serde_json::from_str::<KeptEvents<'_>>(&document.body).ok();
        // Its key says which numbers it has: they are no others, whatever it says itself.
        let Some(kept) = kept.filter(|kept| kept.count() == Some(key.count)) else {
            tracing::error!(
                key = document.key,
                "a document of the event log cannot be read; its events are lost"
            );
            let lost = Self::Lost { last: key.last, count: key.count };
            return lost.behind(behind).into_iter().collect();
        };
        let mut entries = Vec::new();
        for KeptEventPart { count, batch } in kept.parts.into_iter().filter(|part| part.count > 0) {
            let batch = batch.and_then(|batch| serde_json::from_str::<KeptBatch<'_>>(batch.get()).ok());
            let Some(batch) = batch.filter(|batch| batch.messages.len() as u64 == count) else {
                seq += count;
                entries.push(Self::Lost { last: seq, count });
                continue;
            };
            for message in batch.messages {
                seq += 1;
                let lost = Self::Lost { last: seq, count: 1 };
                entries.push(LoggedEvent::of(seq, message).map_or(lost, Self::Told));
            }
        }
        entries.into_iter().filter_map(|entry| entry.behind(behind)).collect()
    }

    /// What of it is behind a number.
    fn behind(self, seq: u64) -> Option<Self> {
        match self {
            _ if self.last() <= seq => None,
            Self::Lost { last, count } => Some(Self::Lost { last, count: count.min(last - seq) }),
            Self::Told(_) => Some(self),
        }
    }
}

/// A page of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventLogPage {
    /// What follows, in the order of its numbers. When the first is not the next number, what is between is no longer
    /// kept.
    pub entries: Vec<EventLogEntry>,
    /// True when more follows.
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(last: u64, count: u64, body: &str) -> Document {
        let key = EventLogKey { last, count, at: Timestamp::from_micros(7) };
        assert_eq!(EventLogKey::read(&key.text("e")), Some(key));
        Document { key: key.text("e"), revision: 1, body: body.into() }
    }

    fn told(names: &[&str]) -> String {
        let message = |name: &&str| {
            format!(
                r#"{{"type":"event","kind":"","queue":"","tenant":"acme","data":{{"a":[1],"event":"{name}"}}}}"#
            )
        };
        let messages: Vec<String> = names.iter().map(message).collect();
        format!(r#"{{"messages":[{}]}}"#, messages.join(","))
    }

    /// The numbers of a page: `-n` for what is lost up to n.
    fn numbers(document: &Document, behind: u64) -> Vec<(i64, u64)> {
        let number = |entry: EventLogEntry| match entry {
            EventLogEntry::Told(event) => (i64::try_from(event.seq).unwrap(), 1),
            EventLogEntry::Lost { last, count } => (-i64::try_from(last).unwrap(), count),
        };
        EventLogEntry::all_of(document, behind).into_iter().map(number).collect()
    }

    #[test]
    fn numbers_have_no_hole_whatever_cannot_be_read() {
        // V2
        let body = format!(
            r#"{{"parts":[{{"count":2,"batch":{}}},{{"count":3}},{{"count":1,"batch":7}},{{"count":1,"batch":{}}}]}}"#,
            told(&["paused", "workflow"]),
            told(&["resumed"]),
        );
        let all = document(20, 7, &body);
        assert_eq!(numbers(&all, 0), [(14, 1), (15, 1), (-18, 3), (-19, 1), (20, 1)]);
        assert_eq!(numbers(&all, 16), [(-18, 2), (-19, 1), (20, 1)], "a part of what is lost");
        assert!(numbers(&all, 20).is_empty());
        assert_eq!(numbers(&document(5, 5, "no JSON"), 1), [(-5, 4)]);
        // C7: what a document says of itself changes no other number.
        let most = u64::MAX;
        for body in [
            format!(r#"{{"parts":[{{"count":{most}}},{{"count":2}}]}}"#),
            r#"{"parts":[{"count":6}]}"#.to_owned(),
            r#"{"parts":[{"count":4}]}"#.to_owned(),
        ] {
            assert_eq!(numbers(&document(25, 5, &body), 0), [(-25, 5)], "{body}");
        }
        let with_nothing =
            format!(r#"{{"parts":[{{"count":0}},{{"count":1,"batch":{}}}]}}"#, told(&["paused"]));
        assert_eq!(numbers(&document(1, 1, &with_nothing), 0), [(1, 1)]);
        let EventLogEntry::Told(event) = EventLogEntry::all_of(&all, 14).remove(0) else {
            panic!("it is lost")
        };
        assert_eq!(
            (event.name.as_str(), event.data.as_str()),
            ("workflow", r#"{"a":[1],"event":"workflow"}"#)
        );
        let workflow = event.workflow.expect("it is about one");
        assert_eq!((workflow.tenant.as_deref(), event.queue, event.job), (Some("acme"), None, None));
    }

    #[test]
    fn what_is_damaged_is_no_part_of_the_log() {
        // C7
        let at = "00000000000000000007";
        for (last, count, is_key) in
            [(3, 3, true), (3, 4, false), (3, 0, false), (0, 0, false), (u64::MAX, 1, false)]
        {
            let key = format!("events/e/{last:020}-{count:06}-{at}");
            assert_eq!(EventLogKey::read(&key).is_some(), is_key, "{key}");
        }
        assert!(EventLogHead::new().is_sound());
        let head = |epoch: &str, before, last| EventLogHead { epoch: epoch.into(), before, last, bytes: 0 };
        assert!(head("9f3c", 4, 9).is_sound());
        for damaged in [head("9f3c", 9, 4), head("9f3c", 0, u64::MAX), head("", 0, 0), head("a\nb", 0, 0)] {
            assert!(!damaged.is_sound(), "{damaged:?}");
        }
    }

    #[test]
    fn the_document_behind_a_number_is_found_by_its_key() {
        // V2
        let key = |last| EventLogKey { last, count: 3, at: Timestamp::from_micros(7) }.text("e");
        let behind = EventLogKey::behind("e", 12);
        assert!(key(12) < behind && behind < key(13) && key(9) < key(10) && key(99) < key(100));
    }
}

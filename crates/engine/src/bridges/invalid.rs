//! The invalid channel of a bridge (B4): messages that cannot be jobs, with their raw bytes and the reason.
//!
//! It is bounded, and what is in it is never overwritten: a bridge whose channel is full takes no more messages until
//! somebody has looked, exported and removed. So nothing is lost, and a flood of bad messages cannot fill the store.

use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_core::digest::hexadecimal;
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Store,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::engine::Backstop;

/// Messages that the channel of one bridge holds at most.
pub const MOST_INVALID: u64 = 10_000;

/// Bytes of a body that are kept of a message which its broker keeps.
const SAMPLE_BYTES: usize = 64 * 1024;

/// Bytes that are written in one transaction, unless a single message has more.
const BYTES_TOGETHER: usize = 4 * 1024 * 1024;

/// How often a write is tried again when another node writes at the same moment.
const TRIES: usize = 20;

/// One message that cannot be a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidMessage {
    /// Its name in the channel: a digest of its id, so that the same message is kept once.
    #[serde(default, skip_serializing)]
    pub key: String,
    /// When it was written.
    pub at: Timestamp,
    /// The id of the message.
    pub id: String,
    /// Why it cannot be a job.
    pub reason: String,
    /// Bytes of its body.
    pub bytes: u64,
    /// SHA-256 of its body.
    pub sha256: String,
    /// Its body, as base64; the beginning of it when `abandoned` is true.
    pub body: String,
    /// Its headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// True when it was too large to be kept here: its broker has it among its dead letters.
    #[serde(default)]
    pub abandoned: bool,
}

impl InvalidMessage {
    /// A message that cannot be a job: `id` and `body` as they came. Of one that its broker keeps (`abandoned`) a
    /// sample is kept here.
    #[must_use]
    pub fn new(id: &str, body: &[u8], headers: &[(String, String)], reason: String, abandoned: bool) -> Self {
        let kept = if abandoned { SAMPLE_BYTES.min(body.len()) } else { body.len() };
        let sha256 = digest(body);
        Self {
            // The body is part of it: two messages of one id that differ are both worth keeping.
            key: digest(format!("{id}/{sha256}").as_bytes()),
            at: Timestamp::EPOCH,
            id: id.chars().take(1_000).collect(),
            reason,
            bytes: body.len() as u64,
            sha256,
            body: BASE64_STANDARD.encode(&body[..kept]),
            headers: if abandoned { Vec::new() } else { headers.to_vec() },
            abandoned,
        }
    }

    /// The raw bytes, or the beginning of them when [`InvalidMessage::abandoned`].
    #[must_use]
    pub fn raw(&self) -> Vec<u8> {
        BASE64_STANDARD.decode(&self.body).unwrap_or_default()
    }

    fn size(&self) -> usize {
        self.body.len() + self.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
    }
}

/// A page of invalid messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPage {
    /// The messages, by key.
    pub items: Vec<InvalidMessage>,
    /// The key that the next page goes on after.
    pub next: Option<String>,
}

/// What became of messages that were to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenInvalid {
    /// All are kept; so many of them were not before.
    Kept(u64),
    /// There is no room for all of them; those that had room are kept.
    Full,
}

/// The invalid channels of all bridges of a store.
#[derive(Debug, Clone)]
pub struct InvalidMessages {
    engine: Backstop,
}

impl InvalidMessages {
    /// Those of this engine's store.
    #[must_use]
    pub fn of(engine: &Backstop) -> Self {
        Self { engine: engine.clone() }
    }

    fn store(&self) -> &dyn Store {
        &**self.engine.store()
    }

    /// How many messages the channel of a bridge holds.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn count(&self, bridge: &str) -> Result<u64, StoreError> {
        let found = self.store().named_documents(vec![(Drawer::InvalidMessages, count_key(bridge))]).await?;
        Ok(counted(found.first().and_then(Option::as_ref)))
    }

    /// How many messages the channels of these bridges hold, in one statement.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn counts(&self, bridges: &[&str]) -> Result<Vec<u64>, StoreError> {
        let name = |bridge: &&str| (Drawer::InvalidMessages, count_key(bridge));
        let found = self.store().named_documents(bridges.iter().map(name).collect()).await?;
        Ok(found.iter().map(|document| counted(document.as_ref())).collect())
    }

    /// Messages of a bridge, by key.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn page(
        &self,
        bridge: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<InvalidPage, StoreError> {
        let mut range = DocumentRange::first(Drawer::InvalidMessages, limit).under(item_key(bridge, ""));
        range.after = after.map(|key| item_key(bridge, key));
        let found = self.store().documents(range).await?;
        let items: Vec<InvalidMessage> =
            found.items.iter().filter_map(|document| read(bridge, document)).collect();
        // Of the last document, whether it could be read or not: one that cannot must not hide those behind it.
        let key = |document: &Document| document.key.strip_prefix(&item_key(bridge, "")).map(str::to_owned);
        let next = found.items.last().filter(|_| found.more).and_then(key);
        Ok(InvalidPage { items, next })
    }

    /// Removes messages of a bridge by their keys; answers how many were there.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn remove(&self, bridge: &str, keys: &[String]) -> Result<u64, StoreError> {
        for _ in 0..TRIES {
            let state = ChannelState::read(self.store(), bridge, keys.iter().cloned()).await?;
            let there: Vec<&Document> = state.items.iter().flatten().collect();
            let gone = |document: &&Document| Edit {
                drawer: Drawer::InvalidMessages,
                key: document.key.clone(),
                expect: Expect::Revision(document.revision),
                body: None,
            };
            let mut edits: Vec<Edit> = there.iter().map(gone).collect();
            let removed = edits.len() as u64;
            if removed == 0 {
                return Ok(0);
            }
            edits.push(state.count_edit(bridge, state.count.saturating_sub(removed)));
            if let Amended::Done { .. } = self.store().amend(Amend { edits, ..Amend::default() }).await? {
                return Ok(removed);
            }
        }
        Err(contended(self.store()))
    }

    /// Keeps messages. An `Ok` means that they are durable, as far as there is room.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn put(
        &self,
        bridge: &str,
        messages: Vec<InvalidMessage>,
    ) -> Result<WrittenInvalid, StoreError> {
        let mut kept = 0;
        for group in grouped(messages) {
            match self.put_together(bridge, group).await? {
                WrittenInvalid::Kept(more) => kept += more,
                WrittenInvalid::Full => return Ok(WrittenInvalid::Full),
            }
        }
        Ok(WrittenInvalid::Kept(kept))
    }

    async fn put_together(
        &self,
        bridge: &str,
        mut messages: Vec<InvalidMessage>,
    ) -> Result<WrittenInvalid, StoreError> {
        messages.sort_by(|one, other| one.key.cmp(&other.key));
        messages.dedup_by(|one, other| one.key == other.key);
        for _ in 0..TRIES {
            let keys = messages.iter().map(|message| message.key.clone());
            let state = ChannelState::read(self.store(), bridge, keys).await?;
            let now = self.store().now().await?;
            let is_new = |(_, stored): &(&InvalidMessage, &Option<Document>)| stored.is_none();
            let new: Vec<&InvalidMessage> =
                messages.iter().zip(&state.items).filter(is_new).map(|(message, _)| message).collect();
            let more = new.len() as u64;
            if more == 0 {
                return Ok(WrittenInvalid::Kept(0));
            }
            if state.count.saturating_add(more) > MOST_INVALID {
                return Ok(WrittenInvalid::Full);
            }
            let mut edits: Vec<Edit> = new.iter().map(|message| added(bridge, message, now)).collect();
            edits.push(state.count_edit(bridge, state.count.saturating_add(more)));
            if let Amended::Done { .. } = self.store().amend(Amend { edits, ..Amend::default() }).await? {
                return Ok(WrittenInvalid::Kept(more));
            }
        }
        Err(contended(self.store()))
    }
}

/// What a write rests on.
struct ChannelState {
    items: Vec<Option<Document>>,
    count: u64,
    revision: Option<i64>,
}

impl ChannelState {
    async fn read(
        store: &dyn Store,
        bridge: &str,
        keys: impl Iterator<Item = String>,
    ) -> Result<Self, StoreError> {
        let name = |key: String| (Drawer::InvalidMessages, key);
        let names = keys.map(|key| name(item_key(bridge, &key))).chain([name(count_key(bridge))]).collect();
        let mut items = store.named_documents(names).await?;
        let count = items.pop().flatten();
        Ok(Self { items, count: counted(count.as_ref()), revision: count.map(|count| count.revision) })
    }

    fn count_edit(&self, bridge: &str, count: u64) -> Edit {
        Edit {
            drawer: Drawer::InvalidMessages,
            key: count_key(bridge),
            expect: self.revision.map_or(Expect::Absent, Expect::Revision),
            body: Some(count.to_string().into()),
        }
    }
}

fn added(bridge: &str, message: &InvalidMessage, now: Timestamp) -> Edit {
    let message = InvalidMessage { at: now, ..message.clone() };
    // Texts and numbers: there is no way to fail.
    let body: Arc<str> = serde_json::to_string(&message).unwrap_or_default().into();
    Edit {
        drawer: Drawer::InvalidMessages,
        key: item_key(bridge, &message.key),
        expect: Expect::Absent,
        body: Some(body),
    }
}

fn read(bridge: &str, document: &Document) -> Option<InvalidMessage> {
    let mut message: InvalidMessage = serde_json::from_str(&document.body).ok()?;
    message.key = document.key.strip_prefix(&item_key(bridge, ""))?.to_owned();
    Some(message)
}

/// SHA-256 in hexadecimal digits.
fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Names of bridges have no slash, so that these never meet.
fn item_key(bridge: &str, key: &str) -> String {
    format!("item/{bridge}/{key}")
}

fn count_key(bridge: &str) -> String {
    format!("count/{bridge}")
}

fn counted(document: Option<&Document>) -> u64 {
    document.and_then(|document| document.body.parse().ok()).unwrap_or_default()
}

fn contended(store: &dyn Store) -> StoreError {
    let waits_for = "other nodes write to the same invalid channel".to_owned();
    StoreError::Busy { location: store.info().location, waits_for }
}

/// Groups that are written in one transaction each.
fn grouped(messages: Vec<InvalidMessage>) -> Vec<Vec<InvalidMessage>> {
    let mut groups: Vec<Vec<InvalidMessage>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        bytes += message.size();
        match groups.last_mut() {
            Some(group) if bytes <= BYTES_TOGETHER => group.push(message),
            _ => {
                bytes = message.size();
                groups.push(vec![message]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invalid(id: &str, body: &[u8]) -> InvalidMessage {
        InvalidMessage::new(id, body, &[("a".into(), "b".into())], "no".into(), false)
    }

    #[tokio::test]
    async fn raw_bytes_come_back_and_the_same_message_is_kept_once() {
        // B4
        let channel = InvalidMessages::of(&Backstop::open("memory:").await.unwrap());
        let raw = b"\xff\0{\"a\":\r\n";
        let both = vec![invalid("1", raw), invalid("2", b""), invalid("1", raw)];
        assert_eq!(channel.put("orders", both.clone()).await.unwrap(), WrittenInvalid::Kept(2));
        assert_eq!(channel.put("orders", both).await.unwrap(), WrittenInvalid::Kept(0));
        assert_eq!(channel.put("others", vec![invalid("1", raw)]).await.unwrap(), WrittenInvalid::Kept(1));
        assert_eq!((channel.count("orders").await.unwrap(), channel.count("others").await.unwrap()), (2, 1));
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = channel.page("orders", after.as_deref(), 1).await.unwrap();
            found.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        found.sort_by(|one, other| one.id.cmp(&other.id));
        assert_eq!(found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(
            (found[0].raw().as_slice(), found[0].bytes, found[0].reason.as_str()),
            (&raw[..], 9, "no")
        );
        assert_eq!(found[0].headers, [("a".to_owned(), "b".to_owned())]);
        let keys = [found[0].key.clone(), "absent".to_owned()];
        assert_eq!(channel.remove("orders", &keys).await.unwrap(), 1);
        assert_eq!(channel.remove("orders", &keys).await.unwrap(), 0);
        assert_eq!(channel.count("orders").await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_full_channel_takes_no_more_and_loses_nothing() {
        // B4
        let engine = Backstop::open("memory:").await.unwrap();
        let channel = InvalidMessages::of(&engine);
        let count = Edit {
            drawer: Drawer::InvalidMessages,
            key: count_key("orders"),
            expect: Expect::Absent,
            body: Some((MOST_INVALID - 1).to_string().into()),
        };
        engine.store().amend(Amend { edits: vec![count], ..Amend::default() }).await.unwrap();
        let two = vec![invalid("1", b"x"), invalid("2", b"x")];
        assert_eq!(channel.put("orders", two).await.unwrap(), WrittenInvalid::Full);
        assert_eq!(channel.put("orders", vec![invalid("1", b"x")]).await.unwrap(), WrittenInvalid::Kept(1));
        assert_eq!(channel.put("orders", vec![invalid("1", b"x")]).await.unwrap(), WrittenInvalid::Kept(0));
        assert_eq!(channel.put("orders", vec![invalid("2", b"x")]).await.unwrap(), WrittenInvalid::Full);
    }

    #[test]
    fn a_message_that_its_broker_keeps_leaves_a_sample_and_its_digest() {
        let body = vec![b'x'; SAMPLE_BYTES + 1];
        let kept = InvalidMessage::new("1", &body, &[("a".into(), "b".into())], "too large".into(), true);
        assert_eq!(
            (kept.raw().len(), kept.bytes, kept.sha256),
            (SAMPLE_BYTES, body.len() as u64, digest(&body))
        );
        assert!(kept.abandoned && kept.headers.is_empty());
    }

    #[test]
    fn large_messages_are_written_apart() {
        let large = vec![b'x'; BYTES_TOGETHER / 2];
        let all = vec![invalid("1", b"a"), invalid("2", &large), invalid("3", &large), invalid("4", b"b")];
        let groups: Vec<usize> = grouped(all).iter().map(Vec::len).collect();
        assert_eq!(groups, [2, 2]);
    }
}

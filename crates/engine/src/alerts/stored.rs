//! Logs of channels as documents of the store: keys, reading, writing. What they mean is [`ChannelLog`]'s.
//!
//! A log with something to tell has a key under `open`, every other under `told`: what is to be done is found
//! without reading what was done.

use std::collections::HashSet;
use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_store::{
    Document, DocumentRange, Documents, Drawer, Edit, Error as StoreError, Expect, Page, WorkStore,
};

use super::channel_log::ChannelLog;
use super::{AlertChannel, Alerts};

/// Characters of a channel's name in a key.
const NAME_CHARS: usize = 64;

/// A channel with the name under which its logs are kept.
#[derive(Clone)]
pub(crate) struct NamedChannel {
    pub(crate) name: String,
    pub(crate) channel: Arc<dyn AlertChannel>,
}

/// The channels of an engine; one that has the name of an earlier one gets a number.
pub(crate) fn named_channels(alerts: &Alerts) -> Vec<NamedChannel> {
    let mut taken = HashSet::new();
    let mut named_channels = Vec::with_capacity(alerts.channels.len());
    for channel in &alerts.channels {
        let plain: String = channel.name().chars().take(NAME_CHARS).collect();
        let plain = plain.replace('/', "_");
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(|name| !taken.contains(name));
        let name = name.unwrap_or(plain);
        taken.insert(name.clone());
        named_channels.push(NamedChannel { name, channel: channel.clone() });
    }
    named_channels
}

/// A log as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredChannelLog {
    pub(crate) incident: String,
    pub(crate) log: ChannelLog,
    /// Where it is, and what its change rests on; none for one that is not stored yet.
    at: Option<(String, i64)>,
}

fn open(channel: &str) -> String {
    format!("{channel}/open/")
}

fn key(channel: &str, incident: &str, open: bool) -> String {
    format!("{channel}/{}/{incident}", if open { "open" } else { "told" })
}

/// The changes that forget what a channel was told of an incident.
pub(crate) fn removals(channel: &str, incident: &str) -> [Edit; 2] {
    [true, false].map(|open| {
        let key = key(channel, incident, open);
        Edit { drawer: Drawer::AlertLog, key, expect: Expect::Any, body: None }
    })
}

/// A page of logs with something to tell, and the key to go on after.
pub(crate) struct OpenPage {
    pub(crate) now: Timestamp,
    pub(crate) items: Vec<StoredChannelLog>,
    pub(crate) next: Option<String>,
}

/// Reads logs that have something to tell.
pub(crate) async fn open_page(
    store: &dyn WorkStore,
    channel: &str,
    after: Option<String>,
    limit: usize,
) -> Result<OpenPage, StoreError> {
    let prefix = open(channel);
    let range =
        DocumentRange { after, ..DocumentRange::first(Drawer::AlertLog, limit).under(prefix.clone()) };
    let found = store.documents(range).await?;
    let next = found.items.last().filter(|_| found.more).map(|last| last.key.clone());
    let items = read(&found, &prefix);
    Ok(OpenPage { now: found.now, items, next })
}

fn read(found: &Documents, prefix: &str) -> Vec<StoredChannelLog> {
    let stored = found.items.iter().map(|document| StoredChannelLog {
        incident: document.key.strip_prefix(prefix).unwrap_or_default().to_owned(),
        log: serde_json::from_str(&document.body).unwrap_or_else(|error| {
            // A new log is better than none: it only forgets what it was told.
            tracing::warn!(key = %document.key, %error, "the alert log of a channel cannot be read and starts over");
            ChannelLog::default()
        }),
        at: Some((document.key.clone(), document.revision)),
    });
    stored.collect()
}

/// Every log, with its channel, by the order of keys.
pub(crate) async fn all(
    store: &dyn WorkStore,
    after: Option<String>,
    limit: usize,
) -> Result<Page<(String, StoredChannelLog), String>, StoreError> {
    let found =
        store.documents(DocumentRange { after, ..DocumentRange::first(Drawer::AlertLog, limit) }).await?;
    let next = found.items.last().filter(|_| found.more).map(|last| last.key.clone());
    let channel = |document: &Document| document.key.split('/').next().unwrap_or_default().to_owned();
    let channels: Vec<String> = found.items.iter().map(channel).collect();
    let mut items: Vec<_> = channels.into_iter().zip(read(&found, "")).collect();
    for (_, stored) in &mut items {
        // Channel, whether it is open, incident.
        stored.incident = stored.incident.splitn(3, '/').nth(2).unwrap_or_default().to_owned();
    }
    Ok(Page { items, next })
}

/// The log of one incident, if there is one.
pub(crate) async fn one(
    store: &dyn WorkStore,
    channel: &str,
    incident: &str,
) -> Result<Option<StoredChannelLog>, StoreError> {
    for is_open in [true, false] {
        let exact = key(channel, incident, is_open);
        // A longer key may begin with this one; the shorter comes first.
        let mut found =
            store.documents(DocumentRange::first(Drawer::AlertLog, 1).under(exact.clone())).await?;
        found.items.retain(|document| document.key == exact);
        let prefix = exact.strip_suffix(incident).unwrap_or_default();
        if let Some(stored) = read(&found, prefix).pop() {
            return Ok(Some(stored));
        }
    }
    Ok(None)
}

impl StoredChannelLog {
    /// The log of an incident that the channel has not heard of.
    pub(crate) fn new(incident: &str) -> Self {
        Self { incident: incident.to_owned(), log: ChannelLog::default(), at: None }
    }

    /// The changes that write it, each resting on what was read.
    pub(crate) fn edits(&self, channel: &str) -> Vec<Edit> {
        let key = key(channel, &self.incident, self.log.is_open());
        // A struct of texts, numbers and moments has no way to fail.
        let body = serde_json::to_string(&self.log).expect("a log is plain JSON").into();
        let edit = |key, expect, body| Edit { drawer: Drawer::AlertLog, key, expect, body };
        match &self.at {
            Some((place, revision)) if *place == key => {
                vec![edit(key, Expect::Revision(*revision), Some(body))]
            }
            Some((place, revision)) => vec![
                edit(place.clone(), Expect::Revision(*revision), None),
                edit(key, Expect::Absent, Some(body)),
            ],
            None => vec![edit(key, Expect::Absent, Some(body))],
        }
    }

    /// Follows its own change, once that is written.
    pub(crate) fn written(&mut self, channel: &str) {
        let key = key(channel, &self.incident, self.log.is_open());
        let revision = match &self.at {
            Some((place, revision)) if *place == key => revision + 1,
            _ => 1,
        };
        self.at = Some((key, revision));
    }
}

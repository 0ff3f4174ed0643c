//! Accounts of alerts as documents of the store: keys, reading, writing. What they mean is [`Line`]'s.
//!
//! An account with something to tell has a key under `open`, every other under `told`: what is to be done is found
//! without reading what was done.

use std::collections::HashSet;
use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_store::{
    Document, DocumentRange, Documents, Drawer, Edit, Error as StoreError, Expect, Page, Store,
};

use super::line::Line;
use super::{AlertChannel, Alerts};

/// Characters of a channel's name in a key.
const NAME_CHARS: usize = 64;

/// A channel with the name under which its accounts are kept.
#[derive(Clone)]
pub(crate) struct Outlet {
    pub(crate) name: String,
    pub(crate) channel: Arc<dyn AlertChannel>,
}

/// The channels of an engine; one that has the name of an earlier one gets a number.
pub(crate) fn outlets(alerts: &Alerts) -> Vec<Outlet> {
    let mut taken = HashSet::new();
    let mut outlets = Vec::with_capacity(alerts.channels.len());
    for channel in &alerts.channels {
        let plain: String = channel.name().chars().take(NAME_CHARS).collect();
        let plain = plain.replace('/', "_");
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(|name| !taken.contains(name));
        let name = name.unwrap_or(plain);
        taken.insert(name.clone());
        outlets.push(Outlet { name, channel: channel.clone() });
    }
    outlets
}

/// An account as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Filed {
    pub(crate) incident: String,
    pub(crate) line: Line,
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

/// A page of accounts with something to tell, and the key to go on after.
pub(crate) struct OpenPage {
    pub(crate) now: Timestamp,
    pub(crate) items: Vec<Filed>,
    pub(crate) next: Option<String>,
}

/// Reads accounts that have something to tell.
pub(crate) async fn open_page(
    store: &dyn Store,
    channel: &str,
    after: Option<String>,
    limit: usize,
) -> Result<OpenPage, StoreError> {
    let prefix = open(channel);
    let shelf =
        DocumentRange { after, ..DocumentRange::first(Drawer::AlertLog, limit).under(prefix.clone()) };
    let found = store.documents(shelf).await?;
    let next = found.items.last().filter(|_| found.more).map(|last| last.key.clone());
    let items = read(&found, &prefix);
    Ok(OpenPage { now: found.now, items, next })
}

fn read(found: &Documents, prefix: &str) -> Vec<Filed> {
    let filed = found.items.iter().map(|document| Filed {
        incident: document.key.strip_prefix(prefix).unwrap_or_default().to_owned(),
        line: serde_json::from_str(&document.body).unwrap_or_else(|error| {
            // A new account is better than none: it only forgets what it was told.
            tracing::warn!(key = %document.key, %error, "an account of alerts cannot be read and starts over");
            Line::default()
        }),
        at: Some((document.key.clone(), document.revision)),
    });
    filed.collect()
}

/// Every account, with its channel, by the order of keys.
pub(crate) async fn all(
    store: &dyn Store,
    after: Option<String>,
    limit: usize,
) -> Result<Page<(String, Filed), String>, StoreError> {
    let found =
        store.documents(DocumentRange { after, ..DocumentRange::first(Drawer::AlertLog, limit) }).await?;
    let next = found.items.last().filter(|_| found.more).map(|last| last.key.clone());
    let channel = |document: &Document| document.key.split('/').next().unwrap_or_default().to_owned();
    let channels: Vec<String> = found.items.iter().map(channel).collect();
    let mut items: Vec<_> = channels.into_iter().zip(read(&found, "")).collect();
    for (_, filed) in &mut items {
        // Channel, whether it is open, incident.
        filed.incident = filed.incident.splitn(3, '/').nth(2).unwrap_or_default().to_owned();
    }
    Ok(Page { items, next })
}

/// The account of one incident, if there is one.
pub(crate) async fn one(
    store: &dyn Store,
    channel: &str,
    incident: &str,
) -> Result<Option<Filed>, StoreError> {
    for is_open in [true, false] {
        let exact = key(channel, incident, is_open);
        // A longer key may begin with this one; the shorter comes first.
        let mut found =
            store.documents(DocumentRange::first(Drawer::AlertLog, 1).under(exact.clone())).await?;
        found.items.retain(|document| document.key == exact);
        let prefix = exact.strip_suffix(incident).unwrap_or_default();
        if let Some(filed) = read(&found, prefix).pop() {
            return Ok(Some(filed));
        }
    }
    Ok(None)
}

impl Filed {
    /// The account of an incident that the channel has not heard of.
    pub(crate) fn new(incident: &str) -> Self {
        Self { incident: incident.to_owned(), line: Line::default(), at: None }
    }

    /// The changes that write it, each resting on what was read.
    pub(crate) fn edits(&self, channel: &str) -> Vec<Edit> {
        let key = key(channel, &self.incident, self.line.is_open());
        // A struct of texts, numbers and moments has no way to fail.
        let body = serde_json::to_string(&self.line).expect("an account is plain JSON").into();
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
        let key = key(channel, &self.incident, self.line.is_open());
        let revision = match &self.at {
            Some((place, revision)) if *place == key => revision + 1,
            _ => 1,
        };
        self.at = Some((key, revision));
    }
}

//! Subscriptions as the store keeps them, and which events each of them wants.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use backstop::Timestamp;
use backstop::sinks::{
    EventScope, MOST_SINKS, MessageBody, OutboxMessage, OutboxSinks, Sink, SinkLimits, SinkProblem,
    WEBHOOK_SINKS,
};
use backstop_core::tenant;
use backstop_store::{Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::delivery::QUEUE;
use crate::stream::local_names;

/// Subscriptions that one store may have.
pub(crate) const MOST: usize = MOST_SINKS;

/// How much may wait for one of them to become jobs. What comes above that is refused and counted.
pub(super) const LIMITS: SinkLimits = SinkLimits { documents: 10_000, bytes: 32 * 1024 * 1024 };

/// Who wants to be told of what, and where.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Subscription {
    /// Its id.
    pub(crate) id: String,
    /// Where to post to. Its path is a secret with many receivers.
    pub(crate) url: String,
    /// What messages are signed with.
    pub(crate) secret: String,
    /// Names of events; none for all.
    pub(crate) events: Option<Vec<String>>,
    /// Queues, by the names of the store; none for all.
    pub(crate) queues: Option<Vec<String>>,
    /// The one tenant whose events it gets, under that tenant's own names.
    pub(crate) tenant: Option<String>,
    /// When it was made, by the store's clock.
    pub(crate) created_at: Timestamp,
    /// By whom.
    pub(crate) created_by: String,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Subscription {
    /// The sink in which the outbox keeps what waits for it.
    pub(super) fn sink(&self) -> Sink {
        let set =
            |list: &Option<Vec<String>>| list.iter().flatten().map(|name| name.as_str().into()).collect();
        let scope = EventScope {
            names: set(&self.events),
            queues: set(&self.queues),
            // Telling of deliveries would make deliveries to tell of.
            except: BTreeSet::from([Arc::from(QUEUE)]),
            tenant: self.tenant.as_deref().map(Into::into),
        };
        Sink::of_webhook(&self.id, scope)
    }

    /// The event of a message as this subscriber gets it; none when it does not want it. Its sink holds nothing else,
    /// unless a process has written it that knows of sinks and not of what they want.
    pub(super) fn view(&self, message: &OutboxMessage) -> Option<Value> {
        let MessageBody::Event { data } = &message.body else { return None };
        let queue = Some(&*message.queue).filter(|queue| !queue.is_empty());
        let listed = |list: &Option<Vec<String>>, name: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|one| one == name))
        };
        let is_told = data["event"].as_str().is_some_and(|name| listed(&self.events, name));
        let is_on = queue.is_none_or(|queue| queue != QUEUE && listed(&self.queues, queue));
        if !is_told || !is_on {
            return None;
        }
        let Some(tenant) = &self.tenant else { return Some(data.clone()) };
        let is_theirs = queue.is_none_or(|queue| tenant::of_queue(queue) == Some(tenant.as_str()));
        is_theirs.then(|| local_names(data.clone(), tenant))
    }

    fn read(document: &Document) -> Option<Self> {
        let read = serde_json::from_str::<Self>(&document.body).ok();
        // One with another id, or an id that no sink can have, is damaged too.
        let read = read.filter(|read| read.id == document.key && read.sink().check().is_ok());
        if read.is_none() {
            tracing::error!(webhook = %document.key, "a webhook's document cannot be read");
        }
        read
    }
}

/// The sink of the subscription with this id.
pub(super) fn sink_name(id: &str) -> String {
    format!("{WEBHOOK_SINKS}{id}")
}

/// The ids of all subscriptions, with what this program can read of them.
pub(super) async fn stored(store: &dyn Store) -> Result<Vec<(String, Option<Subscription>)>, StoreError> {
    // More than there may be: two that were made at the same time may both have been the last.
    let found = store.documents(DocumentRange::first(Drawer::Webhooks, 2 * MOST)).await?;
    let read = |document: Document| {
        let subscription = Subscription::read(&document);
        (document.key, subscription)
    };
    Ok(found.items.into_iter().map(read).collect())
}

/// Every subscription, by id.
pub(crate) async fn all(store: &dyn Store) -> Result<Vec<Subscription>, StoreError> {
    Ok(stored(store).await?.into_iter().filter_map(|(_, subscription)| subscription).collect())
}

/// One subscription.
pub(crate) async fn one(store: &dyn Store, id: &str) -> Result<Option<Subscription>, StoreError> {
    let found = store.documents(DocumentRange::first(Drawer::Webhooks, 1).under(id)).await?;
    Ok(found.items.iter().find(|document| document.key == id).and_then(Subscription::read))
}

/// Keeps a new subscription, with its sink.
pub(crate) async fn add(sinks: OutboxSinks<'_>, subscription: &Subscription) -> Result<(), SinkProblem> {
    // Plain data: writing it to memory cannot fail.
    let body = serde_json::to_string(subscription).unwrap_or_default().into();
    let edit = edit(&subscription.id, Expect::Absent, Some(body));
    sinks.set_with(&subscription.sink(), LIMITS, vec![edit]).await
}

/// Removes a subscription, with its sink and what waits there.
pub(crate) async fn remove(sinks: OutboxSinks<'_>, id: &str) -> Result<(), StoreError> {
    sinks.remove_with(&sink_name(id), vec![edit(id, Expect::Any, None)]).await.map(drop)
}

fn edit(id: &str, expect: Expect, body: Option<Arc<str>>) -> Edit {
    Edit { drawer: Drawer::Webhooks, key: id.to_owned(), expect, body }
}

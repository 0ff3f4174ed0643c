//! Subscriptions as the store keeps them, and which events each of them wants.

use std::fmt;

use backstop::{Event, Timestamp};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Store,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::delivery::QUEUE;
use crate::stream::{about, is_on, of_tenant};

/// Subscriptions that one store may have.
pub(crate) const MOST: usize = 100;

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
    /// The event as this subscriber gets it; none when it does not want it or must not see it.
    pub(crate) fn view(&self, event: &Event) -> Option<Value> {
        let (queue, _) = about(event);
        // Telling of deliveries would make deliveries to tell of.
        if queue == Some(QUEUE) {
            return None;
        }
        let listed = |list: &Option<Vec<String>>, name: Option<&str>| {
            list.as_ref().is_none_or(|list| name.is_some_and(|name| list.iter().any(|one| one == name)))
        };
        let on_queue = self.queues.as_ref().is_none_or(|queues| is_on(event, queues));
        if !listed(&self.events, Some(event.what.name())) || !on_queue {
            return None;
        }
        let Some(tenant) = &self.tenant else { return serde_json::to_value(event).ok() };
        match event.workflow() {
            Some(workflow) if workflow.tenant.as_deref() == Some(tenant) => {}
            Some(_) => return None,
            None => drop(queue?.strip_prefix(tenant.as_str())?.strip_prefix('/')?),
        }
        Some(of_tenant(event, tenant))
    }

    fn read(document: &Document) -> Option<Self> {
        let read = serde_json::from_str(&document.body);
        read.inspect_err(|_| tracing::error!(webhook = %document.key, "a webhook's document cannot be read"))
            .ok()
    }
}

/// Every subscription, by id.
pub(crate) async fn all(store: &dyn Store) -> Result<Vec<Subscription>, StoreError> {
    let found = store.documents(DocumentRange::first(Drawer::Webhooks, MOST)).await?;
    Ok(found.items.iter().filter_map(Subscription::read).collect())
}

/// One subscription.
pub(crate) async fn one(store: &dyn Store, id: &str) -> Result<Option<Subscription>, StoreError> {
    let found = store.documents(DocumentRange::first(Drawer::Webhooks, 1).under(id)).await?;
    Ok(found.items.iter().find(|document| document.key == id).and_then(Subscription::read))
}

/// Keeps a new subscription.
pub(crate) async fn add(store: &dyn Store, subscription: &Subscription) -> Result<(), StoreError> {
    // Plain data: writing it to memory cannot fail.
    let body = serde_json::to_string(subscription).unwrap_or_default().into();
    edit(store, &subscription.id, Expect::Absent, Some(body)).await.map(drop)
}

/// Removes a subscription; false when there is none.
pub(crate) async fn remove(store: &dyn Store, id: &str) -> Result<bool, StoreError> {
    if one(store, id).await?.is_none() {
        return Ok(false);
    }
    edit(store, id, Expect::Any, None).await
}

async fn edit(
    store: &dyn Store,
    id: &str,
    expect: Expect,
    body: Option<std::sync::Arc<str>>,
) -> Result<bool, StoreError> {
    let edit = Edit { drawer: Drawer::Webhooks, key: id.to_owned(), expect, body };
    let amended = store.amend(Amend { edits: vec![edit], ..Amend::default() }).await?;
    Ok(matches!(amended, Amended::Done { .. }))
}

//! Tells the store what queues let in, for clients that come by another door than this engine (L12).
//!
//! Settings live in programs, and the SQL function of PostgreSQL has none. So whoever serves leaves what its settings
//! say of each queue in the store. A queue that they do not name is left as it is: other programs may serve it.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_store::document::{Amend, DocumentRange, Drawer, Edit, Expect};
use backstop_store::{Error as StoreError, QueueAdmission, WorkStore};

use crate::config::Config;

/// Documents that are read at once.
const PAGE: usize = 500;

/// Writes what is not there yet.
pub(super) async fn publish(store: &dyn WorkStore, config: &Config) -> Result<(), StoreError> {
    let mut known: BTreeMap<String, Arc<str>> = BTreeMap::new();
    loop {
        let range = DocumentRange::first(Drawer::Gates, PAGE);
        let last = known.last_key_value().map(|(key, _)| key.clone());
        let found = store.documents(last.into_iter().fold(range, DocumentRange::after)).await?;
        known.extend(found.items.into_iter().map(|one| (one.key, one.body)));
        if !found.more {
            break;
        }
    }
    let before =
        known.iter().map(|(key, body)| (key.clone(), serde_json::from_str(body).unwrap_or_default()));
    let mut edits = Vec::new();
    for (key, gate) in gates(config, before.collect()) {
        let (before, body) = (known.get(&key), gate.to_body());
        if before == body.as_ref() {
            continue;
        }
        if let Some(before) = before {
            tracing::info!(gate = key, %before, now = body.as_deref().unwrap_or("nothing"),
                "what a queue accepts has changed for clients that submit by SQL");
        }
        edits.push(Edit { drawer: Drawer::Gates, key, expect: Expect::Any, body });
    }
    if !edits.is_empty() {
        store.amend(Amend { edits, ..Amend::default() }).await?;
    }
    Ok(())
}

/// What is said once these settings have been told. A program without keys says nothing of signatures.
fn gates(config: &Config, mut gates: BTreeMap<String, QueueAdmission>) -> BTreeMap<String, QueueAdmission> {
    for (name, queue) in &config.queues {
        let gate = gates.entry(QueueAdmission::key_of(name)).or_default();
        gate.kinds.clone_from(&queue.gate.kinds);
        gate.max_depth = queue.max_depth;
    }
    if let Some(signing) = &config.signing {
        gates.entry(QueueAdmission::EVERYWHERE.to_owned()).or_default().signed = Some(signing.required);
        for name in config.queues.keys().chain(signing.queues.keys()) {
            gates.entry(QueueAdmission::key_of(name)).or_default().signed = signing.queues.get(name).copied();
        }
    }
    gates
}

//! The failure rules as this process last read them (F18): every worker follows a change within a second.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::failure::{Rule, RuleSet};
use backstop_store::{Document, DocumentRange, Drawer, Error as StoreError, WorkStore};
use tokio::time::Instant;

/// How old the rules that a worker follows may be. Only failures look at them, so an idle worker never asks.
const FRESH: Duration = Duration::from_secs(1);

/// Rules that a store holds at most: each failure may be compared with all of them.
pub(crate) const MOST: usize = 500;

/// The rules as this process last read them.
#[derive(Debug, Default)]
pub(crate) struct RuleCache {
    read: Mutex<Option<(Instant, Arc<RuleSet>)>>,
    /// One task reads, the others wait for it instead of asking too.
    reading: tokio::sync::Mutex<()>,
}

impl RuleCache {
    fn known(&self) -> Option<(Instant, Arc<RuleSet>)> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fresh(&self) -> Option<Arc<RuleSet>> {
        self.known().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, rules)| rules)
    }

    /// The rules in force. A store that is away leaves the ones that were read last: a failure is never kept waiting
    /// for the rule that might be about it.
    pub(crate) async fn in_force(&self, store: &dyn WorkStore) -> Arc<RuleSet> {
        if let Some(rules) = self.fresh() {
            return rules;
        }
        let _one = self.reading.lock().await;
        if let Some(rules) = self.fresh() {
            return rules;
        }
        let rules = match read(store).await {
            Ok(found) => {
                let (rules, left_out) = RuleSet::compile(found);
                for (rule, error) in left_out {
                    tracing::warn!(%rule, %error, "a failure rule cannot be used and is skipped");
                }
                Arc::new(rules)
            }
            Err(error) => {
                tracing::debug!(%error, "failure rules cannot be read; those that were read before stay in force");
                self.known().map(|(_, rules)| rules).unwrap_or_default()
            }
        };
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), rules.clone()));
        rules
    }

    pub(crate) fn forget(&self) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

pub(crate) async fn documents(store: &dyn WorkStore) -> Result<Vec<Document>, StoreError> {
    Ok(store.documents(DocumentRange::first(Drawer::Rules, MOST)).await?.items)
}

/// Every rule; a document that is none is reported and passed by.
pub(crate) async fn read(store: &dyn WorkStore) -> Result<Vec<Rule>, StoreError> {
    let parse = |document: Document| match serde_json::from_str(&document.body) {
        Ok(rule) => Some(rule),
        Err(error) => {
            tracing::warn!(key = document.key, %error, "a stored failure rule cannot be read and is skipped");
            None
        }
    };
    Ok(documents(store).await?.into_iter().filter_map(parse).collect())
}

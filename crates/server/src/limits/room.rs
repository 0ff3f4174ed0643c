//! How many queues and kinds the tokens of one tenant may make (E13). A name that is known costs no read, whoever asks.
//!
//! What a tenant has is asked of the store now and then, by its own names; several nodes together may pass a limit by a
//! few names. Callers of no tenant run the place and have no such limit.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use axum::http::StatusCode;
use backstop::Backstop;
use backstop_core::tenant::{self, TenantRoom};
use backstop_store::Holdings;
use serde_json::json;
use tokio::time::Instant;

use crate::access::Caller;
use crate::error::ApiError;

/// Names that are read at most: a tenant may have more than it may make, from before there was a limit.
const MOST: usize = 100_000;

/// What a submit names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TenantName<'a> {
    /// A queue, as its tenant calls it.
    Queue(&'a str),
    Kind(&'a str),
}

/// What is known of tenants.
#[derive(Debug, Default)]
pub(crate) struct TenantNames(Mutex<HashMap<String, Known>>);

#[derive(Debug)]
struct Known {
    has: Holdings,
    since: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    queues: usize,
    kinds: usize,
}

/// Refuses names that a tenant has no room for.
///
/// # Errors
/// 429 with the limit's name, or when the store is unavailable.
pub(crate) async fn check(
    engine: &Backstop,
    tenant_names: &TenantNames,
    caller: &Caller,
    names: &[TenantName<'_>],
) -> Result<(), ApiError> {
    let Some(tenant) = caller.tenant() else { return Ok(()) };
    let limits = &engine.config().limits;
    let limits = Limits { queues: limits.queues_per_tenant, kinds: limits.kinds_per_tenant };
    match tenant_names.take(tenant, names, limits, None) {
        Some(Ok(())) => return Ok(()),
        Some(Err(refusal)) if tenant_names.was_just_asked(tenant) => return Err(refusal),
        _ => {}
    }
    let most = MOST.max(limits.queues).max(limits.kinds);
    let has = engine.store().holdings(tenant.to_owned(), most).await?;
    tenant_names.take(tenant, names, limits, Some(has)).unwrap_or(Ok(()))
}

impl TenantNames {
    /// Takes room for names, with what the store has just said or what is known; none when that is nothing, or old.
    fn take(
        &self,
        tenant: &str,
        names: &[TenantName<'_>],
        limits: Limits,
        has: Option<Holdings>,
    ) -> Option<Result<(), ApiError>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(has) = has {
            all.insert(tenant.to_owned(), Known { has, since: Instant::now() });
        }
        let known = all.get_mut(tenant).filter(|known| known.since.elapsed() < tenant::KNOWN_FOR)?;
        Some(names.iter().try_for_each(|name| known.take(tenant, *name, limits)))
    }

    /// True when the store was asked so lately that it would not say anything else to whoever was refused.
    fn was_just_asked(&self, tenant: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(tenant).is_some_and(|known| known.since.elapsed() < tenant::FULL_FOR)
    }
}

impl Known {
    fn take(&mut self, tenant: &str, name: TenantName<'_>, limits: Limits) -> Result<(), ApiError> {
        match name {
            TenantName::Queue(name) => {
                fit(&mut self.has.queues, format!("{tenant}/{name}"), limits.queues, "queue", name)
            }
            TenantName::Kind(name) => fit(&mut self.has.kinds, name.to_owned(), limits.kinds, "kind", name),
        }
    }
}

fn fit(
    has: &mut BTreeSet<String>,
    full: String,
    limit: usize,
    what: &str,
    name: &str,
) -> Result<(), ApiError> {
    match tenant::room(has.contains(&full), has.len(), limit) {
        TenantRoom::Known => return Ok(()),
        TenantRoom::Free => {
            has.insert(full);
            return Ok(());
        }
        TenantRoom::Full => {}
    }
    let setting = format!("{what}s_per_tenant");
    let message =
        format!("{what} `{name}` was not created: this tenant has reached its limit of {limit} {what}s");
    Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "tenant_limit", message)
        .hint(format!(
            "use an existing {what}, or raise `{setting}` in [limits]; what has been empty for a long time no longer \
             counts"
        ))
        .details(json!({ "name": setting, "limit": limit })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { queues: 2, kinds: 1 };

    fn has(queues: &[&str]) -> Holdings {
        let queues = queues.iter().map(|queue| format!("acme/{queue}")).collect();
        Holdings { queues, ..Holdings::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_name_costs_no_read_and_a_new_one_takes_room() {
        // E13
        let tenant_names = TenantNames::default();
        let take = |names: &[TenantName<'_>], has| {
            tenant_names.take("acme", names, LIMITS, has).map(|it| it.map_err(|e| e.to_json()))
        };
        assert!(take(&[TenantName::Queue("mail")], None).is_none(), "nothing is known yet");
        assert!(!tenant_names.was_just_asked("acme"));
        assert_eq!(
            take(&[TenantName::Queue("mail"), TenantName::Kind("send")], Some(has(&["mail"]))),
            Some(Ok(()))
        );
        assert_eq!(
            take(&[TenantName::Queue("bulk"), TenantName::Kind("send")], None),
            Some(Ok(())),
            "the second of two"
        );
        let refused =
            take(&[TenantName::Queue("third")], None).expect("known").expect_err("there is no room");
        assert_eq!(refused["code"], "tenant_limit");
        assert_eq!(refused["details"], json!({ "name": "queues_per_tenant", "limit": 2 }));
        let refused = take(&[TenantName::Kind("other")], None).expect("known").expect_err("there is no room");
        assert_eq!(refused["details"]["name"], "kinds_per_tenant");
        assert!(tenant_names.was_just_asked("acme"), "the store was asked a moment ago");
        tokio::time::advance(tenant::FULL_FOR).await;
        assert!(!tenant_names.was_just_asked("acme"), "it may have become empty meanwhile");
        assert_eq!(take(&[TenantName::Queue("third")], Some(has(&["mail"]))), Some(Ok(())));
        tokio::time::advance(tenant::KNOWN_FOR).await;
        assert!(take(&[TenantName::Queue("mail")], None).is_none(), "others may have made queues");
        let many = has(&["a", "b", "c"]);
        assert_eq!(take(&[TenantName::Queue("c")], Some(many)), Some(Ok(())), "what is there stays usable");
    }
}

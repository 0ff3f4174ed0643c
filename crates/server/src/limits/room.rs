//! How many queues and kinds the tokens of one tenant may make (E13). A name that is known costs no read, whoever asks.
//!
//! What a tenant has is asked of the store now and then, by its own names; several nodes together may pass a limit by a
//! few names. Callers of no tenant run the place and have no such limit.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use backstop::store::Holdings;
use serde_json::json;
use tokio::time::Instant;

use crate::access::Caller;
use crate::api::Api;
use crate::error::ApiError;

/// How long what is known of a tenant counts, and for how long when it has all it may.
const KNOWN: Duration = Duration::from_secs(60);
const FULL: Duration = Duration::from_secs(5);

/// Names that are read at most: a tenant may have more than it may make, from before there was a limit.
const MOST: usize = 100_000;

/// What a submit names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Name<'a> {
    /// A queue, as its tenant calls it.
    Queue(&'a str),
    Kind(&'a str),
}

/// What is known of tenants.
#[derive(Debug, Default)]
pub(crate) struct Rooms(Mutex<HashMap<String, Known>>);

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
/// 429 with the limit's name, or when the store is away.
pub(crate) async fn check(api: &Api, caller: &Caller, names: &[Name<'_>]) -> Result<(), ApiError> {
    let Some(tenant) = caller.tenant() else { return Ok(()) };
    let limits = &api.engine().config().limits;
    let limits = Limits { queues: limits.queues_per_tenant, kinds: limits.kinds_per_tenant };
    let rooms = &api.door().rooms;
    match rooms.take(tenant, names, limits, None) {
        Some(Ok(())) => return Ok(()),
        Some(Err(refusal)) if rooms.was_just_asked(tenant) => return Err(refusal),
        _ => {}
    }
    let most = MOST.max(limits.queues).max(limits.kinds);
    let has = api.engine().store().holdings(tenant.to_owned(), most).await?;
    rooms.take(tenant, names, limits, Some(has)).unwrap_or(Ok(()))
}

impl Rooms {
    /// Takes room for names, with what the store has just said or what is known; none when that is nothing, or old.
    fn take(
        &self,
        tenant: &str,
        names: &[Name<'_>],
        limits: Limits,
        has: Option<Holdings>,
    ) -> Option<Result<(), ApiError>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(has) = has {
            all.insert(tenant.to_owned(), Known { has, since: Instant::now() });
        }
        let known = all.get_mut(tenant).filter(|known| known.since.elapsed() < KNOWN)?;
        Some(names.iter().try_for_each(|name| known.take(tenant, *name, limits)))
    }

    /// True when the store was asked so lately that it would not say anything else to whoever was refused.
    fn was_just_asked(&self, tenant: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(tenant).is_some_and(|known| known.since.elapsed() < FULL)
    }
}

impl Known {
    fn take(&mut self, tenant: &str, name: Name<'_>, limits: Limits) -> Result<(), ApiError> {
        match name {
            Name::Queue(name) => {
                fit(&mut self.has.queues, format!("{tenant}/{name}"), limits.queues, "queue", name)
            }
            Name::Kind(name) => fit(&mut self.has.kinds, name.to_owned(), limits.kinds, "kind", name),
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
    if has.contains(&full) {
        return Ok(());
    }
    if has.len() < limit {
        has.insert(full);
        return Ok(());
    }
    let setting = format!("{what}s_per_tenant");
    let message =
        format!("the {what} `{name}` is not made: this tenant has {limit} {what}s, which is the limit");
    Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "tenant_limit", message)
        .hint(format!(
            "use a {what} that is there, or raise `{setting}` in [limits]; what is empty for long counts no more"
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
        let rooms = Rooms::default();
        let take = |names: &[Name<'_>], has| {
            rooms.take("acme", names, LIMITS, has).map(|it| it.map_err(|e| e.to_json()))
        };
        assert!(take(&[Name::Queue("mail")], None).is_none(), "nothing is known yet");
        assert!(!rooms.was_just_asked("acme"));
        assert_eq!(take(&[Name::Queue("mail"), Name::Kind("send")], Some(has(&["mail"]))), Some(Ok(())));
        assert_eq!(take(&[Name::Queue("bulk"), Name::Kind("send")], None), Some(Ok(())), "the second of two");
        let refused = take(&[Name::Queue("third")], None).expect("known").expect_err("there is no room");
        assert_eq!(refused["code"], "tenant_limit");
        assert_eq!(refused["details"], json!({ "name": "queues_per_tenant", "limit": 2 }));
        let refused = take(&[Name::Kind("other")], None).expect("known").expect_err("there is no room");
        assert_eq!(refused["details"]["name"], "kinds_per_tenant");
        assert!(rooms.was_just_asked("acme"), "the store was asked a moment ago");
        tokio::time::advance(FULL).await;
        assert!(!rooms.was_just_asked("acme"), "it may have become empty meanwhile");
        assert_eq!(take(&[Name::Queue("third")], Some(has(&["mail"]))), Some(Ok(())));
        tokio::time::advance(KNOWN).await;
        assert!(take(&[Name::Queue("mail")], None).is_none(), "others may have made queues");
        let many = has(&["a", "b", "c"]);
        assert_eq!(take(&[Name::Queue("c")], Some(many)), Some(Ok(())), "what is there stays usable");
    }
}

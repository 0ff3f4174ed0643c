//! Something that all callers share, and how much of it one token and one tenant may take.
//!
//! What is not a token's or a tenant's own is shared by all: the program itself, and anybody on a machine that has no
//! tokens. Whoever has its share waits for itself, and keeps nobody else from the rest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Caller;
use crate::error::ApiError;

/// How much of something one token and one tenant may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// One token.
    pub token: usize,
    /// All tokens of one tenant together.
    pub tenant: usize,
}

/// What there is, and who has taken how much of it. There are as many entries as tokens and tenants, whose number is
/// bounded.
#[derive(Debug)]
pub(super) struct Shares {
    all: Arc<Semaphore>,
    each: Share,
    taken: Mutex<HashMap<Owner, Arc<Semaphore>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    Token(String),
    Tenant(String),
}

/// What somebody has taken, given back when it is dropped.
#[derive(Debug)]
pub(super) struct HeldShare(Vec<OwnedSemaphorePermit>);

impl HeldShare {
    /// Takes what was taken by the same caller to it.
    pub(super) fn merge(&mut self, more: Self) {
        self.0.iter_mut().zip(more.0).for_each(|(held, more)| held.merge(more));
    }
}

/// Why there is nothing to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShareFull {
    /// The token has its share.
    Token(usize),
    /// The tenant has its share.
    Tenant(usize),
    /// Everything is taken.
    All,
}

impl ShareFull {
    /// What a caller is told that wanted one more of something that it has many of.
    pub(super) fn refused(self, what: &str, setting: &str) -> ApiError {
        let (whose, limit) = match self {
            Self::Token(limit) => ("token", limit),
            Self::Tenant(limit) => ("tenant", limit),
            Self::All => return busy(),
        };
        let message = format!("this {whose} has {limit} {what} open, which is the limit");
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_open", message)
            .hint(format!(
                "close some, or raise `{setting}_per_{whose}` in [server]; one can ask for many queues"
            ))
            .details(json!({ "limit": limit, "name": format!("{setting}_per_{whose}") }))
            .retry_after(5)
    }
}

impl Shares {
    pub(super) fn new(all: usize, each: Share) -> Self {
        Self { all: semaphore(all), each, taken: Mutex::default() }
    }

    /// What has to be taken from, the caller's own first.
    fn of(&self, caller: &Caller) -> Vec<(Arc<Semaphore>, ShareFull)> {
        let mut from = Vec::with_capacity(3);
        if let Some(token) = caller.token() {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            let mut own =
                |owner: Owner, most: usize| taken.entry(owner).or_insert_with(|| semaphore(most)).clone();
            from.push((
                own(Owner::Token(token.to_owned()), self.each.token),
                ShareFull::Token(self.each.token),
            ));
            if let Some(tenant) = caller.tenant() {
                let owner = Owner::Tenant(tenant.to_owned());
                from.push((own(owner, self.each.tenant), ShareFull::Tenant(self.each.tenant)));
            }
        }
        from.push((self.all.clone(), ShareFull::All));
        from
    }

    /// Takes so much, if it is there.
    pub(super) fn try_take(&self, caller: &Caller, much: u32) -> Result<HeldShare, ShareFull> {
        let one =
            |(from, full): (Arc<Semaphore>, ShareFull)| from.try_acquire_many_owned(much).map_err(|_| full);
        self.of(caller).into_iter().map(one).collect::<Result<_, _>>().map(HeldShare)
    }

    /// Takes so much as soon as it is there. Whoever waits for its own share keeps nothing of what is everybody's.
    pub(super) async fn take(&self, caller: &Caller, much: u32) -> HeldShare {
        let mut held = Vec::new();
        for (from, _) in self.of(caller) {
            // It is never closed.
            held.extend(from.acquire_many_owned(much).await);
        }
        HeldShare(held)
    }
}

fn semaphore(most: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))
}

/// The answer when everything is taken.
pub(super) fn busy() -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "busy",
        "the server has reached its limit of concurrent requests",
    )
    .hint("try again after the time in Retry-After; batches need fewer requests")
    .retry_after(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str, tenant: Option<&str>) -> Caller {
        Caller::holder(name, [crate::access::Scope::Read].into(), tenant.map(str::to_owned), None)
    }

    #[test]
    fn a_share_is_a_tokens_and_a_tenants_and_the_rest_is_there_for_others() {
        let shares = Shares::new(10, Share { token: 3, tenant: 4 });
        let (first, second) = (holder("a", Some("acme")), holder("b", Some("acme")));
        let (other, local) = (holder("c", None), Caller::local("x"));
        let mut held: Vec<HeldShare> =
            (0..3).map(|_| shares.try_take(&first, 1).expect("its share")).collect();
        assert_eq!(shares.try_take(&first, 1).unwrap_err(), ShareFull::Token(3));
        held.push(shares.try_take(&second, 1).expect("what its tenant has left"));
        assert_eq!(shares.try_take(&second, 1).unwrap_err(), ShareFull::Tenant(4));
        held.push(shares.try_take(&other, 3).expect("its share"));
        held.push(shares.try_take(&local, 3).expect("what is left"));
        assert_eq!(shares.try_take(&local, 1).unwrap_err(), ShareFull::All);
        // What was refused was not kept by half.
        held.clear();
        assert_eq!(shares.all.available_permits(), 10);
        assert!(shares.try_take(&first, 3).is_ok(), "and is there again");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_its_own_share_keeps_nobody_else_waiting() {
        let shares = Shares::new(10, Share { token: 4, tenant: 10 });
        let (greedy, other) = (holder("a", None), holder("b", None));
        let held = shares.take(&greedy, 4).await;
        let waiting = tokio::time::timeout(std::time::Duration::from_secs(60), shares.take(&greedy, 4));
        let mut waiting = std::pin::pin!(waiting);
        assert!(futures_poll(waiting.as_mut()).is_pending());
        assert!(shares.try_take(&other, 4).is_ok(), "there is room for others");
        drop(held);
        assert!(waiting.await.is_ok(), "and for it when its own is given back");
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    }
}

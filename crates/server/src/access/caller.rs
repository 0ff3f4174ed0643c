//! Whoever sent a request, once it is known who that is.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Scope;
use crate::error::ApiError;

/// How names begin that are the engine's own: what is stored under them acts with its rights, such as signing messages.
pub(crate) const RESERVED: &str = "backstop.";

/// The sender of a request and its rights.
#[derive(Debug, Clone)]
pub struct Caller {
    inner: Arc<Rights>,
}

#[derive(Debug)]
struct Rights {
    name: String,
    known: bool,
    local: bool,
    scopes: BTreeSet<Scope>,
    tenant: Option<String>,
    queues: Option<Vec<String>>,
    /// Cancelled when its token is worth nothing any more; never for whoever needs none.
    ended: CancellationToken,
}

impl Caller {
    /// Somebody who has shown nothing.
    #[must_use]
    pub fn nobody() -> Self {
        static NOBODY: LazyLock<Caller> =
            LazyLock::new(|| Caller::of("nobody", false, BTreeSet::new(), None, None));
        NOBODY.clone()
    }

    /// Whoever sent a request: it has passed `identify`, and one that has not is nobody's.
    pub(crate) fn of_request(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_else(Self::nobody)
    }

    /// Anybody on a machine that has no tokens.
    pub(crate) fn of_this_machine() -> Self {
        static LOCAL: LazyLock<Caller> = LazyLock::new(|| Caller::local("local"));
        LOCAL.clone()
    }

    /// Somebody who may do everything: the program itself on its own store, or anybody on a machine that has no tokens.
    #[must_use]
    pub fn local(name: &str) -> Self {
        let mut caller = Self::of(name, true, Scope::ALL.into_iter().collect(), None, None);
        if let Some(rights) = Arc::get_mut(&mut caller.inner) {
            rights.local = true;
        }
        caller
    }

    /// The holder of a token.
    #[must_use]
    pub fn holder(
        name: &str,
        scopes: BTreeSet<Scope>,
        tenant: Option<String>,
        queues: Option<Vec<String>>,
    ) -> Self {
        Self::of(name, true, scopes, tenant, queues)
    }

    fn of(
        name: &str,
        known: bool,
        scopes: BTreeSet<Scope>,
        tenant: Option<String>,
        queues: Option<Vec<String>>,
    ) -> Self {
        let (name, ended) = (name.to_owned(), CancellationToken::new());
        Self { inner: Arc::new(Rights { name, known, local: false, scopes, tenant, queues, ended }) }
    }

    /// Ends whatever its holder still has open.
    pub(super) fn end(&self) {
        self.inner.ended.cancel();
    }

    /// Resolves when its token is revoked or expires. Only while somebody [watches](super::Tokens::watch) the tokens.
    pub(crate) fn ended(&self) -> WaitForCancellationFutureOwned {
        self.inner.ended.clone().cancelled_owned()
    }

    /// Who it is, for the audit log.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The name under which something is done. Somebody on the machine itself may say another one; the name of a token
    /// stays in front of whoever it says it acts for.
    #[must_use]
    pub fn signs(&self, by: Option<&str>) -> String {
        match by.map(str::trim).filter(|by| !by.is_empty()) {
            Some(by) if self.inner.local => by.to_owned(),
            Some(by) => format!("{} for {by}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// True when its token names the queues it is for.
    #[must_use]
    pub fn is_bound_to_queues(&self) -> bool {
        self.inner.queues.is_some()
    }

    /// The token that it holds, which is what it shares things with others by; none for the program itself, for anybody
    /// on a machine that has no tokens, and for nobody.
    pub(crate) fn token(&self) -> Option<&str> {
        (self.inner.known && !self.inner.local).then_some(&*self.inner.name)
    }

    /// False for somebody who has shown no valid token.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.inner.known
    }

    /// True when it carries this right.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.inner.scopes.contains(&scope)
    }

    /// The tenant it belongs to; none for those who see all tenants.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.inner.tenant.as_deref()
    }

    /// The name under which the store knows a queue of this caller.
    ///
    /// # Errors
    /// When its token is for other queues.
    pub fn queue(&self, name: &str) -> Result<String, ApiError> {
        if self.inner.queues.as_ref().is_some_and(|queues| !queues.iter().any(|queue| queue == name)) {
            let message = format!("this token is not for queue `{name}`");
            return Err(
                ApiError::forbidden(message).hint("use a token that names the queue, or none in particular")
            );
        }
        Ok(match self.tenant() {
            Some(tenant) => format!("{tenant}/{name}"),
            None => name.to_owned(),
        })
    }

    /// Whether it sees what the engine stores for itself: that is for those who run it.
    #[must_use]
    pub fn sees_reserved(&self, name: &str) -> bool {
        !name.starts_with(RESERVED) || self.may(Scope::Operate)
    }

    /// The name by which this caller knows a queue of the store; none when it is not for its eyes.
    #[must_use]
    pub fn sees<'a>(&self, queue: &'a str) -> Option<&'a str> {
        if !self.sees_reserved(queue) {
            return None;
        }
        let local = match self.tenant() {
            Some(tenant) => queue.strip_prefix(tenant)?.strip_prefix('/')?,
            None => queue,
        };
        let listed =
            self.inner.queues.as_ref().is_none_or(|queues| queues.iter().any(|queue| queue == local));
        listed.then_some(local)
    }

    /// True when its token names no queues in particular.
    #[must_use]
    pub fn has_all_queues(&self) -> bool {
        self.inner.queues.is_none()
    }

    /// What decides what it sees: its tenant, the queues of its token, and whether it runs the engine.
    pub(crate) fn view(&self) -> (Option<&str>, Option<&[String]>, bool) {
        (self.tenant(), self.inner.queues.as_deref(), self.may(Scope::Operate))
    }

    /// True when nothing is hidden from it: no tenant, no list of queues.
    #[must_use]
    pub fn sees_all(&self) -> bool {
        self.inner.tenant.is_none() && self.inner.queues.is_none()
    }

    /// Whether a workflow is for this caller's eyes: it sees all queues of its jobs (E13).
    #[must_use]
    pub fn sees_workflow(&self, tenant: Option<&str>, queues: &BTreeSet<Arc<str>>) -> bool {
        self.sees_all() || (tenant == self.tenant() && queues.iter().all(|queue| self.sees(queue).is_some()))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self::of_request(&parts.extensions))
    }
}

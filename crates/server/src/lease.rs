//! Lease tokens: the right to write about one run, in a form that clients carry and cannot change (E7).
//!
//! A token is `lt1.`, what it says, a dot, and an HMAC-SHA256 over all before that dot. All nodes of a store share the
//! key, which is kept there. Nothing of a token is read before its signature was found to be right, and a token
//! shown by somebody it was not made for is like one that is no token.

mod payload;

use std::sync::Arc;

use axum::http::StatusCode;
use backstop::Grant;
use backstop_store::{Amend, Amended, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Store};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::OnceCell;

use crate::access::Caller;
use crate::error::ApiError;

const PREFIX: &str = "lt1.";
const KEY_BYTES: usize = 32;
/// Where the key is kept among the secrets of the store.
const KEY_NAME: &str = "work_lease";
/// No token of ours is longer; whatever is, is not looked at.
const LONGEST: usize = 2_048;

/// Signs and reads lease tokens with the key that all nodes of the store share.
#[derive(Debug, Default)]
pub(crate) struct LeaseSigner {
    key: OnceCell<LeaseKey>,
}

impl LeaseSigner {
    /// The key, read or made once.
    pub(crate) async fn key(&self, store: &dyn Store) -> Result<&LeaseKey, ApiError> {
        self.key.get_or_try_init(|| load(store)).await
    }
}

/// The key that signs leases. It has no way to be shown.
#[derive(Clone)]
pub(crate) struct LeaseKey([u8; KEY_BYTES]);

impl std::fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeaseKey")
    }
}

impl LeaseKey {
    /// A new one, from the system's randomness.
    fn random() -> Result<Self, ApiError> {
        let mut bytes = [0u8; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| {
            tracing::error!(%error, "the system gives no randomness for the key of lease tokens");
            unusable()
        })?;
        Ok(Self(bytes))
    }

    fn parse(text: &str) -> Option<Self> {
        Some(Self(URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?))
    }

    fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// The token for a grant that is handed to this caller.
    pub(crate) fn seal(&self, caller: &Caller, grant: &Grant) -> String {
        self.sign(PREFIX, &payload::write(caller.tenant(), grant))
    }

    /// The grant of a token that this caller may show; none for everything else.
    pub(crate) fn open(&self, caller: &Caller, token: &str) -> Option<Grant> {
        let bytes = self.verified(PREFIX, token)?;
        let (tenant, grant) = payload::read(&bytes)?;
        let theirs = tenant.as_deref() == caller.tenant() && caller.sees(&grant.queue).is_some();
        theirs.then_some(grant)
    }

    /// A token that begins with `prefix` and says `body`. Prefixes keep tokens of one sort from passing as another.
    pub(crate) fn sign(&self, prefix: &str, body: &[u8]) -> String {
        let mut token = prefix.to_owned();
        URL_SAFE_NO_PAD.encode_string(body, &mut token);
        let signature = self.mac(&token).finalize().into_bytes();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// What a token with this prefix says; none when it was not signed here.
    pub(crate) fn verified(&self, prefix: &str, token: &str) -> Option<Vec<u8>> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        // In constant time: how much of a signature was right is nobody's business.
        self.mac(signed).verify_slice(&signature).ok()?;
        URL_SAFE_NO_PAD.decode(signed.strip_prefix(prefix)?).ok()
    }

    fn mac(&self, signed: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length does");
        mac.update(signed.as_bytes());
        mac
    }
}

async fn load(store: &dyn Store) -> Result<LeaseKey, ApiError> {
    if let Some(key) = stored(store).await? {
        return Ok(key);
    }
    let key = LeaseKey::random()?;
    let body = Some(Arc::from(key.to_text()));
    let edit = Edit { drawer: Drawer::Secrets, key: KEY_NAME.to_owned(), expect: Expect::Absent, body };
    match store.amend(Amend { edits: vec![edit], ..Amend::default() }).await? {
        Amended::Done { .. } => Ok(key),
        // Another node was quicker: its key is everybody's.
        Amended::Conflict { .. } | Amended::Refused { .. } => stored(store).await?.ok_or_else(unusable),
    }
}

async fn stored(store: &dyn Store) -> Result<Option<LeaseKey>, ApiError> {
    let found: Result<_, StoreError> =
        store.documents(DocumentRange::first(Drawer::Secrets, 1).under(KEY_NAME)).await;
    let document = found?.items.into_iter().next().filter(|document| document.key == KEY_NAME);
    match document {
        None => Ok(None),
        Some(document) => LeaseKey::parse(&document.body).map(Some).ok_or_else(|| {
            tracing::error!(
                "the key of lease tokens in the store cannot be read; remove it to have a new one made"
            );
            unusable()
        }),
    }
}

fn unusable() -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "no_lease_key", "no lease can be signed")
        .hint("see the server's log")
}

/// The answer to a lease that is no longer held, is of others, or is none: all look the same.
pub(crate) fn stale() -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "stale_lease", "this lease is not held: nothing was changed")
        .hint("stop this run; the job is claimed again if it has to run again")
}

#[cfg(test)]
mod tests;

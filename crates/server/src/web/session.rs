//! Who looks at the page: a token, exchanged once for a cookie.
//!
//! A session is a signed text that names the hash of its token, when it ends, and a random number. Nothing of it is
//! stored: every request looks the token up, so a token that is revoked or expires ends its sessions with the next
//! request, on every node. The key is the one that signs leases, which all nodes of a store share; the prefixes keep
//! one sort of text from passing as another. Logging out is stored until the session would have ended anyway.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use backstop::Timestamp;

use crate::access::{self, Caller, Identity, TokenHash, TokenLookup};
use crate::api::Api;
use crate::error::ApiError;
use crate::lease::LeaseKey;

/// The cookie.
const NAME: &str = "backstop_session";

/// How long somebody stays logged in: a working day, so that a browser left open does not stay open for ever.
pub(super) const LASTS: Duration = Duration::from_secs(12 * 60 * 60);

/// What sessions and proofs begin with.
const SESSION: &str = "ps1.";
const PROOF: &str = "pp1.";

/// What the proof of somebody without a session says.
const NO_SESSION: &str = "open";

/// The session that a request came with.
#[derive(Debug, Clone)]
pub(super) struct PageSession {
    hash: TokenHash,
    until: Timestamp,
    /// Tells it from all others.
    number: String,
}

impl PageSession {
    /// A new one for the holder of a token.
    pub(super) fn new(token: &str, now: Timestamp) -> Result<Self, ApiError> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes).map_err(|error| crate::error::internal(&error))?;
        let number = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { hash: TokenHash::of(token), until: now.after(LASTS), number })
    }

    fn sign(&self, key: &LeaseKey) -> String {
        let text = format!("{} {} {}", self.hash, self.until.as_micros(), self.number);
        key.sign(SESSION, text.as_bytes())
    }

    fn read(key: &LeaseKey, text: &str) -> Option<Self> {
        let text = String::from_utf8(key.verified(SESSION, text)?).ok()?;
        let mut parts = text.split(' ');
        let hash = parts.next()?.parse().ok()?;
        let until = Timestamp::from_micros(parts.next()?.parse().ok()?);
        Some(Self { hash, until, number: parts.next()?.to_owned() })
    }

    /// The header that gives it to a browser.
    pub(super) fn cookie(&self, key: &LeaseKey, secure: bool) -> String {
        let seconds = LASTS.as_secs();
        format!(
            "{NAME}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{}",
            self.sign(key),
            is(secure)
        )
    }
}

impl PageSession {
    /// Ends it on every node.
    pub(super) async fn end(&self, api: &Api, now: Timestamp) -> Result<(), ApiError> {
        let store = &**api.engine().store();
        Ok(api.reporting().ended_sessions.add(store, &self.number, self.until, now).await?)
    }
}

/// The header that takes it from a browser.
pub(super) fn no_cookie(secure: bool) -> String {
    format!("{NAME}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{}", is(secure))
}

const fn is(secure: bool) -> &'static str {
    if secure { "; Secure" } else { "" }
}

/// What a form has to carry, to show that it stands on a page that we made for this session.
pub(super) fn proof(key: &LeaseKey, session: Option<&PageSession>) -> String {
    key.sign(PROOF, session.map_or(NO_SESSION, |one| &one.number).as_bytes())
}

/// Whether a form carries it.
pub(super) fn is_proof(key: &LeaseKey, session: Option<&PageSession>, shown: &str) -> bool {
    let expected = session.map_or(NO_SESSION, |one| &one.number);
    key.verified(PROOF, shown).is_some_and(|said| said == expected.as_bytes())
}

/// Why somebody who has a session is not let in just now: the store did not answer, or they came too often. It is no
/// reason to ask them who they are.
#[derive(Debug, Clone)]
pub(super) struct SessionRefusal(pub(super) ApiError);

/// Finds out who looks, and leaves the session with the request. Whoever has none is whoever calls the API without one:
/// the holder of a token in a header, or anybody on a machine that has no tokens.
pub(crate) async fn identify(api: &Api, parts: &mut Parts) -> Identity {
    if parts.extensions.get::<Caller>().is_none()
        && let Some(text) = cookie(&parts.headers)
    {
        let admitted = match known(api, &text).await {
            Ok(Some((session, caller))) => {
                Some(access::admit_rate(api, caller).map(|caller| (session, caller)))
            }
            Ok(None) => None,
            Err(refusal) => Some(Err(refusal)),
        };
        match admitted {
            Some(Ok((session, caller))) => {
                parts.extensions.insert(session);
                return Identity::known(caller);
            }
            Some(Err(refusal)) => {
                parts.extensions.insert(SessionRefusal(refusal));
                return Identity::nobody();
            }
            None => {}
        }
    }
    access::identify(api, parts).await
}

async fn known(api: &Api, text: &str) -> Result<Option<(PageSession, Caller)>, ApiError> {
    let key = api.leases().key(&**api.engine().store()).await?;
    let Some(session) = PageSession::read(key, text) else { return Ok(None) };
    let now = api.tokens().now().await?;
    let store = &**api.engine().store();
    if session.until <= now || api.reporting().ended_sessions.has(store, &session.number, now).await? {
        return Ok(None);
    }
    Ok(match api.tokens().find_hash(Some(session.hash)).await? {
        TokenLookup::Holder(caller) => Some((session, caller)),
        TokenLookup::Nobody | TokenLookup::Open => None,
    })
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == NAME).map(|(_, value)| value.to_owned())
}

//! Every token there is: those of the configuration and those of the store.
//!
//! A process looks the tokens of the store up again when what it knows is a second old, so a token that is revoked on
//! another node is worth nothing here after at most [`FRESH`] and the time of one read; on the node that revokes it, at
//! once. What its holder still has open, a stream or a long poll, ends as soon. A token that is not known is looked up
//! once more, so one that was made on another node is good here at once. A store that is unavailable lets nobody in
//! whose token is not in the configuration.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop::{Backstop, Timestamp};
use backstop_store::{Error as StoreError, Store};
use tokio::time::Instant;

use super::stored_token::{self, StoredToken, TokenUse};
use super::watch::TokenWatch;
use super::{Caller, NoRandomness, Token, TokenGrant, TokenGrantError, TokenHash};

/// How old the known tokens of the store may be.
const FRESH: Duration = Duration::from_secs(1);

/// How old they may be when a token is none of them: whoever guesses makes us read so often at most.
const FRESH_FOR_STRANGERS: Duration = Duration::from_millis(50);

/// When a token was last used is written down at most once in this time, by each process.
const USE_NOTED: Duration = Duration::from_secs(60);

/// Every token, and what is known of them. Clones share it.
#[derive(Debug, Clone)]
pub struct Tokens {
    pub(super) inner: Arc<TokenCache>,
}

pub(super) struct TokenCache {
    store: Arc<dyn Store>,
    configured: Index,
    read: Mutex<Option<Known>>,
    /// One task reads, the others wait for it instead of asking too.
    reading: tokio::sync::Mutex<()>,
    noted: Mutex<HashMap<String, Instant>>,
    pub(super) watching: TokenWatch,
}

impl std::fmt::Debug for TokenCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("configured", &self.configured.all.len()).finish_non_exhaustive()
    }
}

/// The tokens of the store as they were read.
#[derive(Clone)]
struct Known {
    /// None when something has changed since.
    at: Option<Instant>,
    now: Timestamp,
    index: Arc<Index>,
}

/// Tokens by the first bytes of their hashes.
struct Index {
    by_head: HashMap<[u8; 8], Vec<usize>>,
    all: Vec<StoredToken>,
    /// The holder of each, made once and not for every request.
    holders: Vec<Caller>,
    tenants: HashSet<String>,
}

impl Index {
    /// The same tokens as before have the same holders, so that what those have open can be ended.
    fn new(all: Vec<StoredToken>, before: Option<&Self>) -> Self {
        let mut by_head: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, one) in all.iter().enumerate() {
            by_head.entry(one.grant.hash.head()).or_default().push(at);
        }
        let known = |one: &StoredToken| Some(before?.find(&one.grant.hash)?.1.clone());
        let holders = all.iter().map(|one| known(one).unwrap_or_else(|| one.grant.caller())).collect();
        let tenants = all.iter().filter_map(|one| Some(one.grant.tenant.as_ref()?.to_string())).collect();
        let index = Self { by_head, all, holders, tenants };
        for gone in before.iter().flat_map(|before| before.all.iter().zip(&before.holders)) {
            if index.find(&gone.0.grant.hash).is_none() {
                gone.1.end();
            }
        }
        index
    }

    /// Ends what the holders of worthless tokens have open.
    fn end_dead(&self, now: Timestamp) {
        let dead = self.all.iter().zip(&self.holders).filter(|(one, _)| !one.is_live(now));
        dead.for_each(|(_, holder)| holder.end());
    }

    fn find(&self, hash: &TokenHash) -> Option<(&StoredToken, &Caller)> {
        let near = self.by_head.get(&hash.head())?;
        let mut near = near.iter().map(|at| (&self.all[*at], &self.holders[*at]));
        near.find(|(one, _)| one.grant.hash.is(hash))
    }
}

/// What a text that should be a token is worth.
pub(crate) enum TokenLookup {
    /// The right of its holder.
    Holder(Caller),
    /// Nothing.
    Nobody,
    /// There is no token anywhere: whoever is on this machine may do everything.
    Open,
}

impl Tokens {
    /// The tokens of an engine's store and those that are configured.
    #[must_use]
    pub fn new(engine: &Backstop, configured: &[TokenGrant]) -> Self {
        let configured = configured.iter().cloned().map(StoredToken::of_configuration).collect();
        let inner = TokenCache {
            store: engine.store().clone(),
            configured: Index::new(configured, None),
            read: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            noted: Mutex::default(),
            watching: TokenWatch::new(engine.loops()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Who holds this token; `None` asks for somebody who shows none.
    pub(crate) async fn find(&self, text: Option<&str>) -> Result<TokenLookup, StoreError> {
        self.find_hash(text.map(TokenHash::of)).await
    }

    /// Who holds the token with this hash: a session knows no more of it.
    pub(crate) async fn find_hash(&self, hash: Option<TokenHash>) -> Result<TokenLookup, StoreError> {
        if let Some((one, holder)) = hash.as_ref().and_then(|hash| self.inner.configured.find(hash)) {
            // Expiry is the only thing about it that needs a clock, and only then the store is asked for one.
            let expired = one.grant.expires.is_some() && !one.is_live(self.known().await?.1);
            return Ok(if expired { TokenLookup::Nobody } else { TokenLookup::Holder(holder.clone()) });
        }
        let (mut index, mut now) = self.known().await?;
        if hash.as_ref().is_some_and(|hash| index.find(hash).is_none()) {
            (index, now) = self.known_within(FRESH_FOR_STRANGERS).await?;
        }
        // One that has expired or was revoked still keeps the door shut: otherwise it would open by itself one day.
        if index.all.is_empty() && self.inner.configured.all.is_empty() {
            return Ok(TokenLookup::Open);
        }
        let found = hash.as_ref().and_then(|hash| index.find(hash)).filter(|(one, _)| one.is_live(now));
        Ok(found.map_or(TokenLookup::Nobody, |(one, holder)| {
            self.note_use(&one.grant.name, now);
            TokenLookup::Holder(holder.clone())
        }))
    }

    /// True when a token exists that somebody could use now.
    ///
    /// # Errors
    /// When the store is unavailable.
    pub async fn any_live(&self) -> Result<bool, StoreError> {
        let (index, now) = self.known().await?;
        Ok(index.all.iter().chain(&self.inner.configured.all).any(|one| one.is_live(now)))
    }

    /// True for the name of a tenant that some token is or was for.
    pub(crate) async fn has_tenant(&self, name: &str) -> Result<bool, StoreError> {
        let (index, _) = self.known().await?;
        Ok(index.tenants.contains(name) || self.inner.configured.tenants.contains(name))
    }

    /// The store's clock, as far as it was asked lately.
    pub(crate) async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.known().await?.1)
    }

    fn fresh(&self, age: Duration) -> Option<(Arc<Index>, Timestamp)> {
        let read = self.inner.read.lock().unwrap_or_else(PoisonError::into_inner);
        let known = read.as_ref()?;
        let passed = known.at.map(|at| at.elapsed()).filter(|passed| *passed < age)?;
        Some((known.index.clone(), known.now.after(passed)))
    }

    async fn known(&self) -> Result<(Arc<Index>, Timestamp), StoreError> {
        self.known_within(FRESH).await
    }

    async fn known_within(&self, age: Duration) -> Result<(Arc<Index>, Timestamp), StoreError> {
        if let Some(known) = self.fresh(age) {
            return Ok(known);
        }
        let _one = self.inner.reading.lock().await;
        if let Some(known) = self.fresh(age) {
            return Ok(known);
        }
        // Old from the moment of asking: a revocation that is committed while the answer travels is seen in time.
        let at = Instant::now();
        let (stored_token, now) = stored_token::read(&*self.inner.store).await?;
        let mut read = self.inner.read.lock().unwrap_or_else(PoisonError::into_inner);
        let index = Arc::new(Index::new(stored_token, read.as_ref().map(|known| &*known.index)));
        *read = Some(Known { at: Some(at), now, index: index.clone() });
        drop(read);
        index.end_dead(now);
        self.inner.configured.end_dead(now);
        Ok((index, now))
    }

    /// Looks at every token, if that was not done lately: the holders of those that are worth nothing are cut off.
    pub(super) async fn look(&self) -> Result<(), StoreError> {
        self.known().await.map(drop)
    }

    fn forget(&self) {
        let mut read = self.inner.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.iter_mut().for_each(|known| known.at = None);
    }

    /// Writes down, now and then and beside the request, when a token was used.
    fn note_use(&self, name: &str, now: Timestamp) {
        let mut noted = self.inner.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(name).is_some_and(|at| at.elapsed() < USE_NOTED) {
            return;
        }
        noted.insert(name.to_owned(), Instant::now());
        drop(noted);
        let (store, name) = (self.inner.store.clone(), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = stored_token::note_use(&*store, &name, TokenUse { at: now }).await {
                // It is a convenience: the request does not depend on it.
                tracing::debug!(%error, token = name, "when a token was used could not be written down");
            }
        });
    }

    /// Makes a token and keeps its hash. The token itself is answered here and never again.
    ///
    /// # Errors
    /// When it cannot be as asked, its name is taken, or the store is unavailable.
    pub async fn create(&self, wish: TokenRequest, by: &str) -> Result<(Token, TokenInfo), TokenError> {
        let (token, grant) = wish.granted()?;
        let taken = |one: &StoredToken| one.grant.name == grant.name;
        if self.inner.configured.all.iter().any(taken) {
            return Err(TokenError::Exists(grant.name));
        }
        let made = stored_token::add(&*self.inner.store, grant, by).await;
        self.forget();
        let stored_token = made?;
        Ok((token, TokenInfo::of(&stored_token, TokenOrigin::Store, None)))
    }

    /// Every token, with when it was last used: those of the configuration first, each by name.
    ///
    /// # Errors
    /// When the store is unavailable.
    pub async fn list(&self) -> Result<Vec<TokenInfo>, StoreError> {
        let (mut stored_token, _) = stored_token::read(&*self.inner.store).await?;
        let used = stored_token::uses(&*self.inner.store).await?;
        stored_token.sort_by(|a, b| a.grant.name.cmp(&b.grant.name));
        let configured = self.inner.configured.all.iter();
        let configured = configured.map(|one| TokenInfo::of(one, TokenOrigin::Configuration, None));
        let stored = stored_token.iter().map(|one| {
            let used = used.get(&one.grant.name).map(|used| used.at);
            TokenInfo::of(one, TokenOrigin::Store, used)
        });
        Ok(configured.chain(stored).collect())
    }

    /// Makes a token worthless, here at once and everywhere within two seconds; false when it was so already.
    ///
    /// # Errors
    /// When there is none of this name in the store, or the store is unavailable.
    pub async fn revoke(&self, name: &str, by: &str) -> Result<bool, TokenError> {
        if self.inner.configured.all.iter().any(|one| one.grant.name == name) {
            return Err(TokenError::Configured(name.to_owned()));
        }
        let revoked = stored_token::revoke(&*self.inner.store, name, by).await;
        self.forget();
        revoked
    }
}

/// What a new token should be.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: std::collections::BTreeSet<super::Scope>,
    /// The tenant whose things alone it sees.
    pub tenant: Option<backstop_core::Tenant>,
    /// The queues that it is for.
    pub queues: Option<Vec<String>>,
    /// When it expires.
    pub expires: Option<Timestamp>,
}

impl TokenRequest {
    /// A new token with what is kept of it, which is kept nowhere yet.
    ///
    /// # Errors
    /// When it cannot be as asked.
    pub fn granted(self) -> Result<(Token, TokenGrant), TokenError> {
        let Self { name, scopes, tenant, queues, expires } = self;
        let token = Token::generate()?;
        let grant = TokenGrant { name, hash: token.hash(), scopes, tenant, queues, expires };
        grant.validate()?;
        Ok((token, grant))
    }
}

/// Where a token is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenOrigin {
    /// In `backstop.toml`.
    Configuration,
    /// In the store.
    Store,
}

/// A token as it may be shown.
#[derive(Debug, Clone)]
pub struct TokenInfo {
    /// What it gives. Its hash is not for showing.
    pub grant: TokenGrant,
    /// Where it is kept.
    pub origin: TokenOrigin,
    /// When it was made, and by whom, if the store knows.
    pub created: Option<(Timestamp, String)>,
    /// When it was revoked, and by whom.
    pub revoked: Option<(Timestamp, String)>,
    /// When it was last used, to the minute.
    pub last_used: Option<Timestamp>,
}

impl TokenInfo {
    fn of(stored_token: &StoredToken, origin: TokenOrigin, last_used: Option<Timestamp>) -> Self {
        let (created, revoked) = (stored_token.created.clone(), stored_token.revoked.clone());
        Self { grant: stored_token.grant.clone(), origin, created, revoked, last_used }
    }
}

/// Why a token was not made or revoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It cannot be as asked.
    #[error(transparent)]
    Invalid(#[from] TokenGrantError),
    /// Another one has its name, or had it before it was revoked.
    #[error(
        "there is a token `{0}` already, or was one; choose another name: the audit log tells them apart by it"
    )]
    Exists(String),
    /// There is none of this name.
    #[error("there is no token `{0}`; `backstop token list` shows those that exist")]
    Unknown(String),
    /// It stands in the configuration.
    #[error("token `{0}` stands in backstop.toml; take it out there and start the server again")]
    Configured(String),
    /// There are too many that are in use.
    #[error("there are {} tokens already; revoke some before making another", stored_token::MOST)]
    TooMany,
    /// The system has no randomness.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    /// The store is unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

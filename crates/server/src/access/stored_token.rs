//! Tokens as the store keeps them: one document for each, and one beside it that says when it was last used.
//!
//! Two documents, because use is written down often and without looking, and must never write over a revocation.

use std::collections::HashMap;

use backstop::Timestamp;
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Documents, Drawer, Edit, Error as StoreError, Expect, Store,
};
use serde::{Deserialize, Serialize};

use super::{TokenError, TokenGrant};

/// Tokens that a store keeps at most, with the revoked ones: all of them are in the memory of every node.
pub(super) const MOST: usize = 1_000;

const TOKEN: &str = "token/";
const USED: &str = "used/";

/// How often a change is tried again when somebody else was faster.
const TRIES: usize = 5;

/// One token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredToken {
    pub(super) grant: TokenGrant,
    /// When it was made, and by whom.
    #[serde(default)]
    pub(super) created: Option<(Timestamp, String)>,
    /// When it was revoked, and by whom.
    #[serde(default)]
    pub(super) revoked: Option<(Timestamp, String)>,
}

impl StoredToken {
    pub(super) const fn of_configuration(grant: TokenGrant) -> Self {
        Self { grant, created: None, revoked: None }
    }

    /// True while its holder gets in.
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.revoked.is_none() && self.grant.is_live(now)
    }
}

/// When a token was last used.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct TokenUse {
    pub(super) at: Timestamp,
}

async fn range(store: &dyn Store, prefix: &str) -> Result<Documents, StoreError> {
    store.documents(DocumentRange::first(Drawer::Tokens, MOST).under(prefix)).await
}

fn parsed<T: for<'de> Deserialize<'de>>(document: &Document) -> Option<T> {
    let parsed = serde_json::from_str(&document.body);
    // Whoever holds a token that cannot be read does not get in.
    let told = parsed
        .inspect_err(|error| tracing::warn!(key = document.key, %error, "a stored token is unreadable"));
    told.ok()
}

/// Every token, and the store's clock.
pub(super) async fn read(store: &dyn Store) -> Result<(Vec<StoredToken>, Timestamp), StoreError> {
    let found = range(store, TOKEN).await?;
    Ok((found.items.iter().filter_map(parsed).collect(), found.now))
}

/// When each token was last used.
pub(super) async fn uses(store: &dyn Store) -> Result<HashMap<String, TokenUse>, StoreError> {
    let found = range(store, USED).await?;
    let named = |document: &Document| Some((document.key.strip_prefix(USED)?.to_owned(), parsed(document)?));
    Ok(found.items.iter().filter_map(named).collect())
}

pub(super) async fn note_use(store: &dyn Store, name: &str, used: TokenUse) -> Result<(), StoreError> {
    let edit = edit(format!("{USED}{name}"), Expect::Any, Some(&used));
    store.amend(Amend { edits: vec![edit], ..Amend::default() }).await.map(drop)
}

fn edit<T: Serialize>(key: String, expect: Expect, body: Option<&T>) -> Edit {
    let body = body.map(|body| serde_json::to_string(body).expect("a token is plain data").into());
    Edit { drawer: Drawer::Tokens, key, expect, body }
}

/// Keeps a new token. When there are too many, the one that was revoked first makes room.
pub(super) async fn add(store: &dyn Store, grant: TokenGrant, by: &str) -> Result<StoredToken, TokenError> {
    let found = range(store, TOKEN).await?;
    let name = grant.name.clone();
    let stored_token = StoredToken { grant, created: Some((found.now, by.to_owned())), revoked: None };
    let mut edits = vec![edit(format!("{TOKEN}{name}"), Expect::Absent, Some(&stored_token))];
    if found.items.len() >= MOST {
        let revoked =
            |document: &Document| Some((parsed::<StoredToken>(document)?.revoked?.0, document.key.clone()));
        let first = found.items.iter().filter_map(revoked).min().ok_or(TokenError::TooMany)?;
        let used = first.1.replacen(TOKEN, USED, 1);
        edits.extend([first.1, used].map(|key| edit::<StoredToken>(key, Expect::Any, None)));
    }
    match store.amend(Amend { edits, ..Amend::default() }).await? {
        Amended::Done { .. } => Ok(stored_token),
        Amended::Conflict { .. } | Amended::Refused { .. } => Err(TokenError::Exists(name)),
    }
}

/// Revokes a token; false when it was already revoked.
pub(super) async fn revoke(store: &dyn Store, name: &str, by: &str) -> Result<bool, TokenError> {
    let key = format!("{TOKEN}{name}");
    for _ in 0..TRIES {
        let found = store.documents(DocumentRange::first(Drawer::Tokens, 1).under(&key)).await?;
        let unknown = || TokenError::Unknown(name.chars().take(80).collect());
        let document = found.items.first().filter(|document| document.key == key).ok_or_else(unknown)?;
        let Some(mut stored_token) = parsed::<StoredToken>(document) else {
            // Nobody can use it, and nobody can say what it was: it goes.
            let edits = vec![edit::<StoredToken>(key, Expect::Any, None)];
            store.amend(Amend { edits, ..Amend::default() }).await?;
            return Ok(true);
        };
        if stored_token.revoked.is_some() {
            return Ok(false);
        }
        stored_token.revoked = Some((found.now, by.to_owned()));
        let edits = vec![edit(key.clone(), Expect::Revision(document.revision), Some(&stored_token))];
        if let Amended::Done { .. } = store.amend(Amend { edits, ..Amend::default() }).await? {
            return Ok(true);
        }
    }
    let location = store.info().location;
    let problem = format!("token `{name}` is being changed by others; try again");
    Err(StoreError::Unavailable { location, problem, source: None }.into())
}

//! What a token gives its holder: the same in `backstop.toml` and in the store.

use std::collections::BTreeSet;

use backstop::Timestamp;
use backstop_core::Tenant;
use serde::{Deserialize, Serialize};

use super::{Caller, Scope, TokenHash};

/// Characters of a token's name at most.
const NAME_CHARS: usize = 64;

/// Queues that one token names at most.
const QUEUES: usize = 100;

/// One token, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenGrant {
    /// What people call it; the audit log names it.
    pub name: String,
    /// The SHA-256 of the token.
    pub hash: TokenHash,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// The tenant whose things alone it sees; none sees all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Tenant>,
    /// The queues that it is for, by the names its tenant uses; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// When it expires; none for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

impl TokenGrant {
    /// True until it expires.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// Its holder.
    #[must_use]
    pub fn caller(&self) -> Caller {
        let tenant = self.tenant.as_ref().map(|tenant| tenant.as_str().to_owned());
        Caller::holder(&self.name, self.scopes.clone(), tenant, self.queues.clone())
    }

    /// Whether it can be used at all.
    ///
    /// # Errors
    /// One sentence about the first thing that is wrong.
    pub fn validate(&self) -> Result<(), TokenGrantError> {
        let plain = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '.' | '_' | '-');
        if self.name.is_empty() || self.name.len() > NAME_CHARS || !self.name.chars().all(plain) {
            return Err(TokenGrantError::Name);
        }
        if super::looks_like_token(&self.name) {
            return Err(TokenGrantError::Secret);
        }
        if self.scopes.is_empty() {
            return Err(TokenGrantError::NoScope);
        }
        match self.queues.as_deref() {
            Some([]) => Err(TokenGrantError::NoQueue),
            Some(queues) if queues.len() > QUEUES => Err(TokenGrantError::TooManyQueues),
            Some(queues) => {
                let limits = backstop::Limits::default();
                let checked = queues.iter().map(|queue| backstop_core::admit::queue_name(queue, &limits));
                let first = checked.filter_map(Result::err).next();
                first.map_or(Ok(()), |refusal| Err(TokenGrantError::Queue(refusal.to_string())))
            }
            None => Ok(()),
        }
    }
}

/// Why a token cannot be as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenGrantError {
    /// It has no usable name.
    #[error("the name of a token has 1 to {NAME_CHARS} of A-Z, a-z, 0-9, `.`, `_` and `-`")]
    Name,
    /// The secret is where the name should be.
    #[error("the name of a token must not be a token: names are shown")]
    Secret,
    /// It could do nothing.
    #[error("a token needs at least one scope: submit, read, logs, operate, admin or work")]
    NoScope,
    /// It is for no queue.
    #[error("a token with an empty list of queues could touch nothing; leave the list out for all queues")]
    NoQueue,
    /// It names more queues than are looked through at every request.
    #[error("a token names {QUEUES} queues at most; make one for all queues, or several tokens")]
    TooManyQueues,
    /// One of its queues cannot be.
    #[error("{0}")]
    Queue(String),
}

impl TokenGrantError {
    /// The field that is wrong.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Name | Self::Secret => "name",
            Self::NoScope => "scopes",
            Self::NoQueue | Self::TooManyQueues | Self::Queue(_) => "queues",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Token;

    #[test]
    fn a_grant_that_cannot_be_used_is_refused_by_its_field() {
        let good = TokenGrant {
            name: "ci".to_owned(),
            hash: TokenHash::of("x"),
            scopes: [Scope::Read].into(),
            tenant: None,
            queues: None,
            expires: None,
        };
        assert_eq!(good.validate(), Ok(()));
        let secret = Token::generate().expect("randomness").reveal().to_owned();
        let queues = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let cases: [(TokenGrant, &str); 7] = [
            (TokenGrant { name: String::new(), ..good.clone() }, "name"),
            (TokenGrant { name: "a b".to_owned(), ..good.clone() }, "name"),
            (TokenGrant { name: "n".repeat(65), ..good.clone() }, "name"),
            (TokenGrant { name: secret, ..good.clone() }, "name"),
            (TokenGrant { scopes: BTreeSet::new(), ..good.clone() }, "scopes"),
            (TokenGrant { queues: queues(&[]), ..good.clone() }, "queues"),
            (TokenGrant { queues: queues(&["mail", " "]), ..good.clone() }, "queues"),
        ];
        for (grant, field) in cases {
            assert_eq!(grant.validate().unwrap_err().field(), field, "{grant:?}");
        }
    }
}

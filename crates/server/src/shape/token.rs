//! Tokens as they are asked for and shown. A token itself is in one answer only: that of the call that makes it.

use std::collections::BTreeSet;

use backstop::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Scope, TokenInfo, TokenOrigin};

/// A token to be made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Its name, which the audit log will tell.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    pub name: String,
    /// What it may do.
    #[schema(min_items = 1)]
    pub scopes: BTreeSet<Scope>,
    /// The tenant whose things alone it sees; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The queues it is for, by the names its tenant uses; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// When it expires; none for never.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A token without its secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// The tenant whose things alone it sees.
    pub tenant: Option<String>,
    /// The queues it is for.
    pub queues: Option<Vec<String>>,
    /// When it expires.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// Where it is kept: `configuration` or `store`.
    pub kept_in: String,
    /// When it was made.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub created_at: Option<Timestamp>,
    /// Who made it.
    pub created_by: Option<String>,
    /// When it was revoked.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub revoked_at: Option<Timestamp>,
    /// Who revoked it.
    pub revoked_by: Option<String>,
    /// When it was last used, to the minute.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Timestamp>,
}

impl TokenView {
    /// A token as it may be shown.
    #[must_use]
    pub fn of(info: TokenInfo) -> Self {
        let TokenInfo { grant, origin, created, revoked, last_used } = info;
        let (created_at, created_by) = created.unzip();
        let (revoked_at, revoked_by) = revoked.unzip();
        let kept_in = match origin {
            TokenOrigin::Configuration => "configuration",
            TokenOrigin::Store => "store",
        };
        Self {
            name: grant.name,
            scopes: grant.scopes,
            tenant: grant.tenant.map(String::from),
            queues: grant.queues,
            expires_at: grant.expires,
            kept_in: kept_in.to_owned(),
            created_at,
            created_by,
            revoked_at,
            revoked_by,
            last_used_at: last_used,
        }
    }
}

/// A token that was just made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MadeToken {
    /// The token: keep it now, it is not shown again.
    pub token: String,
    /// What it is.
    pub made: TokenView,
}

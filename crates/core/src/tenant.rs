//! Tenants, as the names of queues tell them: `acme/mail` is the queue `mail` of the tenant `acme` (E13).
//!
//! Owns what a tenant may be called and which queue is whose. It must not know who asks: the interfaces decide that,
//! and hand the tenant down as a condition.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How jobs on queues of no tenant are shown. No tenant may be called like this.
pub const NO_TENANT: &str = "default";

/// What stands between a tenant and the name of its queue.
const MARK: char = '/';

/// Characters of a tenant's name at most: a queue's name has to hold it and the rest.
const MOST_CHARS: usize = 32;

/// The tenant whose queue this is: the part before the first `/`.
///
/// A queue without `/` has none, and so has one whose first part could not be a tenant's name (`Reports/daily`,
/// `default/mail`): such queues were possible before there were tenants, and stay what they were.
///
/// ```
/// use backstop_core::tenant::of_queue;
/// assert_eq!(of_queue("acme/mail"), Some("acme"));
/// assert_eq!(of_queue("mail"), None);
/// ```
#[must_use]
pub fn of_queue(queue: &str) -> Option<&str> {
    let (tenant, _) = queue.split_once(MARK)?;
    check(tenant).is_ok().then_some(tenant)
}

/// The tenant of a queue as it is shown: [`NO_TENANT`] when there is none.
#[must_use]
pub fn shown(queue: &str) -> &str {
    of_queue(queue).unwrap_or(NO_TENANT)
}

/// `kind` as the failures of a queue know it: a tenant's are apart from everybody else's, so that they never share
/// an incident.
#[must_use]
pub fn incident_kind<'k>(queue: &str, kind: &'k str) -> Cow<'k, str> {
    match of_queue(queue) {
        Some(tenant) => Cow::Owned(format!("{tenant}{MARK}{kind}")),
        None => Cow::Borrowed(kind),
    }
}

/// What the kinds of a tenant's failures begin with, see [`incident_kind`].
#[must_use]
pub fn incident_prefix(tenant: &str) -> String {
    format!("{tenant}{MARK}")
}

/// What the names of a tenant's queues begin with.
#[must_use]
pub fn queue_prefix(tenant: &str) -> String {
    format!("{tenant}{MARK}")
}

/// How long a node goes by what it has read of a tenant's holdings.
pub const KNOWN_FOR: Duration = Duration::from_secs(60);

/// The same for a tenant that has as much as it may: something of it may have become empty meanwhile.
pub const FULL_FOR: Duration = Duration::from_secs(5);

/// What the limit of a tenant says of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantRoom {
    /// The tenant has it already: it stays usable, whatever the limit is now.
    Known,
    /// It is new, and fits.
    Free,
    /// It is new, and the tenant has as many as it may.
    Full,
}

/// Whether a tenant that has `count` names may use one more, of which it is known whether it is among them (E13).
#[must_use]
pub const fn room(is_known: bool, count: usize, limit: usize) -> TenantRoom {
    if is_known {
        TenantRoom::Known
    } else if count < limit {
        TenantRoom::Free
    } else {
        TenantRoom::Full
    }
}

/// Somebody whose queues, jobs and incidents nobody else sees.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(Box<str>);

impl Tenant {
    /// Its name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full name of what this tenant calls `name`.
    ///
    /// A name that is qualified already is qualified again: whatever a tenant says, it stays among its own.
    #[must_use]
    pub fn qualify(&self, name: &str) -> String {
        format!("{}{MARK}{name}", self.0)
    }

    /// What this tenant calls the thing with this full name; none when it is not the tenant's.
    #[must_use]
    pub fn local<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(&*self.0)?.strip_prefix(MARK)
    }

    /// True when this queue is the tenant's.
    #[must_use]
    pub fn owns(&self, queue: &str) -> bool {
        of_queue(queue) == Some(self.as_str())
    }
}

fn check(name: &str) -> Result<(), TenantError> {
    if name.is_empty() {
        return Err(TenantError::Empty);
    }
    if let Some(found) = name.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '-')) {
        return Err(TenantError::Character(found));
    }
    if name.len() > MOST_CHARS {
        return Err(TenantError::TooLong(name.len()));
    }
    if name == NO_TENANT {
        return Err(TenantError::Reserved);
    }
    Ok(())
}

impl FromStr for Tenant {
    type Err = TenantError;

    fn from_str(name: &str) -> Result<Self, TenantError> {
        check(name).map(|()| Self(name.into()))
    }
}

impl TryFrom<String> for Tenant {
    type Error = TenantError;

    fn try_from(name: String) -> Result<Self, TenantError> {
        check(&name).map(|()| Self(name.into()))
    }
}

impl From<Tenant> for String {
    fn from(tenant: Tenant) -> Self {
        tenant.0.into()
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Why a text is no tenant's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TenantError {
    /// There is nothing.
    #[error("the tenant's name is empty; give 1 to {MOST_CHARS} of a-z, 0-9 and -")]
    Empty,
    /// It holds another character.
    #[error("a tenant's name holds only a-z, 0-9 and -, and {0:?} is none of them")]
    Character(char),
    /// It does not fit.
    #[error("the tenant's name has {0} characters; the limit is {MOST_CHARS}")]
    TooLong(usize),
    /// It would look like no tenant at all.
    #[error("`{NO_TENANT}` is how jobs of no tenant are shown; call the tenant something else")]
    Reserved,
}

#[cfg(test)]
mod tests {
    use super::*;

    // E13
    #[test]
    fn what_is_known_stays_usable_and_what_is_new_must_fit() {
        use TenantRoom::{Free, Full, Known};
        for (is_known, count, limit, expected) in [
            (false, 0, 1, Free),
            (false, 1, 2, Free),
            (false, 2, 2, Full),
            (false, 0, 0, Full),
            (false, usize::MAX, usize::MAX, Full),
            (true, 1, 2, Known),
            (true, 2, 2, Known),
            (true, 9, 2, Known),
        ] {
            assert_eq!(room(is_known, count, limit), expected, "{is_known}, {count} of {limit}");
        }
    }

    // E13
    #[test]
    fn a_queue_tells_its_tenant() {
        let table = [
            ("acme/mail", Some("acme")),
            ("acme/mail/bulk", Some("acme")),
            ("a-1/", Some("a-1")),
            ("mail", None),
            ("/mail", None),
            ("Acme/mail", None),
            ("ac me/mail", None),
            ("default/mail", None),
            ("a23456789012345678901234567890123/mail", None),
            ("", None),
        ];
        for (queue, tenant) in table {
            assert_eq!(of_queue(queue), tenant, "{queue}");
            assert_eq!(shown(queue), tenant.unwrap_or("default"), "{queue}");
            let kind = tenant.map_or("send".to_owned(), |tenant| format!("{tenant}/send"));
            assert_eq!(incident_kind(queue, "send"), kind, "{queue}");
        }
    }

    // E13
    #[test]
    fn a_name_is_checked() {
        let most = "a".repeat(32);
        for good in ["acme", "a", "0", "-", &most] {
            assert_eq!(good.parse::<Tenant>().expect("a name").as_str(), good);
        }
        let over = "a".repeat(33);
        let table = [
            ("", "the tenant's name is empty; give 1 to 32 of a-z, 0-9 and -"),
            ("Acme", "a tenant's name holds only a-z, 0-9 and -, and 'A' is none of them"),
            ("a/b", "a tenant's name holds only a-z, 0-9 and -, and '/' is none of them"),
            ("ä", "a tenant's name holds only a-z, 0-9 and -, and 'ä' is none of them"),
            (&over, "the tenant's name has 33 characters; the limit is 32"),
            ("default", "`default` is how jobs of no tenant are shown; call the tenant something else"),
        ];
        for (bad, sentence) in table {
            assert_eq!(bad.parse::<Tenant>().expect_err("no name").to_string(), sentence);
            let text = serde_json::to_string(bad).expect("text");
            let refused = serde_json::from_str::<Tenant>(&text).expect_err("no name either");
            assert!(refused.to_string().contains(sentence), "{refused}");
        }
    }

    // E13
    #[test]
    fn a_tenant_stays_among_its_own() {
        let acme: Tenant = "acme".parse().expect("a name");
        for name in ["mail", "", "/", "other/mail", "acme/mail", "../other/mail"] {
            let full = acme.qualify(name);
            assert_eq!(of_queue(&full), Some("acme"), "{name}");
            assert!(acme.owns(&full), "{name}");
            assert_eq!(acme.local(&full), Some(name), "{name}");
        }
        for foreign in ["mail", "acmes/mail", "acm/mail", "other/acme/mail", "acme", ""] {
            assert_eq!(acme.local(foreign), None, "{foreign}");
            assert!(!acme.owns(foreign), "{foreign}");
        }
    }
}

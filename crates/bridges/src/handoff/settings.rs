//! `[handoff.NAME]` of the configuration: what a hand-off is told, and whether it can be meant.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use backstop::handoffs::{HandOff, KeyField};
use backstop::standard_webhooks::Secret;
use backstop_core::digest::short;
use serde::Deserialize;
use url::{Host, Url};

use crate::address::is_loopback;
use crate::secret::SecretText;

/// Secrets that may be valid at once: the one in use, and those that go in and out.
const MOST_SECRETS: usize = 5;

/// Why a hand-off cannot be meant like this. No message repeats a token, a secret or an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hand-off `{handoff}`: `{key}` {problem}")]
pub struct HandOffSettingsError {
    /// Which hand-off.
    pub handoff: String,
    /// Which key of its table.
    pub key: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// One hand-off. With `to` it publishes; without, it says which secrets vouch for what is published under its name.
/// Token and secrets are never shown.
///
/// ```
/// use backstop_bridges::handoff::HandOffSettings;
///
/// let settings: HandOffSettings = toml::from_str(r#"
///     to = "https://warehouse.example"
///     token = "hunter2"
///     kinds = ["charge"]
///     key = ["order"]
/// "#)?;
/// settings.check("paid")?;
/// assert!(!format!("{settings:?}").contains("hunter2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HandOffSettings {
    /// Where the other Backstop is.
    pub(crate) to: Option<SecretText>,
    pub(crate) token: Option<SecretText>,
    /// The kinds of the jobs that are published; of all when there are none.
    pub kinds: BTreeSet<String>,
    /// The fields that the key is made of; none for the incoming id.
    pub key: Vec<String>,
    /// Whose jobs are published: a tenant; those of none unless said.
    pub tenant: Option<String>,
    /// The kind of the jobs at the receiver; the name of the hand-off unless said.
    pub kind: Option<String>,
    /// Their queue there.
    pub queue: Option<String>,
    pub(crate) secrets: Vec<SecretText>,
    /// True when a receiver on another machine may be spoken to without encryption.
    pub plaintext: bool,
    /// A PEM file with the authority that signed the receiver's certificate; those that the machine trusts unless said.
    pub tls_ca: Option<PathBuf>,
}

/// Where the receiver is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ReceiverAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) encrypted: bool,
    /// The header `host`.
    pub(crate) authority: String,
    /// What stands before the paths of the API.
    pub(crate) base: String,
}

impl ReceiverAddress {
    /// As it is shown.
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.encrypted { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.base)
    }

    fn parse(text: &str, plaintext: bool) -> Result<Self, String> {
        let unread = || "is not the address of a Backstop: write https://HOST".to_owned();
        let url = Url::parse(text.trim()).map_err(|_| unread())?;
        let encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(unread()),
        };
        let host = url.host().ok_or_else(unread)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("has a user or a password in it: leave them out and set `token`".to_owned());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("has a query or a fragment: leave it out".to_owned());
        }
        if !encrypted && !plaintext && !is_loopback(&host.to_owned()) {
            let why = "is on another machine and not encrypted: use https, or say `plaintext = true` if the \
                       network between is trusted";
            return Err(why.to_owned());
        }
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_string(),
        };
        let host = match host {
            // In brackets in a URL and nowhere else.
            Host::Ipv6(address) => address.to_string(),
            other => other.to_string(),
        };
        let port = url.port().unwrap_or(if encrypted { 443 } else { 80 });
        Ok(Self { host, port, encrypted, authority, base: url.path().trim_end_matches('/').to_owned() })
    }
}

impl HandOffSettings {
    /// Publishes to the Backstop at this address.
    pub fn to(address: impl Into<String>) -> Self {
        Self { to: Some(SecretText(address.into())), ..Self::default() }
    }

    /// Takes what is published under its name only when one of these secrets signed it.
    pub fn signed_by(secrets: impl IntoIterator<Item = String>) -> Self {
        Self { secrets: secrets.into_iter().map(SecretText).collect(), ..Self::default() }
    }

    /// Shows this token to the receiver: it decides whose the jobs are there.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(SecretText(token.into()));
        self
    }

    /// Trusts the authority in this PEM file: see [`HandOffSettings::tls_ca`].
    #[must_use]
    pub fn trusting(mut self, authority: impl Into<PathBuf>) -> Self {
        self.tls_ca = Some(authority.into());
        self
    }

    /// Signs with this secret too.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<String>) -> Self {
        self.secrets.push(SecretText(secret.into()));
        self
    }

    /// True when it publishes.
    #[must_use]
    pub const fn publishes(&self) -> bool {
        self.to.is_some()
    }

    /// Checks that it can be meant.
    ///
    /// # Errors
    /// [`HandOffSettingsError`].
    pub fn check(&self, name: &str) -> Result<(), HandOffSettingsError> {
        self.parsed_secrets(name)?;
        if self.to.is_some() {
            if !self.address(name)?.encrypted && self.tls_ca.is_some() {
                return Err(wrong(name, "tls_ca", "is for https, and `to` is not encrypted"));
            }
            return self.hand_off(name).map(drop);
        }
        let unused = [
            ("token", self.token.is_some()),
            ("kinds", !self.kinds.is_empty()),
            ("key", !self.key.is_empty()),
            ("tenant", self.tenant.is_some()),
            ("kind", self.kind.is_some()),
            ("queue", self.queue.is_some()),
            ("tls_ca", self.tls_ca.is_some()),
        ];
        if let Some((key, _)) = unused.into_iter().find(|(_, given)| *given) {
            return Err(wrong(name, key, "needs `to`: nothing is published without"));
        }
        if self.secrets.is_empty() {
            return Err(wrong(name, "to", "is missing, and `secrets` is too: give at least one of them"));
        }
        Ok(())
    }

    pub(crate) fn address(&self, name: &str) -> Result<ReceiverAddress, HandOffSettingsError> {
        let text = self.to.as_ref().map_or("", |to| &to.0);
        ReceiverAddress::parse(text, self.plaintext).map_err(|problem| wrong(name, "to", problem))
    }

    /// The secrets, ready to sign or verify with.
    ///
    /// # Errors
    /// When one is none.
    pub fn parsed_secrets(&self, name: &str) -> Result<Vec<Secret>, HandOffSettingsError> {
        if self.secrets.len() > MOST_SECRETS {
            let problem = format!("has more than {MOST_SECRETS}: keep those that are still in use");
            return Err(wrong(name, "secrets", problem));
        }
        let parsed = self.secrets.iter().enumerate().map(|(at, text)| {
            let problem = || format!("number {} is not whsec_ followed by 24 to 64 bytes in base64", at + 1);
            Secret::parse(&text.0).ok_or_else(|| wrong(name, "secrets", problem()))
        });
        parsed.collect()
    }

    /// The hand-off as every process of the store knows it.
    pub(crate) fn hand_off(&self, name: &str) -> Result<HandOff, HandOffSettingsError> {
        let field =
            |text: &String| KeyField::parse(text).map_err(|problem| wrong(name, "key", problem.to_string()));
        let address = self.address(name)?;
        let mut hand_off = HandOff::new(name, address.shown());
        hand_off.kinds = self.kinds.iter().map(|kind| kind.as_str().into()).collect();
        hand_off.key = self.key.iter().map(field).collect::<Result<_, _>>()?;
        for (key, text) in [("kind", &self.kind), ("queue", &self.queue), ("tenant", &self.tenant)] {
            if text.as_ref().is_some_and(String::is_empty) {
                return Err(wrong(name, key, "is empty"));
            }
        }
        if let Some(kind) = &self.kind {
            hand_off.kind.clone_from(kind);
        }
        if let Some(tenant) = &self.tenant {
            hand_off.tenant.clone_from(tenant);
        }
        hand_off.queue.clone_from(&self.queue);
        hand_off.signed = !self.secrets.is_empty();
        hand_off.fingerprint = self.fingerprint();
        let checked = hand_off.check();
        checked.map_err(|problem| wrong(name, "tenant", problem.to_string()))?;
        Ok(hand_off)
    }

    /// Changes with the token and the secrets, and tells nothing of them.
    fn fingerprint(&self) -> String {
        let secrets = self.secrets.iter().map(|secret| secret.0.as_str());
        let token = self.token.as_ref().map_or("", |token| &token.0);
        let all: Vec<&str> = std::iter::once(token).chain(secrets).collect();
        short(&all.join("\n"))[..12].to_owned()
    }
}

fn wrong(handoff: &str, key: &'static str, problem: impl Into<String>) -> HandOffSettingsError {
    HandOffSettingsError { handoff: handoff.to_owned(), key, problem: problem.into() }
}

/// What is wrong with these hand-offs.
#[must_use]
pub fn check_all(all: &BTreeMap<String, HandOffSettings>) -> Vec<HandOffSettingsError> {
    all.iter().filter_map(|(name, settings)| settings.check(name).err()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn checked(text: &str) -> Result<HandOffSettings, String> {
        let settings: HandOffSettings = toml::from_str(text).map_err(|problem| problem.to_string())?;
        settings.check("paid").map_err(|problem| problem.to_string())?;
        Ok(settings)
    }

    #[test]
    fn a_hand_off_is_what_its_table_says() {
        // B7
        let text = format!(
            "to = 'https://warehouse.example:8443/backstop/'\ntoken = 'hunter2'\nkinds = ['charge']\n\
             key = ['order', '/at/day']\ntenant = 'acme'\nkind = 'ship'\nqueue = 'ships'\nsecrets = ['{SECRET}']"
        );
        let settings = checked(&text).expect("good settings");
        let hand_off = settings.hand_off("paid").expect("good settings");
        assert_eq!(hand_off.to, "https://warehouse.example:8443/backstop");
        assert_eq!((hand_off.kind.as_str(), hand_off.queue.as_deref()), ("ship", Some("ships")));
        assert_eq!((hand_off.tenant.as_str(), hand_off.key.len(), hand_off.signed), ("acme", 2, true));
        let shown = format!("{settings:?}{hand_off:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("whsec_"), "{shown}");
        let other = checked(&text.replace("hunter2", "hunter3")).expect("good settings");
        assert_ne!(other.hand_off("paid").expect("good").fingerprint, hand_off.fingerprint);
        let usual =
            checked("to = 'http://[::1]:7700'").expect("good settings").hand_off("paid").expect("good");
        assert_eq!((usual.kind.as_str(), usual.tenant.as_str()), ("paid", "default"));
        assert_eq!(usual.to, "http://[::1]:7700");
    }

    #[test]
    fn what_cannot_be_meant_is_named_in_one_sentence() {
        // B7
        for (text, told) in [
            (String::new(), "`to` is missing, and `secrets` is too"),
            ("to = ''".to_owned(), "`to` is not the address of a Backstop"),
            ("to = 'warehouse.example'".to_owned(), "`to` is not the address of a Backstop"),
            ("to = 'ftp://warehouse.example'".to_owned(), "`to` is not the address of a Backstop"),
            ("to = 'https://ann:hunter2@warehouse.example'".to_owned(), "has a user or a password in it"),
            ("to = 'https://warehouse.example?token=hunter2'".to_owned(), "has a query or a fragment"),
            ("to = 'http://warehouse.example'".to_owned(), "not encrypted: use https"),
            ("to = 'https://a.example'\nkey = ['']".to_owned(), "`key` `` names no field"),
            ("to = 'https://a.example'\nkind = ''".to_owned(), "`kind` is empty"),
            ("to = 'https://a.example'\ntenant = 'A'".to_owned(), "`tenant` a tenant's name holds only"),
            (
                "to = 'https://a.example'\nsecrets = ['hunter2']".to_owned(),
                "`secrets` number 1 is not whsec_",
            ),
            (format!("secrets = ['{SECRET}']\ntoken = 'hunter2'"), "`token` needs `to`"),
            (format!("secrets = ['{SECRET}']\nkinds = ['a']"), "`kinds` needs `to`"),
            ("to = 'https://a.example'\nkeys = ['a']".to_owned(), "unknown field `keys`"),
        ] {
            let refused = checked(&text).expect_err(&text);
            assert!(refused.contains(told), "{text}: {refused}");
            assert!(
                !refused.contains("hunter2") || text.starts_with("to = 'https://a.example'\nkeys"),
                "{refused}"
            );
        }
        assert!(checked(&format!("secrets = ['{SECRET}']")).is_ok(), "it only takes");
        assert!(checked("to = 'http://warehouse.example'\nplaintext = true").is_ok());
    }
}

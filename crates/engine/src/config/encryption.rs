//! Which payloads and results are sealed before they are stored (E12).

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_core::sealing::{NONCE_BYTES, Owner, SealingKeys};

/// Stands for every kind.
const EVERY_KIND: &str = "*";

/// Which data is sealed (E12).
///
/// ```
/// use backstop::keys::{SealingKeys, SecretKey};
/// use backstop::{Config, Encryption};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = SecretKey::new("2026-11", vec![7; 32])?;
/// let config = Config::default().encryption(Encryption::new(SealingKeys::new([key])?).kind("charge_card"));
/// # assert!(config.encryption.is_some());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Encryption {
    /// The first key seals, all of them open.
    pub keys: SealingKeys,
    /// The kinds whose payloads and results are sealed; `*` is every kind.
    pub kinds: BTreeSet<String>,
}

impl Encryption {
    /// Opens what these keys have sealed, and seals nothing yet.
    #[must_use]
    pub const fn new(keys: SealingKeys) -> Self {
        Self { keys, kinds: BTreeSet::new() }
    }

    /// Seals payloads and results of this kind; `*` is every kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kinds.insert(kind.into());
        self
    }

    pub(crate) fn covers(&self, kind: &str) -> bool {
        self.kinds.contains(kind) || self.kinds.contains(EVERY_KIND)
    }

    pub(crate) fn seal(&self, owner: Owner<'_>, text: &str) -> Result<Arc<str>, String> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)
            .map_err(|problem| format!("cannot get random bytes from the system: {problem}"))?;
        self.keys.seal(owner, text, nonce).map(Into::into).map_err(|problem| problem.to_string())
    }
}

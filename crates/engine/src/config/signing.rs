//! Who signs jobs, and where a signature is required (E9).

use std::collections::BTreeMap;

use backstop_core::signing::SigningKeys;

/// Signatures over jobs (E9): with keys, every job that this engine submits is signed, and every signature is checked
/// before a run. A job without one is run all the same, unless signatures are required.
///
/// ```
/// use backstop::keys::{SecretKey, SigningKeys};
/// use backstop::{Config, Signing};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // From a file or a vault: at least 32 bytes that nobody else has.
/// let key = SecretKey::new("2026-11", vec![7; 32])?;
/// let config = Config::default().signing(Signing::new(SigningKeys::new([key])?).required());
/// # assert!(config.signing.is_some());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Signing {
    /// The first key signs, all of them verify.
    pub keys: SigningKeys,
    /// True when a job without a signature is never run.
    pub required: bool,
    /// The same for single queues.
    pub queues: BTreeMap<String, bool>,
}

impl Signing {
    /// Signs, and checks what is signed.
    #[must_use]
    pub const fn new(keys: SigningKeys) -> Self {
        Self { keys, required: false, queues: BTreeMap::new() }
    }

    /// Never runs a job without a signature. Turn it on when every program that submits has the keys and what was
    /// stored before has run.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Says for one queue whether signatures are required.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>, required: bool) -> Self {
        self.queues.insert(name.into(), required);
        self
    }

    pub(crate) fn is_required_on(&self, queue: &str) -> bool {
        self.queues.get(queue).copied().unwrap_or(self.required)
    }
}

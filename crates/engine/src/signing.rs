//! Who vouches for jobs: what is signed on its way into the store, and what is checked before a run (E9).
//!
//! Owns where signatures are required and what becomes of a job without one. What is signed, and how, is decided in
//! `backstop_core::signing`. Every way to a run passes through [`check`], that of workers elsewhere too.

use std::collections::BTreeMap;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{Spec, StoredJob};
use backstop_core::signing::{SignatureError, SigningKeys, sign};

use crate::config::Config;
use crate::engine::Backstop;

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

    fn is_required_on(&self, queue: &str) -> bool {
        self.queues.get(queue).copied().unwrap_or(self.required)
    }
}

/// Signs a job that is about to be stored, if there are keys.
pub(crate) fn vouch(config: &Config, spec: &mut Spec) {
    if let Some(signing) = &config.signing {
        sign(&signing.keys, spec);
    }
}

/// The check of a job that was made elsewhere, before it is stored (L12): as before a run, but for callbacks of others,
/// which only a store makes.
pub(crate) fn vouched(config: &Config, spec: &Spec) -> Result<(), SignatureError> {
    let Some(signing) = &config.signing else { return Ok(()) };
    match signing.keys.verify(spec) {
        Err(SignatureError::Missing) if !signing.is_required_on(&spec.queue) => Ok(()),
        answer => answer,
    }
}

/// The check before every run: a wrong signature is refused wherever there are keys, a missing one where signatures are
/// required. A refused job is dead at once, and no rule of an operator changes that.
pub(crate) async fn check(engine: &Backstop, job: &StoredJob) -> Result<(), Failure> {
    let Some(signing) = &engine.inner.config.signing else { return Ok(()) };
    let spec = &job.spec;
    let problem = match signing.keys.verify(spec) {
        Ok(()) => return Ok(()),
        Err(SignatureError::Missing) if !signing.is_required_on(&spec.queue) => return Ok(()),
        Err(SignatureError::Missing) if spec.callback_of.is_some() => {
            match declared(engine, signing, spec).await? {
                true => return Ok(()),
                false => SignatureError::Missing,
            }
        }
        Err(problem) => problem,
    };
    tracing::error!(job = %spec.id, kind = %spec.kind, queue = %spec.queue, %problem,
        "a job was not run because nobody vouches for it: somebody else may have written into the store");
    Err(Failure::new(Cause::Signature, "Signature", problem.to_string()))
}

/// Says whether a callback without a signature is one that its signed parent asks for.
///
/// A store makes it when the parent expires, and has no keys. Everything about it follows from the parent: its id, its
/// kind, its payload. So the parent's signature speaks for it, for as long as the parent is there.
async fn declared(engine: &Backstop, signing: &Signing, callback: &Spec) -> Result<bool, Failure> {
    let Some(parent) = callback.callback_of else { return Ok(false) };
    let found = engine.job(parent).await.map_err(|error| {
        let message = format!("cannot see who vouches for it: {error}");
        Failure::new(Cause::EngineFault, "SignatureCheck", message)
    })?;
    Ok(found.is_some_and(|parent| {
        let view = &parent.view;
        signing.keys.verify(&view.job.spec).is_ok() && view.job.declares(&view.record, callback)
    }))
}

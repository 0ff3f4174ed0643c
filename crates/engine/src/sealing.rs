//! Payloads and results that nobody reads in the store (E12), and what people see of jobs.
//!
//! Owns which kinds are sealed, and when: at submit, just before a payload is decoded, and when a result is kept. The
//! form of sealed text is decided in `backstop_core::sealing`.

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{Attempt, Callback, JobView, Mask, Spec};
use backstop_core::sealing::{NONCE_BYTES, Owner, SHOWN, SealError, SealingKeys, is_sealed, key_of};
use backstop_core::{JobId, Refusal};

use serde_json::Value;

use crate::config::Config;
use crate::engine::Backstop;

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

    fn covers(&self, kind: &str) -> bool {
        self.kinds.contains(kind) || self.kinds.contains(EVERY_KIND)
    }

    fn seal(&self, owner: Owner<'_>, text: &str) -> Result<Arc<str>, String> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce)
            .map_err(|problem| format!("the system has no random bytes: {problem}"))?;
        self.keys.seal(owner, text, nonce).map(Into::into).map_err(|problem| problem.to_string())
    }
}

/// Seals what a job brings, if its kind or that of a callback is to be sealed.
pub(crate) fn close(config: &Config, spec: &mut Spec) -> Result<(), Refusal> {
    let Some(encryption) = &config.encryption else { return Ok(()) };
    let id = spec.id;
    let seal = |field, kind: &str, payload: &mut Arc<str>| {
        if !encryption.covers(kind) {
            return Ok(());
        }
        let sealed = encryption.seal(Owner::payload(id, kind), payload);
        *payload =
            sealed.map_err(|problem| Refusal::invalid(field, format!("it cannot be sealed: {problem}")))?;
        Ok(())
    };
    seal("payload", &spec.kind, &mut spec.payload)?;
    for callback in [&mut spec.on_success, &mut spec.on_failure].into_iter().flatten() {
        let Callback { kind, payload, .. } = callback;
        seal("callback payload", kind, payload)?;
    }
    Ok(())
}

/// The payload for the handler: opened if it is sealed. That of a worker elsewhere is opened here too.
pub(crate) fn payload(config: &Config, spec: &Spec) -> Result<Arc<str>, Failure> {
    open(config, Owner::payload_of(spec), &spec.payload).map_err(|problem| {
        // Another key does not come by trying again, and nothing of what was sealed is told.
        Failure::new(Cause::Permanent, "Sealed", format!("the payload stays sealed: {problem}"))
            .because("its payload cannot be opened")
    })
}

fn open(config: &Config, owner: Owner<'_>, text: &Arc<str>) -> Result<Arc<str>, SealError> {
    if !is_sealed(text) {
        return Ok(text.clone());
    }
    match (&config.encryption, key_of(text)) {
        (Some(encryption), _) => encryption.keys.open(owner, text).map(Into::into),
        (None, Some(key)) => Err(SealError::UnknownKey { key }),
        // It only begins like sealed text, and nothing is sealed here: a payload like any other.
        (None, None) => Ok(text.clone()),
    }
}

/// The result of a run as it is kept: sealed when its kind is, or when its payload was.
pub(crate) fn result(config: &Config, spec: &Spec, text: String) -> Result<Arc<str>, String> {
    match &config.encryption {
        Some(encryption) if encryption.covers(&spec.kind) || is_sealed(&spec.payload) => {
            encryption.seal(Owner::result_of(spec), &text)
        }
        _ => Ok(text.into()),
    }
}

/// What a handler tells subscribers, as it may be told: they see what a view of the job would show, and so do webhooks,
/// streams and the copies that are stored on their way.
pub(crate) fn told(config: &Config, spec: &Spec, mut data: serde_json::Value) -> serde_json::Value {
    let sealed = config.encryption.as_ref().is_some_and(|encryption| encryption.covers(&spec.kind));
    if sealed || is_sealed(&spec.payload) {
        return SHOWN.into();
    }
    config.mask().value(Some(&spec.kind), &mut data);
    data
}

impl Backstop {
    /// What everything passes through that is shown: see [`JobView::masked`].
    #[must_use]
    pub fn mask(&self) -> Mask<'_> {
        self.inner.config.mask()
    }

    /// The job with its sealed data opened, for somebody who may see it; what these keys do not open stays closed.
    #[must_use]
    pub fn revealed(&self, view: &JobView) -> JobView {
        let mut shown = view.clone();
        let spec = &view.job.spec;
        shown.job.spec.payload = self.opened(Owner::payload_of(spec), &spec.payload);
        shown.result = view.result.as_ref().map(|result| self.opened(Owner::result_of(spec), result));
        shown
    }

    /// The same for a run of this job.
    #[must_use]
    pub fn revealed_run(&self, job: &Spec, run: &Attempt) -> Attempt {
        let result = run.result.as_ref().map(|result| self.opened(Owner::result_of(job), result));
        Attempt { result, ..run.clone() }
    }

    /// A result as it is stored, opened if it is sealed.
    pub(crate) fn opened_result(&self, job: JobId, kind: &Arc<str>, result: &Value) -> Value {
        let text: Arc<str> = result.to_string().into();
        if !is_sealed(&text) {
            return result.clone();
        }
        let spec = Spec::new(job, kind.clone(), "");
        serde_json::from_str(&self.opened(Owner::result_of(&spec), &text)).unwrap_or_default()
    }

    fn opened(&self, owner: Owner<'_>, text: &Arc<str>) -> Arc<str> {
        open(&self.inner.config, owner, text).unwrap_or_else(|_| format!("\"{SHOWN}\"").into())
    }
}

impl Config {
    /// What everything passes through that is shown.
    #[must_use]
    pub fn mask(&self) -> Mask<'_> {
        Mask { redactor: &*self.redactor, masking: &self.masking }
    }
}

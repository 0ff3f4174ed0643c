//! Who vouches for jobs: what is signed on its way into the store, and what is checked before a run (E9).
//!
//! Owns what becomes of a job without a signature. Where one is required is a setting; what is signed, and how, is
//! decided in `backstop_core::signing`. Every way to a run passes through [`check`], that of workers elsewhere too.

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{Spec, StoredJob};
use backstop_core::signing::{SignatureError, sign};
use backstop_store::Store;

use crate::config::{Config, Signing};

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
pub(crate) async fn check(store: &dyn Store, config: &Config, job: &StoredJob) -> Result<(), Failure> {
    let Some(signing) = &config.signing else { return Ok(()) };
    let spec = &job.spec;
    let problem = match signing.keys.verify(spec) {
        Ok(()) => return Ok(()),
        Err(SignatureError::Missing) if !signing.is_required_on(&spec.queue) => return Ok(()),
        Err(SignatureError::Missing) if spec.callback_of.is_some() => {
            match declared(store, signing, spec).await? {
                true => return Ok(()),
                false => SignatureError::Missing,
            }
        }
        Err(problem) => problem,
    };
    tracing::error!(job = %spec.id, kind = %spec.kind, queue = %spec.queue, %problem,
        "a job was not run because its signature is missing or wrong: somebody else may have written into the store");
    Err(Failure::new(Cause::Signature, "Signature", problem.to_string()))
}

/// Says whether a callback without a signature is one that its signed parent asks for.
///
/// A store makes it when the parent expires, and has no keys. Everything about it follows from the parent: its id, its
/// kind, its payload. So the parent's signature speaks for it, for as long as the parent is there.
async fn declared(store: &dyn Store, signing: &Signing, callback: &Spec) -> Result<bool, Failure> {
    let Some(parent) = callback.callback_of else { return Ok(false) };
    let mut found = store.jobs(vec![parent]).await.map_err(|error| {
        let message = format!("cannot check the signature of its parent: {error}");
        Failure::new(Cause::EngineFault, "SignatureCheck", message)
    })?;
    Ok(found.pop().flatten().is_some_and(|parent| {
        let view = &parent.view;
        signing.keys.verify(&view.job.spec).is_ok() && view.job.declares(&view.record, callback)
    }))
}

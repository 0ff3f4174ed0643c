//! What must hold before any handler sees a job, wherever that handler runs: in this process, or behind HTTP.

use std::time::Duration;

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{Record, Spec, StoredJob};
use backstop_store::Store;

use crate::config::Config;
use crate::outcome::Failed;
use crate::signing;
use crate::worker_reports::could_run;

/// How long a job waits for newer code before it is offered again: old workers are about to leave when this happens.
const CODE_PAUSE: Duration = Duration::from_secs(5);

/// How long a job rests that could not be read: it takes another program, or a person, to change that.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(60);

/// The worker that is about to run a job.
pub(crate) struct Runner<'a> {
    /// The version of its code.
    pub(crate) code_version: Option<&'a str>,
    /// True when it has a handler for the job's kind and version.
    pub(crate) knows: bool,
}

/// Checks that the job could be read (C7), the allow list once more (E8), who vouches for it (E9), the version of the
/// code (D7), and that there is code at all (H10).
pub(crate) async fn before_run(
    store: &dyn Store,
    config: &Config,
    job: &StoredJob,
    record: &Record,
    runner: &Runner<'_>,
) -> Result<(), Box<Failed>> {
    let spec = &job.spec;
    if let Some(damage) = spec.damage() {
        // First: nothing else that is asked of it would be right. Another program may be able to read it.
        tracing::error!(job = %spec.id, kind = %spec.kind, queue = %spec.queue, damage, "a job cannot be read");
        let failure = Failure::new(Cause::EngineFault, "Unreadable", damage).retry_in(UNREADABLE_PAUSE);
        return Err(Failed::plain(failure));
    }
    if !config.gate(&spec.queue).allows(&spec.kind) {
        let message = format!("kind `{}` is not allowed on queue `{}`", spec.kind, spec.queue);
        return Err(Failed::plain(Failure::new(Cause::NotAllowed, "NotAllowed", message)));
    }
    signing::check(store, config, job).await.map_err(Failed::plain)?;
    if !record.accepts_code(runner.code_version) {
        return Err(Failed::plain(too_old(record, runner.code_version)));
    }
    if !runner.knows {
        return Err(Failed::plain(unknown_kind(store, spec).await));
    }
    Ok(())
}

/// A kind without code here. That costs an attempt only when nobody else has it: a job of another worker's kinds, which
/// this one has met because its queue lets it take any, goes back uncharged for that one.
async fn unknown_kind(store: &dyn Store, spec: &Spec) -> Failure {
    let mut message = format!("this worker does not know kind `{}` version {}", spec.kind, spec.version);
    match store.workers().await {
        Ok(workers) => match workers.iter().find(|worker| could_run(worker, spec)) {
            Some(other) => message.push_str(&format!(", and worker {} does", other.name)),
            None => return Failure::new(Cause::Error, "UnknownKind", message),
        },
        Err(error) => message.push_str(&format!(", and whether another one does is not known: {error}")),
    }
    Failure::new(Cause::UnknownKind, "KnownElsewhere", message).retry_in(CODE_PAUSE)
}

/// A job that a fix was made for met code without it (D7): it goes back uncharged, for a worker that has it.
fn too_old(record: &Record, version: Option<&str>) -> Failure {
    let needs = record.needs().unwrap_or_default();
    let have = version.unwrap_or("no version");
    let message = format!("it needs code of version {needs} or later, and this worker has {have}");
    Failure::new(Cause::UnknownKind, "CodeTooOld", message).retry_in(CODE_PAUSE)
}

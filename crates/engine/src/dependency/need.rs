//! What a job needs that may be away: what it names itself, else what its payload says, else what its kind needs.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::JobId;
use backstop_core::circuit::{CallResult, KindDependency};
use backstop_core::failure::{Cause, Failure};
use backstop_core::job::Spec;

use crate::circuits::breakers::{CircuitCall, RunAdmission, circuit_open};
use crate::config::Config;
use crate::outcome::{Failed, Reply};
use crate::parts::EngineParts;
use crate::remote::CircuitPass;
use crate::sealing;

/// How long a job is put off at least.
const SHORTEST: Duration = Duration::from_secs(1);

/// What one run needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunNeeds {
    /// The dependency.
    pub(crate) key: Option<Arc<str>>,
    /// True when jobs of its kind need different things: the kind is claimed whatever becomes of one of them, and a job
    /// that cannot run now is put off by itself.
    pub(crate) by_itself: bool,
    /// How long the dependency is known to be unavailable from here.
    pub(crate) unavailable_for: Option<Duration>,
}

impl Config {
    /// What jobs of a kind need, as far as the settings say.
    pub(crate) fn need_of(&self, kind: &str) -> Option<KindDependency> {
        let name = self.kind_dependencies.get(kind)?.as_str().into();
        let from = self.dependency_fields.get(kind).map(|pointer| pointer.as_str().into());
        Some(KindDependency { name, from })
    }

    /// What a job of a kind with this need needs.
    pub(crate) fn needed_by(&self, spec: &Spec, need: Option<&KindDependency>) -> Option<Arc<str>> {
        if let Some(own) = &spec.dependency {
            return Some(own.clone());
        }
        let need = need?;
        if need.from.is_none() {
            return Some(need.name.clone());
        }
        // One that cannot be opened is refused later, for that reason.
        let payload = sealing::payload(self, spec).ok();
        Some(payload.map_or_else(|| need.name.clone(), |payload| need.key_in(&payload, &self.limits)))
    }
}

impl EngineParts {
    /// Asks whether a run may begin: whether what it needs is there, and what the circuit of that says (H1, H3). A
    /// store that cannot be asked lets it run: its end could not be written either.
    pub(crate) async fn admit(
        &self,
        job: JobId,
        needs: &RunNeeds,
    ) -> Result<Option<CircuitCall>, Box<Failed>> {
        let Some(key) = &needs.key else { return Ok(None) };
        if let Some(delay) = needs.unavailable_for {
            let delay = delay.max(SHORTEST) + self.config.circuit(key).spread(job);
            return Err(Failed::plain(unavailable(key, delay)));
        }
        match self.circuits.admit(&self.into(), key, job, needs.by_itself).await {
            Ok(RunAdmission::Go(call)) => Ok(Some(call)),
            Ok(RunAdmission::Wait { delay, until }) => Err(Failed::plain(circuit_open(key, delay, until))),
            Err(error) => {
                tracing::warn!(%error, circuit = %key, "cannot ask a circuit: the run goes on without it");
                Ok(None)
            }
        }
    }
}

impl EngineParts {
    /// Adds what a run in another process said of the dependency that it was let through to, and that its kind has
    /// under this name (H3).
    pub(crate) fn note_call(
        &self,
        pass: Option<CircuitPass>,
        spec: &Spec,
        said: impl FnOnce(&str, Option<&KindDependency>) -> CallResult,
    ) {
        let (Some(pass), need) = (pass, self.config.need_of(&spec.kind)) else { return };
        if let Some(key) = self.config.needed_by(spec, need.as_ref()) {
            let said = said(&key, need.as_ref());
            self.circuits.note(&CircuitCall::passed(&key, pass, spec.id), said);
        }
    }

    /// A run in another process is over, and nobody will hear what it found out: another may try in its place at once.
    pub(crate) async fn give_try_back(&self, pass: Option<CircuitPass>, spec: &Spec) {
        if pass.is_some_and(|pass| pass.probe) {
            self.note_call(pass, spec, |_, _| CallResult::Ignored);
            self.circuits.tell(&self.into()).await;
        }
    }
}

/// What a reply says of the dependency that its run was let through to.
pub(crate) fn said_by(reply: &Reply, key: &str, need: Option<&KindDependency>) -> CallResult {
    match &reply.0 {
        Ok(_) => CallResult::Success,
        Err(failed) => said_of(&failed.failure, key, need),
    }
}

/// What a failure says of the dependency that its run was let through to: what its author says, else what follows from
/// its cause (H4). Who finds something else unavailable says nothing of this one; code may call it as its kind does.
pub(crate) fn said_of(failure: &Failure, key: &str, need: Option<&KindDependency>) -> CallResult {
    let means_another = |named: &str| named != key && need.is_none_or(|need| *need.name != *named);
    match (failure.call_result, failure.cause, failure.dependency.as_deref()) {
        (Some(said), ..) => said,
        (None, Cause::Rejected, Some(named)) if means_another(named) => CallResult::Ignored,
        (None, cause, _) => CallResult::of(cause),
    }
}

/// How a run ends whose dependency is known to be unavailable: uncharged, before it has begun. It names no dependency,
/// because it has found out nothing.
fn unavailable(key: &str, delay: Duration) -> Failure {
    let message = format!("dependency `{key}` is unavailable for this worker: the job is put off");
    Failure::new(Cause::Rejected, "DependencyUnavailable", message).retry_in(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_something_else_away_says_nothing_of_its_own_dependency() {
        // H3, H4
        let need = KindDependency { name: "site".into(), from: Some("/host".into()) };
        let failed = |cause, named: Option<&str>| {
            let mut failure = Failure::new(cause, "Away", "no answer");
            failure.dependency = named.map(str::to_owned);
            failure
        };
        for (cause, named, result) in [
            (Cause::Rejected, None, CallResult::Failure),
            (Cause::Rejected, Some("site:eu"), CallResult::Failure),
            (Cause::Rejected, Some("site"), CallResult::Failure),
            (Cause::Rejected, Some("smtp"), CallResult::Ignored),
            (Cause::Error, Some("smtp"), CallResult::Failure),
            (Cause::Permanent, None, CallResult::Neutral),
        ] {
            assert_eq!(said_of(&failed(cause, named), "site:eu", Some(&need)), result, "{cause:?} {named:?}");
        }
        let mut other = failed(Cause::Rejected, Some("site"));
        assert_eq!(said_of(&other, "own", None), CallResult::Ignored);
        other.call_result = Some(CallResult::Failure);
        assert_eq!(said_of(&other, "own", None), CallResult::Failure, "its author knows better");
        assert_eq!(said_by(&Reply(Ok(None)), "own", None), CallResult::Success);
    }
}

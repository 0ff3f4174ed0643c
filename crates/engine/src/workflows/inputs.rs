//! What the steps before a step returned, and what a whole workflow came to for the job that follows it (W1).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{JobJson, Spec, State, read_document};
use backstop_core::sealing::SealError;
use backstop_core::workflow::{Graph, NodeEnd, NodeState, WorkflowBody, WorkflowEnd, WorkflowProgress};
use backstop_core::{JobId, WorkflowId};
use backstop_store::Error as StoreError;
use serde_json::Value;
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::stored::{self, FoundWorkflow};
use crate::outcome::Failed;
use crate::parts::EngineParts;
use crate::sealing;

/// Results that are handed to one step, in bytes of JSON.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Steps that one read is for: what they are given is in memory together.
const MOST_AT_ONCE: usize = 256;

/// Steps whose results the job that follows a workflow is handed.
const MOST_LAST_ONES: usize = 1_000;

/// What the steps before a step returned, by their names.
pub(crate) type Inputs = BTreeMap<String, Value>;

/// Why the result of a step that succeeded cannot be given to anybody here.
#[derive(Debug, Clone)]
pub(super) enum InputProblem {
    /// These keys do not open it; another process may have the key.
    Sealed(SealError),
    /// It is not stored, as the warning on its job says.
    NotKept(String),
}

/// What the steps before returned, by their jobs; nothing of those that are gone.
pub(super) type FoundResults = HashMap<JobId, Result<Value, InputProblem>>;

/// The results of those of these jobs that succeeded, hot or archived, opened if they are sealed.
pub(super) async fn results(parts: &EngineParts, jobs: Vec<JobId>) -> Result<FoundResults, StoreError> {
    let mut results = HashMap::new();
    let mut gone = Vec::new();
    if jobs.is_empty() {
        return Ok(results);
    }
    for (id, detail) in jobs.iter().zip(parts.store.jobs(jobs.clone()).await?) {
        match detail {
            Some(detail) => add(parts, &mut results, *id, &detail.reads()),
            None => gone.push(*id),
        }
    }
    if !gone.is_empty() {
        for (id, archived) in gone.iter().zip(parts.store.archived(gone.clone()).await?) {
            if let Some(archived) = archived
                && let Some(document) = read_document(&archived.document)
                && let Ok(job) = serde_json::from_value(document["job"].clone())
            {
                add(parts, &mut results, *id, &job);
            }
        }
    }
    Ok(results)
}

fn add(parts: &EngineParts, results: &mut FoundResults, id: JobId, job: &JobJson) {
    if job.status == State::Succeeded {
        results.insert(id, returned(parts, id, job));
    }
}

fn returned(parts: &EngineParts, id: JobId, job: &JobJson) -> Result<Value, InputProblem> {
    match (&job.result, &job.warning) {
        (Some(result), _) => {
            sealing::open_result(&parts.config, id, &job.kind, result).map_err(InputProblem::Sealed)
        }
        // The only warnings of a run that succeeded are about its result.
        (None, Some(warning)) => Err(InputProblem::NotKept(warning.clone())),
        (None, None) => Ok(Value::Null),
    }
}

/// Reads what steps are given for many runs at once: while one of them reads, the others gather, and whoever is next
/// reads for all of them. A thousand steps that start together cost a few reads.
#[derive(Debug, Default)]
pub(crate) struct InputReader {
    asking: Mutex<Vec<InputRequest>>,
    turn: tokio::sync::Mutex<()>,
}

/// Whose results a job is handed.
#[derive(Debug, Clone, Copy)]
struct Asked {
    workflow: WorkflowId,
    before: Before,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Those of the steps that this one follows.
    Step(u32),
    /// Those with which all of it ended.
    End,
}

#[derive(Debug)]
struct InputRequest {
    asked: Asked,
    answer: oneshot::Sender<GivenInputs>,
}

/// What a step is given, or why that cannot be read.
type GivenInputs = Result<Inputs, Box<Failed>>;

impl InputReader {
    /// What a job is given; nothing for one that follows no step and no workflow.
    ///
    /// # Errors
    /// When it cannot be read: the run ends without a charge, and is tried again.
    pub(crate) async fn read(&self, parts: &EngineParts, spec: &Spec) -> GivenInputs {
        let Some(asked) = following(spec) else { return Ok(Inputs::default()) };
        loop {
            let (answer, mut answered) = oneshot::channel();
            self.asking().push(InputRequest { asked, answer });
            let _turn = self.turn.lock().await;
            match answered.try_recv() {
                Ok(given) => return given,
                // Whoever read for this one was stopped in the middle of it.
                Err(TryRecvError::Closed) => continue,
                Err(TryRecvError::Empty) => {}
            }
            let asking = self.next();
            let wanted: Vec<Asked> = asking.iter().map(|request| request.asked).collect();
            let given = read_all(parts, &wanted).await;
            for (request, given) in asking.into_iter().zip(given) {
                // Who does not wait any more needs no answer.
                let _ = request.answer.send(given);
            }
            // Unless more than that were before it, it has read for itself.
            if let Ok(given) = answered.try_recv() {
                return given;
            }
        }
    }

    /// Those to read for, without those who do not wait any more.
    fn next(&self) -> Vec<InputRequest> {
        let mut asking = self.asking();
        asking.retain(|request| !request.answer.is_closed());
        let count = asking.len().min(MOST_AT_ONCE);
        asking.drain(..count).collect()
    }

    fn asking(&self) -> MutexGuard<'_, Vec<InputRequest>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a job is given: a step with others before it, or the job that follows a whole workflow.
fn following(spec: &Spec) -> Option<Asked> {
    if let Some(part) = spec.part_of() {
        return part.follows.then_some(Asked { workflow: part.id, before: Before::Step(part.number) });
    }
    WorkflowEnd::read(spec).map(|end| Asked { workflow: end.id, before: Before::End })
}

/// What each of these jobs is given.
pub(crate) async fn of_all(parts: &EngineParts, specs: &[&Spec]) -> Vec<GivenInputs> {
    let wanted: Vec<Option<Asked>> = specs.iter().map(|spec| following(spec)).collect();
    let mut given = read_all(parts, &wanted.iter().flatten().copied().collect::<Vec<_>>()).await.into_iter();
    let one =
        |asked: &Option<Asked>| asked.and_then(|_| given.next()).unwrap_or_else(|| Ok(Inputs::default()));
    wanted.iter().map(one).collect()
}

fn unread(problem: impl std::fmt::Display) -> Box<Failed> {
    Failed::plain(Failure::new(Cause::EngineFault, "Inputs", format!("the results before it: {problem}")))
}

/// One answer for each, in order: two reads for all of them, and one more for what is archived.
async fn read_all(parts: &EngineParts, wanted: &[Asked]) -> Vec<GivenInputs> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let ids: Vec<WorkflowId> =
        wanted.iter().map(|asked| asked.workflow).collect::<BTreeSet<_>>().into_iter().collect();
    let found = match stored::read(&*parts.store, &parts.workflows, &ids).await {
        Ok(found) => ids.into_iter().zip(found).collect::<BTreeMap<_, _>>(),
        Err(error) => return wanted.iter().map(|_| Err(unread(&error))).collect(),
    };
    let before: Vec<_> =
        wanted.iter().map(|asked| steps_before(asked.before, found.get(&asked.workflow))).collect();
    let jobs: BTreeSet<JobId> = before.iter().flatten().flatten().map(|(_, job)| *job).collect();
    match results(parts, jobs.into_iter().collect()).await {
        Ok(results) => {
            let given = wanted.iter().zip(before);
            given.map(|(asked, before)| gathered(asked.before, before?, &results)).collect()
        }
        Err(error) => wanted.iter().map(|_| Err(unread(&error))).collect(),
    }
}

/// The steps whose results are handed on, by name, with the jobs that stand for them now: those that succeeded, so
/// that each of them has to have one.
fn steps_before(
    before: Before,
    found: Option<&FoundWorkflow>,
) -> Result<Vec<(Arc<str>, JobId)>, Box<Failed>> {
    let stored = match found {
        Some(FoundWorkflow::There(stored)) => stored,
        Some(FoundWorkflow::Unreadable) => return Err(unread("its workflow cannot be read")),
        // What follows a workflow was told how it ended.
        Some(FoundWorkflow::Absent) | None if before == Before::End => return Ok(Vec::new()),
        Some(FoundWorkflow::Absent) | None => {
            // It was driven again after its workflow had been removed by age: no retry brings that back.
            let failure = Failure::new(Cause::Permanent, "Inputs", "its workflow was removed");
            return Err(Failed::plain(failure.because("what it was to be given is not there any more")));
        }
    };
    let (Some(graph), WorkflowBody::Graph(progress)) = (&stored.graph, &stored.workflow.body) else {
        return Ok(Vec::new());
    };
    let succeeded = |number: &u32| progress.state(*number) == NodeState::Ended(NodeEnd::Succeeded);
    let named = |number: u32| Some((graph.node(number)?.name.clone(), progress.job(graph, number)?));
    Ok(numbers(before, graph, progress).into_iter().filter(succeeded).filter_map(named).collect())
}

fn numbers(before: Before, graph: &Graph, progress: &WorkflowProgress) -> Vec<u32> {
    match before {
        Before::Step(number) => graph.node(number).map(|node| node.inputs.clone()).unwrap_or_default(),
        Before::End => {
            let mut last = progress.last_ones(graph);
            last.truncate(MOST_LAST_ONES);
            last
        }
    }
}

fn gathered(asked: Before, before: Vec<(Arc<str>, JobId)>, results: &FoundResults) -> GivenInputs {
    let mut inputs = Inputs::default();
    let mut bytes = 0;
    for (name, job) in before {
        let result = match results.get(&job) {
            Some(Ok(result)) => result,
            // Whoever follows a whole workflow runs in any case: it may be there to tell somebody.
            missing if asked == Before::End => {
                let Failure { message, .. } = without_result(&name, missing);
                tracing::warn!(%job, error = message, "what follows a workflow is not given one of its results");
                continue;
            }
            missing => return Err(Failed::plain(without_result(&name, missing))),
        };
        bytes += result.to_string().len();
        if bytes > MOST_BYTES {
            if asked == Before::End {
                break;
            }
            let problem = format!("they have over {MOST_BYTES} bytes: keep what is large elsewhere");
            let failure = Failure::new(Cause::Invalid, "Inputs", problem);
            return Err(Failed::plain(failure.because("the results before it are too large")));
        }
        inputs.insert(name.to_string(), result.clone());
    }
    Ok(inputs)
}

/// A step cannot be given what one before it returned. No retry brings that about: it may count on what it follows.
fn without_result(step: &str, found: Option<&Result<Value, InputProblem>>) -> Failure {
    let (problem, why) = match found {
        Some(Err(InputProblem::Sealed(problem))) => (
            format!("cannot be opened: {problem}; give this program all encryption keys and retry the job"),
            "the result of a step before it cannot be opened",
        ),
        Some(Err(InputProblem::NotKept(warning))) => {
            (format!("is missing: {warning}"), "the result of a step before it was not kept")
        }
        Some(Ok(_)) | None => {
            ("is missing: its job was removed".to_owned(), "the result of a step before it was removed")
        }
    };
    let message = format!("the result of step `{step}` {problem}");
    Failure::new(Cause::Permanent, "Inputs", message).because(why)
}

/// The payload that a step takes from the one before it; none when it has its own.
pub(crate) fn payload(spec: &Spec, inputs: &Inputs) -> Option<Arc<str>> {
    let from = spec.part_of()?.payload_from.as_ref()?;
    Some(inputs.get(&**from).unwrap_or(&Value::Null).to_string().into())
}

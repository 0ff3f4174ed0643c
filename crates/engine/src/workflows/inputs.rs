//! What the steps before a step returned (W1).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::failure::{Cause, Failure};
use backstop_core::job::{JobJson, Spec, State, read_document};
use backstop_core::workflow::WorkflowBody;
use backstop_store::Error as StoreError;
use serde_json::Value;

use super::stored::{self, FoundWorkflow};
use crate::outcome::Failed;
use crate::parts::EngineParts;
use crate::sealing;

/// Results that are handed to one step, in bytes of JSON.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// What the steps before a step returned, by their names.
pub(crate) type Inputs = BTreeMap<String, Value>;

/// The results of those of these jobs that succeeded, hot or archived, opened if they are sealed.
pub(super) async fn results(
    parts: &EngineParts,
    jobs: Vec<JobId>,
) -> Result<HashMap<JobId, Value>, StoreError> {
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

fn add(parts: &EngineParts, results: &mut HashMap<JobId, Value>, id: JobId, job: &JobJson) {
    if job.status == State::Succeeded {
        let result = job.result.as_ref();
        let result = result.map(|result| sealing::opened_result(&parts.config, id, &job.kind, result));
        results.insert(id, result.unwrap_or_default());
    }
}

/// What a step is given; nothing for a job that is no step, or follows none.
///
/// # Errors
/// When it cannot be read: the run ends without a charge, and is tried again.
pub(crate) async fn of(parts: &EngineParts, spec: &Spec) -> Result<Inputs, Box<Failed>> {
    let Some(part) = spec.part_of().filter(|part| part.follows) else { return Ok(Inputs::default()) };
    let unread = |problem: String| {
        Failed::plain(Failure::new(Cause::EngineFault, "Inputs", format!("the results before it: {problem}")))
    };
    let found = stored::read(&*parts.store, &parts.workflows, &[part.id]).await;
    let stored = match found.map_err(|error| unread(error.to_string()))?.pop() {
        Some(FoundWorkflow::There(stored)) => stored,
        Some(FoundWorkflow::Unreadable) => return Err(unread("its workflow cannot be read".to_owned())),
        Some(FoundWorkflow::Absent) | None => {
            // It was driven again after its workflow had been removed by age: no retry brings that back.
            let failure = Failure::new(Cause::Permanent, "Inputs", "its workflow was removed");
            return Err(Failed::plain(failure.because("what it was to be given is not there any more")));
        }
    };
    let (Some(graph), WorkflowBody::Graph(progress)) = (stored.graph, &stored.workflow.body) else {
        return Ok(Inputs::default());
    };
    let Some(node) = graph.node(part.number) else { return Ok(Inputs::default()) };
    let before: Vec<(Arc<str>, JobId)> = node
        .inputs
        .iter()
        .filter_map(|number| Some((graph.node(*number)?.name.clone(), progress.job(&graph, *number)?)))
        .collect();
    let jobs = before.iter().map(|(_, job)| *job).collect();
    let mut results = results(parts, jobs).await.map_err(|error| unread(error.to_string()))?;
    let mut inputs = Inputs::default();
    let mut bytes = 0;
    for (name, job) in before {
        let Some(result) = results.remove(&job) else { continue };
        bytes += result.to_string().len();
        if bytes > MOST_BYTES {
            let problem = format!("they have over {MOST_BYTES} bytes: keep what is large elsewhere");
            let failure = Failure::new(Cause::Invalid, "Inputs", problem);
            return Err(Failed::plain(failure.because("the results before it are too large")));
        }
        inputs.insert(name.to_string(), result);
    }
    Ok(inputs)
}

/// The payload that a step takes from the one before it; none when it has its own.
pub(crate) fn payload(spec: &Spec, inputs: &Inputs) -> Option<Arc<str>> {
    let from = spec.part_of()?.payload_from.as_ref()?;
    Some(inputs.get(&**from).unwrap_or(&Value::Null).to_string().into())
}

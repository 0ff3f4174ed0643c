//! What of a job's data is shown: payload, parameters and result with their secrets masked (F11).
//!
//! They are stored as they are, because the handler needs them. Keys, tags and ids are shown as they are, because
//! people look jobs up by them; errors were sanitized before they were stored.

use std::borrow::Cow;
use std::sync::Arc;

use backstop::core::failure::redact::{Redactor, mask_json, mask_text};
use backstop::core::job::{Attempt, JobView};
use serde_json::Value;

/// The parts of a job's document that hold what its submitter and its handler wrote.
const DATA: [&str; 3] = ["payload", "params", "result"];

/// Masks the data of a job.
pub(super) fn view(view: &mut JobView, redactor: &dyn Redactor) {
    let spec = &mut view.job.spec;
    spec.payload = text(&spec.payload, redactor);
    spec.params = spec.params.as_ref().map(|params| text(params, redactor));
    view.result = view.result.as_ref().map(|result| text(result, redactor));
}

/// Masks the data of a run.
pub(super) fn attempt(attempt: &mut Attempt, redactor: &dyn Redactor) {
    attempt.result = attempt.result.as_ref().map(|result| text(result, redactor));
}

/// Masks the data in the document of an archived job and of its runs.
pub(crate) fn document(document: &mut Value, redactor: &dyn Redactor) {
    if let Some(job) = document.get_mut("job") {
        fields(job, redactor);
    }
    for run in document.get_mut("attempts").and_then(Value::as_array_mut).into_iter().flatten() {
        fields(run, redactor);
    }
}

fn fields(part: &mut Value, redactor: &dyn Redactor) {
    for name in DATA {
        if let Some(data) = part.get_mut(name) {
            mask_json(data, redactor);
        }
    }
}

fn text(stored: &Arc<str>, redactor: &dyn Redactor) -> Arc<str> {
    match mask_text(stored, redactor) {
        Cow::Borrowed(_) => stored.clone(),
        Cow::Owned(masked) => masked.into(),
    }
}

//! `backstop job cancel|pause|resume|retry`: one answer per job; a refused one never stops the others.

use std::future::Future;

use backstop::core::job::Operated;
use backstop::{Backstop, JobId, OperateError};
use serde_json::{Value, json};

use crate::app::App;
use crate::output::paint::Ink;
use crate::problem::{Exit, Problem};

pub(super) async fn cancel(
    ids: &[JobId],
    reason: &str,
    engine: &Backstop,
    app: &App,
) -> Result<Exit, Problem> {
    each(ids, app, |id| engine.cancel(id, reason)).await
}

pub(super) async fn pause(ids: &[JobId], engine: &Backstop, app: &App) -> Result<Exit, Problem> {
    each(ids, app, |id| engine.pause(id)).await
}

pub(super) async fn resume(ids: &[JobId], engine: &Backstop, app: &App) -> Result<Exit, Problem> {
    each(ids, app, |id| engine.resume(id)).await
}

pub(super) async fn retry(ids: &[JobId], engine: &Backstop, app: &App) -> Result<Exit, Problem> {
    each(ids, app, |id| engine.retry(id)).await
}

async fn each<F>(ids: &[JobId], app: &App, operate: impl Fn(JobId) -> F) -> Result<Exit, Problem>
where
    F: Future<Output = Result<Operated, OperateError>>,
{
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        match operate(*id).await {
            Ok(operated) => answers.push((*id, Ok(operated))),
            // One job alone: its refusal is the answer of the whole command.
            Err(OperateError::Refused(refusal)) if ids.len() > 1 => {
                answers.push((*id, Err(Problem::from(refusal))))
            }
            Err(error) => return Err(error.into()),
        }
    }
    tell(&answers, app)?;
    let refused = answers.iter().any(|(_, answer)| answer.is_err());
    Ok(if refused { Exit::Refused } else { Exit::Done })
}

fn tell(answers: &[(JobId, Result<Operated, Problem>)], app: &App) -> Result<(), Problem> {
    if app.out.json {
        let items: Vec<Value> = answers.iter().map(document).collect();
        return match &items[..] {
            [one] => app.out.document(one),
            many => app.out.items(many, None),
        };
    }
    for (id, answer) in answers {
        match answer {
            Ok(operated) => app.out.page(&sentence(app, *id, operated))?,
            Err(problem) => problem.tell(&app.out),
        }
    }
    Ok(())
}

fn document((id, answer): &(JobId, Result<Operated, Problem>)) -> Value {
    match answer {
        Ok(operated) => json!({ "id": id, "changed": operated.changed, "status": operated.state }),
        Err(problem) => json!({ "id": id, "error": problem.to_json()["error"] }),
    }
}

fn sentence(app: &App, id: JobId, operated: &Operated) -> String {
    let state = app.out.ink(Ink::of_state(operated.state), operated.state.as_str());
    if operated.changed {
        format!("{id} is now {state}")
    } else {
        format!("{id} was already {state}: nothing changed")
    }
}

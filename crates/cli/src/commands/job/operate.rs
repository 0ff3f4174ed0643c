//! `backstop job cancel|pause|resume|retry`: one answer per job; a refused one never stops the others.

use backstop::{JobId, State};
use backstop_server::shape::{Changed, GivenReason};
use serde_json::{Value, json};

use super::named::path;
use crate::app::App;
use crate::client::Client;
use crate::output::paint::Colour;
use crate::problem::{Exit, Problem};

/// Does the same with each job.
pub(super) async fn each(
    ids: &[JobId],
    verb: &str,
    said: &GivenReason,
    client: &Client,
    app: &App,
) -> Result<Exit, Problem> {
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        match client.post::<Changed>(&path(*id, verb), said).await {
            Ok(changed) => answers.push((*id, Ok(changed))),
            // One job alone: its refusal is the answer of the whole command.
            Err(problem) if problem.exit == Exit::Refused && ids.len() > 1 => {
                answers.push((*id, Err(problem)))
            }
            Err(problem) => return Err(problem),
        }
    }
    tell(&answers, app)?;
    let refused = answers.iter().any(|(_, answer)| answer.is_err());
    Ok(if refused { Exit::Refused } else { Exit::Done })
}

fn tell(answers: &[(JobId, Result<Changed, Problem>)], app: &App) -> Result<(), Problem> {
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

fn document((id, answer): &(JobId, Result<Changed, Problem>)) -> Value {
    match answer {
        Ok(operated) => json!({ "id": id, "changed": operated.changed, "status": operated.status }),
        Err(problem) => json!({ "id": id, "error": problem.to_json()["error"] }),
    }
}

fn sentence(app: &App, id: JobId, operated: &Changed) -> String {
    let ink = operated.status.parse::<State>().map_or(Colour::Bold, Colour::of_state);
    let state = app.out.ink(ink, &operated.status);
    if operated.changed {
        format!("{id} is now {state}")
    } else {
        format!("{id} was already {state}: nothing changed")
    }
}

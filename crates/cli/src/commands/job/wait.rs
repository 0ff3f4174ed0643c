//! `backstop job wait`: for scripts that go on when a job has ended.

use std::time::Duration;

use backstop::{JobId, State};
use backstop_core::job::JobJson;
use backstop_server::shape::ArchivedJob;
use clap::Args;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::named::{ManyJobs, path};
use crate::app::App;
use crate::client::Client;
use crate::output::paint::Colour;
use crate::output::span;
use crate::problem::{Exit, Problem};

/// How often a job is looked at: soon at first, for one that ends at once.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Options of `job wait`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all succeeded, 1 one failed, 4 one was canceled, 5 the timeout was reached."
)]
pub(crate) struct WaitOptions {
    #[command(flatten)]
    many: ManyJobs,
    /// Give up after this long, such as 5m [default: wait for as long as it takes].
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    timeout: Option<Duration>,
}

pub(super) async fn run(options: &WaitOptions, client: &Client, app: &App) -> Result<Exit, Problem> {
    let until = options.timeout.map(|timeout| Instant::now() + timeout);
    let mut ended = Vec::new();
    for id in options.many.find(client).await? {
        let state = one(id, until, client).await?;
        if !app.out.json {
            app.out.page(&sentence(app, id, state))?;
        }
        ended.push((id, state));
    }
    if app.out.json {
        let items: Vec<Value> = ended
            .iter()
            .map(|(id, state)| json!({ "id": id, "status": state, "ended": state.is_terminal() }))
            .collect();
        app.out.items(&items, None)?;
    }
    Ok(exit(ended.iter().map(|(_, state)| *state)))
}

/// The state in which a job has ended, or in which it was when the time was up.
async fn one(id: JobId, until: Option<Instant>, client: &Client) -> Result<State, Problem> {
    let mut pause = FIRST_LOOK;
    loop {
        let state = state(id, client).await?;
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if state.is_terminal() || left.is_some_and(|left| left.is_zero()) {
            return Ok(state);
        }
        tokio::time::sleep(left.map_or(pause, |left| pause.min(left))).await;
        pause = (pause * 2).min(LAST_LOOK);
    }
}

async fn state(id: JobId, client: &Client) -> Result<State, Problem> {
    match client.get::<JobJson>(&path(id, "")).await {
        Ok(job) => Ok(job.status),
        Err(problem) if problem.is("archived") => {
            Ok(client.get::<ArchivedJob>(&format!("/api/v1/archive/{id}")).await?.status)
        }
        Err(problem) => Err(problem),
    }
}

fn sentence(app: &App, id: JobId, state: State) -> String {
    let shown = app.out.ink(Colour::of_state(state), state.as_str());
    if state.is_terminal() { format!("{id} {shown}") } else { format!("{id} is still {shown}") }
}

fn exit(states: impl Iterator<Item = State> + Clone) -> Exit {
    let any = |wanted: fn(State) -> bool| states.clone().any(wanted);
    if any(|state| state == State::Failed) {
        Exit::Failed
    } else if any(|state| !state.is_terminal()) {
        Exit::TimedOut
    } else if any(|state| state == State::Canceled) {
        Exit::Canceled
    } else {
        Exit::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_how_jobs_ended() {
        use State::{Canceled, Failed, Paused, Pending, Succeeded};
        for (states, expected) in [
            (&[Succeeded, Succeeded][..], Exit::Done),
            (&[Succeeded, Failed, Pending, Canceled], Exit::Failed),
            (&[Succeeded, Canceled], Exit::Canceled),
            (&[Canceled, Paused], Exit::TimedOut),
            (&[Pending], Exit::TimedOut),
        ] {
            assert_eq!(exit(states.iter().copied()), expected, "{states:?}");
        }
    }
}

//! `backstop job list`.

use backstop::{State, Timestamp};
use backstop_core::job::{JobJson, WaitReason};
use backstop_server::shape::Items;

use crate::app::App;
use crate::client::Client;
use crate::commands::filter::FilterOptions;
use crate::output::ids::short_ids;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{TextTable, inked, number, short, text};
use crate::problem::Problem;

pub(super) async fn run(
    status: Option<State>,
    filter: &FilterOptions,
    client: &Client,
    app: &App,
) -> Result<(), Problem> {
    let page: Items<JobJson> = client.get(&format!("/api/v1/jobs{}", filter.query(status))).await?;
    let next = page.next_cursor;
    if app.out.json {
        return app.out.items(&page.items, next);
    }
    if page.items.is_empty() {
        return app.out.page(if status.is_some() || filter.narrows() {
            "no job matches: `backstop job list` without filters shows all"
        } else {
            "no jobs yet: `backstop enqueue KIND` adds one, `backstop up --demo` shows some"
        });
    }
    app.out.page(&table(app, &page.items, client.now().await?))?;
    if let Some(next) = next {
        app.out.note(&format!("\nmore: add --cursor {next}"));
    }
    Ok(())
}

fn table(app: &App, jobs: &[JobJson], now: Timestamp) -> String {
    let heads = ["id", "kind", "queue", "status", "runs", "when", "note"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[6]).drop_first(&[2, 6, 5, 4]);
    for (job, id) in jobs.iter().zip(short_ids(jobs.iter().map(|job| job.id))) {
        table.row(vec![
            text(&id),
            text(&job.kind),
            text(&job.queue),
            inked(Colour::of_state(job.status), job.status.as_str()),
            number(job.runs.into()),
            text(&when(job, now)),
            short(&note(job), 120),
        ]);
    }
    table.text()
}

/// The moment that matters in the job's state.
fn when(job: &JobJson, now: Timestamp) -> String {
    match job.status {
        State::Pending | State::Waiting if job.run_at > now => relative(now, job.run_at),
        State::Pending | State::Waiting => format!("due {}", relative(now, job.run_at)),
        State::Running => {
            // Claimed and not started yet: the start that is known is that of the run before.
            let since = job.started_at.filter(|start| *start >= job.run_at).unwrap_or(job.run_at);
            format!("since {}", relative(now, since).trim_end_matches(" ago"))
        }
        State::Paused => format!("stored {}", relative(now, job.created_at)),
        State::Succeeded | State::Failed | State::Canceled => {
            relative(now, job.finished_at.unwrap_or(job.created_at))
        }
    }
}

/// What a person wants to know beside the state.
fn note(job: &JobJson) -> String {
    let said = match job.status {
        State::Succeeded => job.warning.clone(),
        State::Canceled => job.cancel_reason.clone(),
        State::Waiting => job.waiting_for.as_ref().map(|waiting| match waiting.reason {
            WaitReason::OrderingKey => format!("waits for its turn ({})", waiting.key),
            WaitReason::Concurrency | WaitReason::Rate => format!("limit `{}` has no room", waiting.key),
            WaitReason::Circuit => format!("circuit `{}` is open", waiting.key),
            WaitReason::Dependency => format!("dependency `{}` is unavailable", waiting.key),
            WaitReason::SingleInstance => format!("another `{}` runs", waiting.key),
            WaitReason::Workflow => "waits for the steps before it".to_owned(),
            WaitReason::Signal => format!("waits for signal `{}`", waiting.key),
            WaitReason::Permits => format!("pool `{}` has no permits left", waiting.key),
            _ => "waits for code".to_owned(),
        }),
        State::Running => job.progress.as_ref().map(|p| format!("{}% {}", p.percent, p.note)),
        State::Failed => {
            let reason = job.terminal_reason.map_or("failed", backstop::TerminalReason::as_str);
            let error = job.last_error.as_ref();
            Some(error.map_or_else(|| reason.to_owned(), |message| format!("{reason}: {message}")))
        }
        State::Pending | State::Paused => job.last_error.clone(),
    };
    said.unwrap_or_default()
}

//! `backstop job attempts` and `backstop job logs`: the ledger of a job.

use backstop::{JobId, Timestamp};
use backstop_core::failure::Verdict;
use backstop_core::job::AttemptJson;
use backstop_server::shape::{Items, LoggedRun};

use super::named::{RunsOptions, path};
use crate::app::App;
use crate::client::{Client, query};
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::{length, relative};
use crate::output::table::{TextTable, inked, number, short, text};
use crate::problem::Problem;

pub(super) async fn run(runs: &RunsOptions, client: &Client, app: &App) -> Result<(), Problem> {
    let id = client.job_id(&runs.one.id).await?;
    let Items { items, next_cursor: next } =
        client.get::<Items<AttemptJson>>(&page(id, runs, "/attempts")).await?;
    if app.out.json {
        return app.out.items(&items, next);
    }
    if items.is_empty() {
        return app.out.page(&format!("no run has ended yet: `backstop job explain {id}` says why"));
    }
    app.out.page(&table(app, &items, client.now().await?))?;
    if let Some(next) = next {
        app.out.note(&format!("\nmore: add --cursor {next}"));
    }
    Ok(())
}

fn page(id: JobId, runs: &RunsOptions, part: &str) -> String {
    let (limit, cursor) = (Some(runs.limit.to_string()), runs.cursor.map(|run| run.to_string()));
    format!("{}{}", path(id, part), query([("limit", limit), ("cursor", cursor)]))
}

/// The runs as a table.
pub(crate) fn table(app: &App, runs: &[AttemptJson], now: Timestamp) -> String {
    let heads = ["run", "cause", "charged", "started", "took", "then", "error"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[6]).drop_first(&[2, 3]);
    for run in runs {
        let told = run.error_type.as_ref().zip(run.error.as_ref());
        let error = told.map_or_else(String::new, |(kind, message)| format!("{kind}: {message}"));
        table.row(vec![
            number(run.number.into()),
            inked(Colour::of_cause(run.cause), run.cause.as_str()),
            text(if run.charged { "yes" } else { "no" }),
            text(&relative(now, run.started_at)),
            text(&length(run.finished_at.since(run.started_at))),
            text(&then(run)),
            short(run.warning.as_deref().unwrap_or(&error), 200),
        ]);
    }
    table.text()
}

fn then(run: &AttemptJson) -> String {
    match run.decision.as_ref().map(|decision| &decision.verdict) {
        None | Some(Verdict::Succeed) => "done".to_owned(),
        Some(Verdict::Retry { delay }) => format!("again after {}", length(*delay)),
        Some(Verdict::Defer { delay }) => format!("put off for {}", length(*delay)),
        Some(Verdict::Wait { signal, .. }) => format!("waits for signal `{}`", clean(signal)),
        Some(Verdict::Dead { reason }) => format!("dead: {reason}"),
        Some(Verdict::Cancel { .. }) => "canceled".to_owned(),
    }
}

/// What the runs logged, oldest first, as a person would read a log.
pub(super) async fn logs(runs: &RunsOptions, client: &Client, app: &App) -> Result<(), Problem> {
    let id = client.job_id(&runs.one.id).await?;
    let Items { mut items, next_cursor: next } =
        client.get::<Items<LoggedRun>>(&page(id, runs, "/logs")).await?;
    items.reverse();
    if app.out.json {
        return app.out.items(&items, next);
    }
    if items.iter().all(|run| run.output.is_none()) {
        return app.out.page(&format!("nothing was logged: `backstop job attempts {id}` lists the runs"));
    }
    let mut page = String::new();
    for run in &items {
        let title = format!("run {} {} at {}", run.number, run.cause, run.finished_at);
        page.push_str(&format!("{}\n", app.out.ink(Colour::of_cause(run.cause), &title)));
        for line in run.output.as_deref().unwrap_or("(nothing)").lines() {
            page.push_str(&format!("  {}\n", clean(line)));
        }
    }
    app.out.page(&page)
}

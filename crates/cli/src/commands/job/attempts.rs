//! `backstop job attempts` and `backstop job logs`: the ledger of a job.

use backstop::core::failure::Verdict;
use backstop::core::job::Attempt;
use backstop::store::PageRequest;
use backstop::{Backstop, Timestamp};
use serde_json::json;

use super::Runs;
use crate::app::{App, absent};
use crate::output::clean;
use crate::output::paint::Ink;
use crate::output::span::{length, relative};
use crate::output::table::{Listing, inked, number, short, text};
use crate::problem::Problem;

pub(super) async fn run(runs: &Runs, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let (mut items, next) = read(runs, engine).await?;
    // Of which kind they are is not asked for: then what any kind hides is hidden.
    items.iter_mut().for_each(|run| *run = run.masked(None, &engine.mask()));
    if app.out.json {
        return app.out.items(&items, next);
    }
    if items.is_empty() {
        let id = runs.id;
        return app.out.page(&format!("no run of it has ended yet: `backstop job explain {id}` says why"));
    }
    app.out.page(&table(app, &items, engine.store().now().await?))?;
    if let Some(next) = next {
        app.out.note(&format!("\nthere are more: add --cursor {next}"));
    }
    Ok(())
}

async fn read(runs: &Runs, engine: &Backstop) -> Result<(Vec<Attempt>, Option<String>), Problem> {
    // An unknown job has an empty ledger, and should be told from one that has not run.
    if engine.job(runs.id).await?.is_none() {
        return Err(absent(runs.id, engine).await);
    }
    let page = engine.attempts(runs.id, PageRequest { limit: runs.limit, after: runs.cursor }).await?;
    Ok((page.items, page.next.map(|number| number.to_string())))
}

/// The runs as a table.
pub(crate) fn table(app: &App, runs: &[Attempt], now: Timestamp) -> String {
    let heads = ["run", "cause", "charged", "started", "took", "then", "error"];
    let mut table = Listing::new(&app.out, &heads).flexible(&[6]).drop_first(&[2, 3]);
    for run in runs {
        let error =
            run.failure.as_ref().map_or_else(String::new, |f| format!("{}: {}", f.error_type, f.message));
        table.row(vec![
            number(run.number.into()),
            inked(Ink::of_cause(run.cause), run.cause.as_str()),
            text(if run.cause.charges_attempt() { "yes" } else { "no" }),
            text(&relative(now, run.started_at)),
            text(&length(run.finished_at.since(run.started_at))),
            text(&then(run)),
            short(run.warning.as_deref().unwrap_or(&error), 200),
        ]);
    }
    table.text()
}

fn then(run: &Attempt) -> String {
    match run.decision.as_ref().map(|decision| &decision.verdict) {
        None | Some(Verdict::Succeed) => "done".to_owned(),
        Some(Verdict::Retry { delay }) => format!("again after {}", length(*delay)),
        Some(Verdict::Defer { delay }) => format!("put off for {}", length(*delay)),
        Some(Verdict::Dead { reason }) => format!("dead: {reason}"),
        Some(Verdict::Cancel { .. }) => "called off".to_owned(),
    }
}

/// What the runs logged, oldest first, as a person would read a log.
pub(super) async fn logs(runs: &Runs, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let (mut items, next) = read(runs, engine).await?;
    items.reverse();
    if app.out.json {
        let logs: Vec<_> = items
            .iter()
            .map(|run| {
                let (number, cause, finished_at) = (run.number, run.cause, run.finished_at);
                json!({ "number": number, "cause": cause, "finished_at": finished_at, "output": run.output })
            })
            .collect();
        return app.out.items(&logs, next);
    }
    if items.iter().all(|run| run.output.is_none()) {
        return app.out.page(&format!(
            "no run of it logged anything: `backstop job attempts {}` lists its runs",
            runs.id
        ));
    }
    let mut page = String::new();
    for run in &items {
        let title = format!("run {} {} at {}", run.number, run.cause, run.finished_at);
        page.push_str(&format!("{}\n", app.out.ink(Ink::of_cause(run.cause), &title)));
        for line in run.output.as_deref().unwrap_or("(nothing)").lines() {
            page.push_str(&format!("  {}\n", clean(line)));
        }
    }
    app.out.page(&page)
}

//! `backstop dead list|show|export|purge`: dead letters, with all that a person needs to mend them.

mod purge;

use std::path::PathBuf;

use backstop::core::envelope::envelope;
use backstop::core::failure::TerminalReason;
use backstop::core::job::{Attempt, JobView};
use backstop::store::PageRequest;
use backstop::{Backstop, JobId, Refusal, State, Timestamp};
use clap::Subcommand;
use serde_json::{Value, json};

use super::filter::{Conditions, Filter};
use super::job::attempts;
use super::keep::Outlet;
use crate::app::{App, absent};
use crate::output::paint::Ink;
use crate::output::span::relative;
use crate::output::table::{Facts, Listing, inked, number, short, text};
use crate::output::wrap::wrapped;
use crate::output::{brief_json, clean};
use crate::problem::{Exit, Problem};

/// Jobs that are exported at once.
const PAGE: usize = 500;

/// Runs that `show` prints.
const LATEST: usize = 5;

/// Commands about dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// Dead letters, newest job first.
    List(Filter),
    /// One dead letter: its envelope, its latest runs, and what to do.
    Show {
        /// The job.
        id: JobId,
    },
    /// Dead letters as lines of JSON, each with all its runs and its payload in clear.
    Export {
        #[command(flatten)]
        conditions: Conditions,
        /// Write to this new file instead of stdout.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Remove dead letters for good; their idempotency keys keep answering.
    Purge(Box<purge::Options>),
}

pub(crate) async fn run(command: Dead, app: &App) -> Result<Exit, Problem> {
    let engine = app.look().await?;
    match command {
        Dead::List(filter) => list(&filter, &engine, app).await?,
        Dead::Show { id } => show(id, &engine, app).await?,
        Dead::Export { conditions, to } => {
            export(&conditions, Outlet::open(to.as_deref())?, &engine, app).await?
        }
        Dead::Purge(options) => return purge::run(&options, &engine, app).await,
    }
    Ok(Exit::Done)
}

async fn list(filter: &Filter, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let page = engine.jobs(filter.jobs(Some(State::Failed)), filter.page()).await?;
    let next = page.next.map(|id| id.to_string());
    if app.out.json {
        let mut envelopes = Vec::with_capacity(page.items.len());
        for view in &page.items {
            let latest = latest(engine, view.job.spec.id, 1).await?;
            envelopes.extend(enveloped(view, &latest));
        }
        return app.out.items(&envelopes, next);
    }
    if page.items.is_empty() {
        let hint = if filter.narrows() {
            "`backstop dead list` shows all"
        } else {
            "`backstop job list` shows all jobs"
        };
        return app.out.page(&format!("no dead letter here: {hint}"));
    }
    app.out.page(&table(app, &page.items, engine.store().now().await?))?;
    app.out.note("\n`backstop dead show ID` says what to do about one");
    if let Some(next) = next {
        app.out.note(&format!("there are more: add --cursor {next}"));
    }
    Ok(())
}

async fn export(
    conditions: &Conditions,
    mut outlet: Outlet,
    engine: &Backstop,
    app: &App,
) -> Result<(), Problem> {
    let mut page = PageRequest::first(PAGE);
    loop {
        let found = engine.export(conditions.jobs(Some(State::Failed)), page).await?;
        outlet.batch(&found.items, app)?;
        match found.next {
            Some(next) => page.after = Some(next),
            None => return outlet.tell("dead letter", app),
        }
    }
}

fn table(app: &App, views: &[JobView], now: Timestamp) -> String {
    let heads = ["id", "kind", "queue", "reason", "runs", "died", "last error"];
    let mut table = Listing::new(&app.out, &heads).flexible(&[6]).drop_first(&[2, 4, 6, 5]);
    for view in views {
        let error = view
            .last_failure
            .as_ref()
            .map_or_else(String::new, |f| format!("{}: {}", f.error_type, f.message));
        table.row(vec![
            text(&view.job.spec.id.to_string()),
            text(&view.job.spec.kind),
            text(&view.job.spec.queue),
            inked(Ink::Red, view.record.reason.map_or("failed", TerminalReason::as_str)),
            number(view.record.runs.into()),
            text(&view.record.finished_at.map_or_else(|| "-".to_owned(), |at| relative(now, at))),
            short(&error, 160),
        ]);
    }
    table.text()
}

async fn latest(engine: &Backstop, job: JobId, runs: usize) -> Result<Vec<Attempt>, Problem> {
    Ok(engine.attempts(job, PageRequest::first(runs)).await?.items)
}

fn enveloped(view: &JobView, latest: &[Attempt]) -> Option<Value> {
    let version = latest.first().and_then(|attempt| attempt.code_version.as_deref());
    envelope(&view.job, &view.record, view.last_failure.as_ref(), version)
}

async fn show(id: JobId, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let Some((view, explanation)) = engine.explain(id).await? else { return Err(absent(id, engine).await) };
    let runs = latest(engine, id, LATEST).await?;
    let Some(envelope) = enveloped(&view, &runs) else {
        return Err(
            Refusal::WrongState { job: id, state: view.state(), verb: "shown as a dead letter" }.into()
        );
    };
    if app.out.json {
        let (because, next) = (&explanation.because, &explanation.next);
        let document = json!({ "envelope": envelope, "attempts": runs, "because": because, "next": next });
        return app.out.document(&document);
    }
    let now = engine.store().now().await?;
    let mut facts = Facts::default();
    for (name, value) in envelope.as_object().into_iter().flatten() {
        facts.add(
            name,
            value.as_str().map_or_else(|| brief_json(value, 500), |text| clean(text).into_owned()),
        );
    }
    let head = |text: &str| app.out.ink(Ink::Bold, text);
    let mut page = format!("{} {}\n\n", head("dead letter"), app.out.ink(Ink::Red, &id.to_string()));
    page.push_str(&format!("{}\n{}\n", head("envelope"), facts.page(&app.out)));
    let ledger = if runs.is_empty() { "  it never ran".to_owned() } else { attempts::table(app, &runs, now) };
    page.push_str(&format!("{}\n{ledger}\n\n", head("latest runs")));
    let sentence = |text: &str| wrapped(&clean(text), app.out.width, 2);
    let (because, next) = (sentence(&explanation.because), sentence(&explanation.next));
    page.push_str(&format!("{}\n  {because}\n  {next}\n", head("what to do")));
    page.push_str(&format!("\n  `backstop job explain {id}` shows every check that led here\n"));
    app.out.page(&page)
}

//! `backstop dead list|show|export|purge`: dead letters, with all that a person needs to fix them.

mod purge;

use std::path::PathBuf;

use backstop::{JobId, Timestamp};
use backstop_core::failure::TerminalReason;
use backstop_core::job::JobJson;
use backstop_server::shape::{DeadLetter, Envelope, ExportedJob, Items};
use clap::Subcommand;
use serde_json::Value;
use serde_json::value::RawValue;

use super::filter::{FilterOptions, JobConditions};
use super::job::attempts;
use super::job::show::page as job_page;
use super::json_lines::{ExportTarget, documents};
use crate::app::App;
use crate::client::{Client, JobRef};
use crate::output::ids::short_ids;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{Properties, TextTable, inked, number, short, text};
use crate::output::wrap::wrapped;
use crate::output::{brief_json, clean};
use crate::problem::{Exit, Problem};

/// Jobs that are exported at once.
const PAGE: usize = 500;

const DEAD_LETTERS: &str = "/api/v1/dead-letters";

/// Commands about dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List dead letters, newest job first.
    List {
        #[command(flatten)]
        filter: FilterOptions,
        /// Print envelopes, as other systems read them, in JSON.
        #[arg(long)]
        envelope: bool,
    },
    /// Show a dead letter: the job, its latest runs, and what to do.
    Show {
        /// The job: its id, or at least the first 6 characters of it.
        id: JobRef,
        /// Add its envelope, as other systems read it.
        #[arg(long)]
        envelope: bool,
    },
    /// Export dead letters as lines of JSON, each with all its runs and its payload in the clear.
    Export {
        #[command(flatten)]
        conditions: JobConditions,
        /// Export envelopes, as other systems read them.
        #[arg(long)]
        envelope: bool,
        /// Write to this new file instead of stdout.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Remove dead letters for good; their idempotency keys stay taken.
    Purge(Box<purge::PurgeOptions>),
}

pub(crate) async fn run(command: DeadCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        DeadCommand::List { filter, envelope } => list(&filter, envelope, &client, app).await?,
        DeadCommand::Show { id, envelope } => show(client.job_id(&id).await?, envelope, &client, app).await?,
        DeadCommand::Export { conditions, envelope, to } => {
            let outlet = ExportTarget::open(to.as_deref())?;
            if envelope {
                export_envelopes(&conditions, outlet, &client, app).await?;
            } else {
                export(&conditions, outlet, &client, app).await?;
            }
        }
        DeadCommand::Purge(options) => return purge::run(&options, &client, app).await,
    }
    Ok(Exit::Done)
}

async fn list(filter: &FilterOptions, envelope: bool, client: &Client, app: &App) -> Result<(), Problem> {
    let path = format!("{DEAD_LETTERS}{}", filter.query(None));
    if envelope {
        let page: Items<Value> = client.get(&format!("{path}&envelope=true")).await?;
        return app.out.items(&page.items, page.next_cursor);
    }
    let page: Items<JobJson> = client.get(&path).await?;
    if app.out.json {
        return app.out.items(&page.items, page.next_cursor);
    }
    if page.items.is_empty() {
        let hint = if filter.narrows() {
            "`backstop dead list` shows all"
        } else {
            "`backstop job list` shows all jobs"
        };
        return app.out.page(&format!("no dead letters: {hint}"));
    }
    app.out.page(&table(app, &page.items, client.now().await?))?;
    app.out.note("\n`backstop dead show ID` says what to do about one");
    if let Some(next) = page.next_cursor {
        app.out.note(&format!("more: add --cursor {next}"));
    }
    Ok(())
}

/// A page of dead letters with all that is known of each.
async fn export_page(
    conditions: &JobConditions,
    cursor: Option<&str>,
    finished_before: Option<Timestamp>,
    client: &Client,
) -> Result<Items<ExportedJob>, Problem> {
    let query = conditions.page(PAGE, cursor, finished_before);
    client.get(&format!("{DEAD_LETTERS}/export{query}")).await
}

async fn export(
    conditions: &JobConditions,
    mut outlet: ExportTarget,
    client: &Client,
    app: &App,
) -> Result<(), Problem> {
    let mut cursor: Option<String> = None;
    loop {
        let found = export_page(conditions, cursor.as_deref(), None, client).await?;
        outlet.batch(&documents(&found.items), app)?;
        match found.next_cursor {
            Some(next) => cursor = Some(next),
            None => return outlet.tell("dead letter", app),
        }
    }
}

async fn export_envelopes(
    conditions: &JobConditions,
    mut outlet: ExportTarget,
    client: &Client,
    app: &App,
) -> Result<(), Problem> {
    let mut cursor: Option<String> = None;
    loop {
        let query = conditions.page(PAGE, cursor.as_deref(), None);
        let found: Items<Box<RawValue>> = client.get(&format!("{DEAD_LETTERS}{query}&envelope=true")).await?;
        let lines: Vec<&str> = found.items.iter().map(|envelope| envelope.get()).collect();
        outlet.batch(&lines, app)?;
        match found.next_cursor {
            Some(next) => cursor = Some(next),
            None => return outlet.tell("envelope", app),
        }
    }
}

fn table(app: &App, jobs: &[JobJson], now: Timestamp) -> String {
    let heads = ["id", "kind", "queue", "reason", "runs", "died", "last error"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[6]).drop_first(&[2, 4, 6, 5]);
    for (job, id) in jobs.iter().zip(short_ids(jobs.iter().map(|job| job.id))) {
        let told = job.error_type.as_ref().zip(job.last_error.as_ref());
        let error = told.map_or_else(String::new, |(kind, message)| format!("{kind}: {message}"));
        table.row(vec![
            text(&id),
            text(&job.kind),
            text(&job.queue),
            inked(Colour::Red, job.terminal_reason.map_or("failed", TerminalReason::as_str)),
            number(job.runs.into()),
            text(&job.finished_at.map_or_else(|| "-".to_owned(), |at| relative(now, at))),
            short(&error, 160),
        ]);
    }
    table.text()
}

async fn show(id: JobId, envelope: bool, client: &Client, app: &App) -> Result<(), Problem> {
    let with = if envelope { "?envelope=true" } else { "" };
    let letter: DeadLetter = client.get(&format!("{DEAD_LETTERS}/{id}{with}")).await?;
    if app.out.json {
        return app.out.document(&letter);
    }
    let now = client.now().await?;
    let head = |text: &str| app.out.ink(Colour::Bold, text);
    let mut page = format!("{}\n", job_page(app, &letter.job, now));
    if let Some(envelope) = &letter.envelope {
        page.push_str(&format!("{}\n{}\n", head("envelope"), fields(envelope).page(&app.out)));
    }
    let runs = &letter.attempts;
    let ledger = if runs.is_empty() { "  it never ran".to_owned() } else { attempts::table(app, runs, now) };
    page.push_str(&format!("{}\n{ledger}\n\n", head("latest runs")));
    let sentence = |text: &str| wrapped(&clean(text), app.out.width, 2);
    let (because, next) = (sentence(&letter.because), sentence(&letter.next));
    page.push_str(&format!("{}\n  {because}\n  {next}\n", head("what to do")));
    page.push_str(&format!("\n  `backstop job explain {id}` shows every check that led here\n"));
    app.out.page(&page)
}

/// The fields of an envelope, under the names that other systems know.
fn fields(envelope: &Envelope) -> Properties {
    let mut facts = Properties::default();
    for (name, value) in serde_json::to_value(envelope).unwrap_or_default().as_object().into_iter().flatten()
    {
        facts.add(
            name,
            value.as_str().map_or_else(|| brief_json(value, 500), |text| clean(text).into_owned()),
        );
    }
    facts
}

//! `backstop dead list|show|export|purge`: dead letters, with all that a person needs to mend them.

mod purge;

use std::path::PathBuf;

use backstop::core::failure::TerminalReason;
use backstop::core::job::JobReads;
use backstop::{JobId, State, Timestamp};
use backstop_server::shape::{DeadLetter, Exported, Items};
use clap::Subcommand;
use serde_json::Value;

use super::filter::{Conditions, Filter};
use super::job::attempts;
use super::keep::Outlet;
use crate::app::App;
use crate::client::Client;
use crate::output::paint::Ink;
use crate::output::span::relative;
use crate::output::table::{Facts, Listing, inked, number, short, text};
use crate::output::wrap::wrapped;
use crate::output::{brief_json, clean};
use crate::problem::{Exit, Problem};

/// Jobs that are exported at once.
const PAGE: usize = 500;

const DEAD_LETTERS: &str = "/api/v1/dead-letters";

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
    let client = app.looking().await?;
    match command {
        Dead::List(filter) => list(&filter, &client, app).await?,
        Dead::Show { id } => show(id, &client, app).await?,
        Dead::Export { conditions, to } => {
            export(&conditions, Outlet::open(to.as_deref())?, &client, app).await?
        }
        Dead::Purge(options) => return purge::run(&options, &client, app).await,
    }
    Ok(Exit::Done)
}

async fn list(filter: &Filter, client: &Client, app: &App) -> Result<(), Problem> {
    if app.out.json {
        let page: Items<Value> = client.get(&format!("{DEAD_LETTERS}{}", filter.query(None))).await?;
        return app.out.items(&page.items, page.next_cursor);
    }
    let query = filter.query(Some(State::Failed));
    let page: Items<JobReads> = client.get(&format!("/api/v1/jobs{query}")).await?;
    if page.items.is_empty() {
        let hint = if filter.narrows() {
            "`backstop dead list` shows all"
        } else {
            "`backstop job list` shows all jobs"
        };
        return app.out.page(&format!("no dead letter here: {hint}"));
    }
    app.out.page(&table(app, &page.items, client.now().await?))?;
    app.out.note("\n`backstop dead show ID` says what to do about one");
    if let Some(next) = page.next_cursor {
        app.out.note(&format!("there are more: add --cursor {next}"));
    }
    Ok(())
}

/// A page of dead letters with all that is known of each.
async fn export_page(
    conditions: &Conditions,
    cursor: Option<&str>,
    finished_before: Option<Timestamp>,
    client: &Client,
) -> Result<Items<Exported>, Problem> {
    let query = conditions.page(PAGE, cursor, finished_before);
    client.get(&format!("{DEAD_LETTERS}/export{query}")).await
}

async fn export(
    conditions: &Conditions,
    mut outlet: Outlet,
    client: &Client,
    app: &App,
) -> Result<(), Problem> {
    let mut cursor: Option<String> = None;
    loop {
        let found = export_page(conditions, cursor.as_deref(), None, client).await?;
        outlet.batch(&found.items, app)?;
        match found.next_cursor {
            Some(next) => cursor = Some(next),
            None => return outlet.tell("dead letter", app),
        }
    }
}

fn table(app: &App, jobs: &[JobReads], now: Timestamp) -> String {
    let heads = ["id", "kind", "queue", "reason", "runs", "died", "last error"];
    let mut table = Listing::new(&app.out, &heads).flexible(&[6]).drop_first(&[2, 4, 6, 5]);
    for job in jobs {
        let told = job.error_type.as_ref().zip(job.last_error.as_ref());
        let error = told.map_or_else(String::new, |(kind, message)| format!("{kind}: {message}"));
        table.row(vec![
            text(&job.id.to_string()),
            text(&job.kind),
            text(&job.queue),
            inked(Ink::Red, job.terminal_reason.map_or("failed", TerminalReason::as_str)),
            number(job.runs.into()),
            text(&job.finished_at.map_or_else(|| "-".to_owned(), |at| relative(now, at))),
            short(&error, 160),
        ]);
    }
    table.text()
}

async fn show(id: JobId, client: &Client, app: &App) -> Result<(), Problem> {
    let letter: DeadLetter = client.get(&format!("{DEAD_LETTERS}/{id}")).await?;
    if app.out.json {
        return app.out.document(&letter);
    }
    let now = client.now().await?;
    let mut facts = Facts::default();
    for (name, value) in letter.envelope.as_object().into_iter().flatten() {
        facts.add(
            name,
            value.as_str().map_or_else(|| brief_json(value, 500), |text| clean(text).into_owned()),
        );
    }
    let head = |text: &str| app.out.ink(Ink::Bold, text);
    let mut page = format!("{} {}\n\n", head("dead letter"), app.out.ink(Ink::Red, &id.to_string()));
    page.push_str(&format!("{}\n{}\n", head("envelope"), facts.page(&app.out)));
    let runs = &letter.attempts;
    let ledger = if runs.is_empty() { "  it never ran".to_owned() } else { attempts::table(app, runs, now) };
    page.push_str(&format!("{}\n{ledger}\n\n", head("latest runs")));
    let sentence = |text: &str| wrapped(&clean(text), app.out.width, 2);
    let (because, next) = (sentence(&letter.because), sentence(&letter.next));
    page.push_str(&format!("{}\n  {because}\n  {next}\n", head("what to do")));
    page.push_str(&format!("\n  `backstop job explain {id}` shows every check that led here\n"));
    app.out.page(&page)
}

//! `backstop batch list|show|submit|cancel|pause|resume`: jobs that belong together without an order (W3).

use std::path::PathBuf;

use backstop::State;
use backstop_server::shape::{BatchJson, BatchStored, GivenReason, Items};
use clap::Subcommand;

use super::workflow::{WorkflowListOptions, body, colour, done, ids, more, said, told};
use crate::app::App;
use crate::client::{Client, escaped};
use crate::output::clean;
use crate::output::figures::grouped;
use crate::output::paint::Colour;
use crate::output::span::{both, relative};
use crate::output::table::{Properties, TextTable, inked, number, number_inked, text};
use crate::problem::{Exit, Problem};

const BATCHES: &str = "/api/v1/batches";

/// Commands about batches.
#[derive(Debug, Subcommand)]
pub(crate) enum BatchCommand {
    /// List batches, newest first.
    List(WorkflowListOptions),
    /// Show how far a batch is.
    Show {
        /// Its id, or the first characters of it.
        id: String,
    },
    /// Submit a batch from a JSON file.
    Submit {
        /// The file, as POST /api/v1/batches takes it; `-` reads stdin.
        file: PathBuf,
    },
    /// Cancel every job of it that has not ended.
    Cancel {
        /// Its id, or the first characters of it.
        id: String,
        /// Why; kept with the jobs.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Hold back every job of it that has not started.
    Pause {
        /// Its id, or the first characters of it.
        id: String,
    },
    /// Let the jobs go on that were held back.
    Resume {
        /// Its id, or the first characters of it.
        id: String,
    },
}

pub(crate) async fn run(command: BatchCommand, app: &App) -> Result<Exit, Problem> {
    let submits = matches!(command, BatchCommand::Submit { .. });
    let client = if submits { app.client().await? } else { app.looking().await? };
    let path = |id: &str| format!("{BATCHES}/{}", escaped(id));
    match command {
        BatchCommand::List(options) => list(&client, app, &options).await?,
        BatchCommand::Show { id } => show(&client, app, &client.get(&path(&id)).await?).await?,
        BatchCommand::Submit { file } => {
            let stored: BatchStored = client.post(BATCHES, &body(&file)?).await?;
            told(app, &stored, &stored.batch.id.to_string(), stored.deduplicated)?;
        }
        BatchCommand::Cancel { id, reason } => {
            let body = GivenReason { reason };
            said(app, &client.post(&format!("{}/cancel", path(&id)), &body).await?, "canceled", "job")?;
        }
        BatchCommand::Pause { id } => {
            said(app, &client.post(&format!("{}/pause", path(&id)), &()).await?, "paused", "job")?;
        }
        BatchCommand::Resume { id } => {
            said(app, &client.post(&format!("{}/resume", path(&id)), &()).await?, "resumed", "job")?;
        }
    }
    Ok(Exit::Done)
}

async fn list(client: &Client, app: &App, options: &WorkflowListOptions) -> Result<(), Problem> {
    let page: Items<BatchJson> = client.get(&format!("{BATCHES}{}", options.query())).await?;
    if app.out.json {
        return app.out.items(&page.items, page.next_cursor);
    }
    if page.items.is_empty() && page.next_cursor.is_none() {
        return app.out.page(if options.narrows() {
            "no batch matches: `backstop batch list` without filters shows all"
        } else {
            "no batches yet: `backstop batch submit FILE` adds one"
        });
    }
    let now = client.now().await?;
    let heads = ["id", "batch", "status", "done", "failed", "canceled", "submitted"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[6, 5]);
    for (batch, id) in page.items.iter().zip(ids(page.items.iter().map(|batch| batch.id))) {
        let failed = match batch.failed {
            0 => number(0),
            failed => number_inked(Colour::of_state(State::Failed), failed),
        };
        table.row(vec![
            text(&id),
            text(&batch.name),
            inked(colour(batch.status), batch.status.as_str()),
            text(&progress(batch)),
            failed,
            number(batch.canceled),
            text(&relative(now, batch.created_at)),
        ]);
    }
    app.out.page(&table.text())?;
    more(app, page.next_cursor);
    Ok(())
}

fn progress(batch: &BatchJson) -> String {
    let open = if batch.sealed { "" } else { ", open" };
    format!("{}{open}", done(batch.succeeded + batch.failed + batch.canceled, batch.total))
}

async fn show(client: &Client, app: &App, batch: &BatchJson) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(batch);
    }
    let now = client.now().await?;
    let mut facts = Properties::default();
    facts.add("id", batch.id.to_string());
    facts.add("status", app.out.ink(colour(batch.status), batch.status.as_str()));
    facts.add("done", progress(batch));
    facts.add("succeeded", grouped(batch.succeeded));
    facts.add("failed", grouped(batch.failed));
    facts.add("canceled", grouped(batch.canceled));
    facts.add("sealed", if batch.sealed { "yes" } else { "no: jobs may still be added" });
    facts.add("submitted", both(now, batch.created_at));
    if let Some(end) = batch.finished_at {
        facts.add("ended", both(now, end));
    }
    facts.add("its jobs", format!("backstop job list --tag batch:{}", batch.id));
    let title = app.out.ink(Colour::Bold, &clean(&batch.name));
    app.out.page(&format!("{title}\n\n{}", facts.page(&app.out)))
}

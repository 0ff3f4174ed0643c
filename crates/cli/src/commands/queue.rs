//! `backstop queue list|pause|resume`.

use backstop::Timestamp;
use backstop_server::shape::{Changed, OperationNote};
use backstop_store::QueueView;
use clap::Subcommand;
use serde_json::json;

use crate::app::{App, who};
use crate::client::{Client, escaped};
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{TextTable, inked, number, number_inked, text};
use crate::problem::{Exit, Problem};

const QUEUES: &str = "/api/v1/queues";

/// Commands about queues.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List queues with their counts.
    List,
    /// Pause a queue: workers claim nothing from it.
    Pause {
        /// The queue.
        name: String,
        /// Who paused it, and why [default: the user you are logged in as].
        #[arg(long)]
        note: Option<String>,
    },
    /// Resume a queue.
    Resume {
        /// The queue.
        name: String,
    },
}

pub(crate) async fn run(command: QueueCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        QueueCommand::List => list(&client, app).await?,
        QueueCommand::Pause { name, note } => {
            let queues: Vec<QueueView> = client.list(QUEUES).await?;
            if queues.iter().all(|queue| queue.name != name) {
                app.out.warn(&format!("queue `{name}` has had no job and no worker yet: is the name right?"));
            }
            let note = OperationNote { note: Some(who(note)) };
            let Changed { changed, .. } = client.post(&path(&name, "pause"), &note).await?;
            let undo = format!("`backstop queue resume {}` undoes it", clean(&name));
            told(app, &name, changed, true, &undo)?;
        }
        QueueCommand::Resume { name } => {
            let Changed { changed, .. } =
                client.post(&path(&name, "resume"), &OperationNote::default()).await?;
            told(app, &name, changed, false, "its jobs go on")?;
        }
    }
    Ok(Exit::Done)
}

fn told(app: &App, name: &str, changed: bool, paused: bool, next: &str) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(&json!({ "queue": name, "changed": changed, "paused": paused }));
    }
    let state = if paused { "paused" } else { "open" };
    let was = if changed { "is now" } else { "was already" };
    app.out.page(&format!("queue `{}` {was} {state}: {next}", clean(name)))
}

fn path(queue: &str, verb: &str) -> String {
    format!("{QUEUES}/{}/{verb}", escaped(queue))
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let queues: Vec<QueueView> = client.list(QUEUES).await?;
    if app.out.json {
        return app.out.items(&queues, None);
    }
    if queues.is_empty() {
        return app.out.page("no queues yet: `backstop enqueue KIND` adds a job to queue `default`");
    }
    app.out.page(&table(app, &queues, client.now().await?))
}

fn table(app: &App, queues: &[QueueView], now: Timestamp) -> String {
    let heads = [
        "queue",
        "state",
        "workers",
        "pending",
        "waiting",
        "running",
        "paused",
        "succeeded",
        "failed",
        "canceled",
        "oldest due",
    ];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[9, 6, 10, 7, 2]);
    for queue in queues {
        table.row(vec![
            text(&queue.name),
            match (queue.paused, &queue.pause_note) {
                (false, _) => inked(Colour::Green, "open"),
                (true, None) => inked(Colour::Yellow, "paused"),
                (true, Some(note)) => inked(Colour::Yellow, &format!("paused by {note}")),
            },
            if queue.workers == 0 { number(0).fg(Colour::Yellow.cell()) } else { number(queue.workers) },
            number(queue.pending),
            number_inked(Colour::Yellow, queue.waiting),
            number_inked(Colour::Blue, queue.running),
            number_inked(Colour::Yellow, queue.paused_jobs),
            number_inked(Colour::Green, queue.succeeded),
            number_inked(Colour::Red, queue.failed),
            number_inked(Colour::Grey, queue.canceled),
            text(&queue.oldest_due.map_or_else(|| "-".to_owned(), |due| relative(now, due))),
        ]);
    }
    table.text()
}

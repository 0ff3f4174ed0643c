//! `backstop queue list|pause|resume`.

use backstop::Timestamp;
use backstop::store::QueueView;
use backstop_server::shape::{Changed, Note};
use clap::Subcommand;
use serde_json::json;

use crate::app::{App, who};
use crate::client::{Client, escaped};
use crate::output::clean;
use crate::output::paint::Ink;
use crate::output::span::relative;
use crate::output::table::{Listing, inked, number, number_inked, text};
use crate::problem::{Exit, Problem};

const QUEUES: &str = "/api/v1/queues";

/// Commands about queues.
#[derive(Debug, Subcommand)]
pub(crate) enum Queue {
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

pub(crate) async fn run(command: Queue, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        Queue::List => list(&client, app).await?,
        Queue::Pause { name, note } => {
            let queues: Vec<QueueView> = client.list(QUEUES).await?;
            if queues.iter().all(|queue| queue.name != name) {
                app.out.warn(&format!("queue `{name}` has had no job and no worker yet: is the name right?"));
            }
            let note = Note { note: Some(who(note)) };
            let Changed { changed, .. } = client.post(&path(&name, "pause"), &note).await?;
            let undo = format!("`backstop queue resume {}` undoes it", clean(&name));
            told(app, &name, changed, true, &undo)?;
        }
        Queue::Resume { name } => {
            let Changed { changed, .. } = client.post(&path(&name, "resume"), &Note::default()).await?;
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
    let mut table = Listing::new(&app.out, &heads).drop_first(&[9, 6, 10, 7, 2]);
    for queue in queues {
        table.row(vec![
            text(&queue.name),
            match (queue.paused, &queue.pause_note) {
                (false, _) => inked(Ink::Green, "open"),
                (true, None) => inked(Ink::Yellow, "paused"),
                (true, Some(note)) => inked(Ink::Yellow, &format!("paused by {note}")),
            },
            if queue.workers == 0 { number(0).fg(Ink::Yellow.cell()) } else { number(queue.workers) },
            number(queue.pending),
            number_inked(Ink::Yellow, queue.waiting),
            number_inked(Ink::Blue, queue.running),
            number_inked(Ink::Yellow, queue.paused_jobs),
            number_inked(Ink::Green, queue.succeeded),
            number_inked(Ink::Red, queue.failed),
            number_inked(Ink::Grey, queue.canceled),
            text(&queue.oldest_due.map_or_else(|| "-".to_owned(), |due| relative(now, due))),
        ]);
    }
    table.text()
}

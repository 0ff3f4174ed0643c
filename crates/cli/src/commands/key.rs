//! `backstop key list|skip`: whose turn it is among jobs of one ordering key (L21).

use backstop::State;
use backstop_server::shape::{GivenReason, OrderingKeyJson, SkippedJob};
use clap::Subcommand;

use crate::app::{App, who};
use crate::client::{Client, escaped};
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::table::{TextTable, inked, number_inked, text};
use crate::problem::{Exit, Problem};

const KEYS: &str = "/api/v1/ordering-keys";

/// Commands about ordering keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// List ordering keys with the job whose turn it is.
    List {
        /// Only keys that wait for you: their first job failed or is paused.
        #[arg(long)]
        blocked: bool,
    },
    /// Give up the first job of a key, so that the next one runs.
    Skip {
        /// The ordering key.
        key: String,
        /// Why [default: the user you are logged in as].
        #[arg(long)]
        reason: Option<String>,
    },
}

pub(crate) async fn run(command: KeyCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        KeyCommand::List { blocked } => list(&client, app, blocked).await?,
        KeyCommand::Skip { key, reason } => skip(&client, app, &key, reason).await?,
    }
    Ok(Exit::Done)
}

async fn skip(client: &Client, app: &App, key: &str, reason: Option<String>) -> Result<(), Problem> {
    let reason = GivenReason { reason: Some(reason.unwrap_or_else(|| format!("skipped by {}", who(None)))) };
    let skipped: SkippedJob = client.post(&format!("{KEYS}/{}/skip", escaped(key)), &reason).await?;
    if app.out.json {
        return app.out.document(&skipped);
    }
    let SkippedJob { job, was, changed } = skipped;
    app.out.page(&if changed {
        format!("job {job} was {was} and is now canceled: the next job of `{}` has its turn", clean(key))
    } else {
        format!("job {job} had ended already: nothing was changed")
    })
}

async fn list(client: &Client, app: &App, blocked: bool) -> Result<(), Problem> {
    let keys: Vec<OrderingKeyJson> = client.list_where(KEYS, ("blocked", blocked.then_some("true"))).await?;
    if app.out.json {
        return app.out.items(&keys, None);
    }
    if keys.is_empty() {
        return app.out.page(if blocked {
            "no ordering key is blocked"
        } else {
            "no job with an ordering key waits or runs: `backstop enqueue KIND --ordering-key KEY` adds one"
        });
    }
    app.out.page(&table(app, &keys))
}

fn table(app: &App, keys: &[OrderingKeyJson]) -> String {
    let heads = ["key", "state", "first job", "kind", "queue", "waiting"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[4, 3]);
    for key in keys {
        let state = match key.status {
            State::Failed => inked(Colour::Red, "blocked: failed"),
            State::Paused => inked(Colour::Yellow, "blocked: paused"),
            State::Running => inked(Colour::Blue, "running"),
            other => text(other.as_str()),
        };
        table.row(vec![
            text(&key.key),
            state,
            text(&key.head.to_string()),
            text(&key.kind),
            text(&key.queue),
            number_inked(Colour::Yellow, key.waiting),
        ]);
    }
    table.text()
}

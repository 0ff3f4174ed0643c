//! `backstop signal send|list`: letting jobs go on that wait (W10).

use backstop_server::shape::{NewSignal, SentSignal, SignalJson, SignalSort};
use clap::Subcommand;
use serde_json::Value;

use crate::app::App;
use crate::client::Client;
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::table::{TextTable, inked, text};
use crate::problem::{Exit, Problem};

const SIGNALS: &str = "/api/v1/signals";

/// Commands about signals.
#[derive(Debug, Subcommand)]
pub(crate) enum SignalCommand {
    /// Send a signal to the jobs that wait for it; without any, it is kept for the first that will.
    Send {
        /// The key that jobs wait for.
        key: String,
        /// What it brings, as JSON.
        #[arg(long)]
        payload: Option<String>,
        /// An id of your own: the same signal with the same id is delivered once.
        #[arg(long)]
        id: Option<String>,
        /// The tenant whose jobs it is for.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// List signals that are kept, and the jobs that wait for one.
    List,
}

pub(crate) async fn run(command: SignalCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        SignalCommand::Send { key, payload, id, tenant } => {
            let payload =
                payload.as_deref().map_or(Ok(Value::Null), serde_json::from_str).map_err(|problem| {
                    Problem::usage("invalid", format!("the payload is not valid JSON: {problem}"))
                        .hint("quote texts twice: --payload '\"yes\"'")
                })?;
            send(&client, app, NewSignal { key, payload, id, tenant }).await?;
        }
        SignalCommand::List => list(&client, app).await?,
    }
    Ok(Exit::Done)
}

async fn send(client: &Client, app: &App, signal: NewSignal) -> Result<(), Problem> {
    let sent: SentSignal = client.post(SIGNALS, &signal).await?;
    if app.out.json {
        return app.out.document(&sent);
    }
    let key = clean(&signal.key);
    app.out.page(&match sent {
        SentSignal { kept: true, .. } => {
            format!("no job waits for `{key}`: the signal is kept for the first that will")
        }
        SentSignal { delivered: 1, .. } => format!("signal `{key}` sent: 1 job goes on"),
        SentSignal { delivered, .. } => format!("signal `{key}` sent: {delivered} jobs go on"),
    })
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let mut rows: Vec<SignalJson> = client.list_where(SIGNALS, ("state", Some("waiting"))).await?;
    rows.extend(client.list_where::<SignalJson>(SIGNALS, ("state", Some("kept"))).await?);
    if app.out.json {
        return app.out.items(&rows, None);
    }
    if rows.is_empty() {
        return app.out.page("no job waits for a signal, and none is kept");
    }
    let mut table = TextTable::new(&app.out, &["key", "state", "job", "until", "id"]).drop_first(&[4, 3]);
    for row in &rows {
        let state = match row.state {
            SignalSort::Waiting => inked(Colour::Yellow, "waited for"),
            SignalSort::Kept => inked(Colour::Green, "kept"),
        };
        table.row(vec![
            text(&row.key),
            state,
            text(&row.job.map(|job| job.to_string()).unwrap_or_default()),
            text(&row.until.to_string()),
            text(row.id.as_deref().unwrap_or_default()),
        ]);
    }
    app.out.page(&table.text())
}

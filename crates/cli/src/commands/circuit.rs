//! `backstop circuit list|show|open|close`: dependencies that are left alone for a while (H3).

use std::time::Duration;

use backstop::Timestamp;
use backstop::circuits::CircuitState;
use backstop_server::shape::{CircuitJson, OpenCircuit, PlanActor};
use clap::Subcommand;

use crate::app::{App, who};
use crate::client::{Client, escaped};
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::{parse, relative};
use crate::output::table::{TextTable, inked, number, text};
use crate::problem::{Exit, Problem};

const CIRCUITS: &str = "/api/v1/circuits";

/// Commands about circuits.
#[derive(Debug, Subcommand)]
pub(crate) enum CircuitCommand {
    /// List circuits with what they let through.
    List,
    /// Show one circuit.
    Show {
        /// The dependency.
        key: String,
    },
    /// Open a circuit: jobs that call its dependency wait, uncharged.
    Open {
        /// The dependency.
        key: String,
        /// For this long, such as 10min [default: as its settings say].
        #[arg(long = "for", value_name = "SPAN", value_parser = parse)]
        span: Option<Duration>,
    },
    /// Close a circuit: its jobs run at once.
    Close {
        /// The dependency.
        key: String,
    },
}

pub(crate) async fn run(command: CircuitCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    let path = |key: &str| format!("{CIRCUITS}/{}", escaped(key));
    match command {
        CircuitCommand::List => list(&client, app).await?,
        CircuitCommand::Show { key } => say(&client, app, &client.get(&path(&key)).await?).await?,
        CircuitCommand::Open { key, span } => {
            let for_ms = span.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
            let body = OpenCircuit { for_ms, by: Some(who(None)) };
            say(&client, app, &client.post(&format!("{}/open", path(&key)), &body).await?).await?;
        }
        CircuitCommand::Close { key } => {
            let body = PlanActor { by: Some(who(None)) };
            say(&client, app, &client.post(&format!("{}/close", path(&key)), &body).await?).await?;
        }
    }
    Ok(Exit::Done)
}

async fn say(client: &Client, app: &App, circuit: &CircuitJson) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(circuit);
    }
    let now = client.now().await?;
    app.out.page(&table(app, std::slice::from_ref(circuit), now))
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let circuits: Vec<CircuitJson> = client.list(CIRCUITS).await?;
    if app.out.json {
        return app.out.items(&circuits, None);
    }
    if circuits.is_empty() {
        return app.out.page("no circuit: one is made when a run that calls its dependency fails");
    }
    let now = client.now().await?;
    app.out.page(&table(app, &circuits, now))
}

fn table(app: &App, circuits: &[CircuitJson], now: Timestamp) -> String {
    let heads = ["circuit", "state", "since", "tried again", "calls", "failed", "by"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[6, 4]);
    for circuit in circuits {
        let state = match circuit.state {
            CircuitState::Closed => inked(Colour::Green, "closed"),
            CircuitState::Open => inked(Colour::Red, "open"),
            CircuitState::HalfOpen => inked(Colour::Yellow, "half open"),
        };
        let moment = |at: Option<Timestamp>| at.map_or_else(String::new, |at| relative(now, at));
        table.row(vec![
            text(&circuit.key),
            state,
            text(&moment(circuit.since)),
            text(&moment(circuit.until)),
            number(circuit.calls),
            text(&if circuit.calls == 0 { String::new() } else { format!("{} %", circuit.failure_rate) }),
            text(&clean(circuit.by.as_deref().unwrap_or_default())),
        ]);
    }
    table.text()
}

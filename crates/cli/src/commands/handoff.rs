//! `backstop handoff list|show|retry|remove`: finished jobs that another Backstop goes on with (B7).

use std::time::Duration;

use backstop::handoffs::HandOffState;
use backstop_server::shape::{HandOffJson, PlanActor};
use clap::Subcommand;

use crate::app::{App, who};
use crate::client::{Client, escaped};
use crate::commands::deletion::{Unused, remove};
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::{length, relative};
use crate::output::table::{TextTable, inked, number, text};
use crate::problem::{Exit, Problem};

const HANDOFFS: &str = "/api/v1/handoffs";

/// Commands about hand-offs.
#[derive(Debug, Subcommand)]
pub(crate) enum HandOffCommand {
    /// List hand-offs with what waits for each.
    List,
    /// Show one hand-off and, when it stands still, what to do.
    Show {
        /// The publication.
        name: String,
    },
    /// Remove a hand-off that no process publishes, with the jobs that wait to be handed over.
    Remove {
        /// The publication.
        name: String,
        /// Remove without being asked.
        #[arg(long)]
        yes: bool,
    },
    /// Let a hand-off go on at once.
    Retry {
        /// The publication.
        name: String,
    },
}

pub(crate) async fn run(command: HandOffCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    let path = |name: &str| format!("{HANDOFFS}/{}", escaped(name));
    match command {
        HandOffCommand::List => list(&client, app).await?,
        HandOffCommand::Show { name } => say(&client, app, &client.get(&path(&name)).await?).await?,
        HandOffCommand::Remove { name, yes } => {
            let one: HandOffJson = client.get(&path(&name)).await?;
            let waits = one.backlog;
            remove(&client, app, &path(&name), &Unused { what: "hand-off", name, waits, of: "job", yes })
                .await?;
        }
        HandOffCommand::Retry { name } => {
            let body = PlanActor { by: Some(who(None)) };
            say(&client, app, &client.post(&format!("{}/retry", path(&name)), &body).await?).await?;
        }
    }
    Ok(Exit::Done)
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let handoffs: Vec<HandOffJson> = client.list(HANDOFFS).await?;
    if app.out.json {
        return app.out.items(&handoffs, None);
    }
    if handoffs.is_empty() {
        return app.out.page("no hand-off: [handoff.NAME] of a process that publishes makes one");
    }
    let heads = ["hand-off", "state", "to", "backlog", "lag", "admitted", "duplicates", "refused"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[2, 6]);
    for one in &handoffs {
        table.row(vec![
            text(&one.name),
            state(one.state),
            text(&clean(&one.to)),
            number(one.backlog),
            text(&lag(one)),
            number(one.admitted),
            number(one.duplicates),
            number(one.refused),
        ]);
    }
    app.out.page(&table.text())
}

async fn say(client: &Client, app: &App, one: &HandOffJson) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(one);
    }
    let now = client.now().await?;
    let moment = |at| relative(now, at);
    let mut table = TextTable::new(&app.out, &["hand-off", &one.name]);
    let mut row = |name: &str, value: &str| {
        if !value.is_empty() {
            table.row(vec![text(name), text(&clean(value))]);
        }
    };
    row("state", one.state.as_str());
    row("to", &one.to);
    row("jobs", &format!("{} of tenant {}", listed(&one.kinds, "all kinds"), one.tenant));
    row("key", &listed(&one.key, "the incoming id"));
    row(
        "made there",
        &match &one.queue {
            Some(queue) => format!("{} on {queue}", one.kind),
            None => one.kind.clone(),
        },
    );
    row("signed", if one.signed { "yes" } else { "no" });
    row("backlog", &one.backlog.to_string());
    row("lag", &lag(one));
    row("admitted", &one.admitted.to_string());
    row("duplicates", &format!("{} suppressed", one.duplicates));
    row("without key", &if one.keyless == 0 { String::new() } else { one.keyless.to_string() });
    row("pressure", &format!("{} requests", one.pressure));
    row("unreachable", &format!("{} requests", one.unreachable));
    row("refused", &format!("{} requests", one.refused));
    row("latency", &one.latency_ms.map_or_else(String::new, |ms| length(Duration::from_millis(ms))));
    row("last", &one.last_at.map_or_else(String::new, moment));
    row("next try", &one.next_try.map_or_else(String::new, moment));
    row("last error", one.last_error.as_deref().unwrap_or_default());
    row("published by", one.publisher.as_deref().unwrap_or_default());
    if let Some(stopped) = &one.stopped {
        row("stands still", &format!("since {}: {} {}", moment(stopped.at), stopped.status, stopped.code));
        row("it said", &stopped.message);
        row("job", stopped.job.as_deref().unwrap_or_default());
        row("do", &format!("{}, then `backstop handoff retry {}`", stopped.way_out, one.name));
    }
    app.out.page(&table.text())
}

fn listed(names: &[String], none: &str) -> String {
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}

fn lag(one: &HandOffJson) -> String {
    if one.backlog == 0 { String::new() } else { length(Duration::from_millis(one.lag_ms)) }
}

fn state(state: HandOffState) -> comfy_table::Cell {
    let colour = match state {
        HandOffState::Publishing => Colour::Green,
        HandOffState::Stopped => Colour::Red,
        _ => Colour::Yellow,
    };
    inked(colour, state.as_str())
}

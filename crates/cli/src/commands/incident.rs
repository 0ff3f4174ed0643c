//! `backstop incident list|show|ack|fixed|mute|reopen`: failures with one fingerprint, and what people say of them
//! (D2).

use backstop::Timestamp;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::{Incident, IncidentState};
use backstop_server::shape::{IncidentFix, IncidentNote, IncidentShown, Items};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::app::{App, who};
use crate::client::{Client, query};
use crate::output::clean;
use crate::output::figures::grouped;
use crate::output::paint::Colour;
use crate::output::span::{both, relative};
use crate::output::table::{Properties, TextTable, inked, number, number_inked, short, text};
use crate::output::wrap::wrapped;
use crate::problem::{Exit, Problem};

const INCIDENTS: &str = "/api/v1/incidents";

/// Commands about incidents.
#[derive(Debug, Subcommand)]
pub(crate) enum IncidentCommand {
    /// List incidents, latest seen first.
    List {
        /// Only those in this state: new, acknowledged, fixed, regressed or muted.
        #[arg(long)]
        state: Option<IncidentState>,
        /// Only those that have dead letters now.
        #[arg(long)]
        open: bool,
        /// At most this many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Continue after this incident: `next_cursor` of the previous page.
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show an incident: counts, versions, some of its dead letters, and what to do.
    Show {
        /// Its fingerprint.
        fingerprint: Fingerprint,
    },
    /// Acknowledge an incident.
    Ack(NoteOptions),
    /// Mark an incident as fixed; a failure in that version or a later one is a regression.
    Fixed {
        #[command(flatten)]
        saying: NoteOptions,
        /// The first version of your code without the bug; without it any further failure is a regression.
        #[arg(long = "in", value_name = "VERSION")]
        version: Option<String>,
    },
    /// Mute alerts about an incident.
    Mute(NoteOptions),
    /// Reopen an incident.
    Reopen(NoteOptions),
}

/// What is said, and by whom.
#[derive(Debug, Args)]
pub(crate) struct NoteOptions {
    /// The incident's fingerprint.
    fingerprint: Fingerprint,
    /// A note for others.
    #[arg(long)]
    note: Option<String>,
    /// Your name in the audit log [default: the user you are logged in as].
    #[arg(long)]
    by: Option<String>,
}

pub(crate) async fn run(command: IncidentCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        IncidentCommand::List { state, open, limit, cursor } => {
            list(&client, app, state, open, limit, cursor).await?;
        }
        IncidentCommand::Show { fingerprint } => show(&client, app, &fingerprint).await?,
        IncidentCommand::Ack(saying) => say(&client, app, saying, "ack").await?,
        IncidentCommand::Fixed { saying, version } => {
            if version.as_deref().is_some_and(|version| version.trim().is_empty()) {
                let problem = Problem::usage("no_version", "the version it is fixed in is empty");
                return Err(problem.hint("name the first version without the bug, or leave --in out"));
            }
            let NoteOptions { fingerprint, note, by } = saying;
            let said = IncidentFix { version, note, by: Some(who(by)) };
            post(&client, app, &fingerprint, "fixed", &said).await?;
        }
        IncidentCommand::Mute(saying) => say(&client, app, saying, "mute").await?,
        IncidentCommand::Reopen(saying) => say(&client, app, saying, "reopen").await?,
    }
    Ok(Exit::Done)
}

async fn list(
    client: &Client,
    app: &App,
    state: Option<IncidentState>,
    open: bool,
    limit: usize,
    cursor: Option<String>,
) -> Result<(), Problem> {
    let narrows = state.is_some() || open;
    let which = query([
        ("state", state.map(|state| state.to_string())),
        ("open", open.then(|| "true".to_owned())),
        ("limit", Some(limit.to_string())),
        ("cursor", cursor),
    ]);
    let Items { items: incidents, next_cursor } =
        client.get::<Items<Incident>>(&format!("{INCIDENTS}{which}")).await?;
    if app.out.json {
        return app.out.items(&incidents, next_cursor);
    }
    if incidents.is_empty() {
        let none = if narrows {
            "no incident matches: `backstop incident list` shows all"
        } else {
            "no failure has been seen: `backstop job list` shows all jobs"
        };
        return app.out.page(none);
    }
    app.out.page(&table(app, &incidents, client.now().await?))?;
    app.out.note("\n`backstop incident show F` says more about one, and what to do");
    if let Some(next) = next_cursor {
        app.out.note(&format!("there are more: add --cursor {next}"));
    }
    Ok(())
}

fn table(app: &App, incidents: &[Incident], now: Timestamp) -> String {
    let heads = ["fingerprint", "state", "kind", "dead now", "failures", "error", "first seen", "last seen"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[5]).drop_first(&[6, 7, 4]).figures(&[3, 4]);
    for one in incidents {
        table.row(vec![
            text(one.fingerprint.as_ref()),
            inked(Colour::of_incident(one.standing.state), &state_words(one)),
            text(&one.kind),
            number_inked(Colour::Red, one.open),
            number(one.failures),
            short(&format!("{}: {}", one.error_type, one.message), 160),
            text(&relative(now, one.first_seen)),
            text(&relative(now, one.last_seen)),
        ]);
    }
    table.text()
}

fn state_words(incident: &Incident) -> String {
    let standing = &incident.standing;
    match &standing.fixed_in {
        Some(version) => format!("{} in {version}", standing.state),
        None => standing.state.to_string(),
    }
}

async fn show(client: &Client, app: &App, fingerprint: &Fingerprint) -> Result<(), Problem> {
    let shown: IncidentShown = client.get(&format!("{INCIDENTS}/{fingerprint}")).await?;
    if app.out.json {
        return app.out.document(&shown);
    }
    let IncidentShown { incident, samples, .. } = shown;
    let now = client.now().await?;
    let mut page = format!("{} {}\n\n", app.out.ink(Colour::Bold, "incident"), incident.fingerprint);
    page.push_str(&facts(&incident, now).page(&app.out));
    if !samples.is_empty() {
        page.push_str(&format!("\n{}\n", app.out.ink(Colour::Bold, "its latest dead letters")));
        for sample in &samples {
            let at = sample.finished_at.map_or_else(String::new, |at| relative(now, at));
            page.push_str(&format!("  {}  {at}\n", sample.id));
        }
    }
    page.push_str(&format!("\n{}\n", app.out.ink(Colour::Bold, "what to do")));
    for line in advice(&incident) {
        page.push_str(&format!("  {}\n", wrapped(&line, app.out.width, 2)));
    }
    app.out.page(page.trim_end())
}

fn facts(incident: &Incident, now: Timestamp) -> Properties {
    let mut facts = Properties::default();
    facts.add("state", state_words(incident));
    facts.add("kind", clean(&incident.kind));
    facts.add("error", clean(&format!("{}: {}", incident.error_type, incident.message)));
    facts.add("dead now", grouped(incident.open));
    facts.add(
        "failed runs",
        format!("{}, {} of them final", grouped(incident.failures), grouped(incident.dead)),
    );
    facts.add("first seen", both(now, incident.first_seen));
    facts.add("last seen", both(now, incident.last_seen));
    facts.text("first version", incident.first_version.as_deref());
    facts.text("last version", incident.last_version.as_deref());
    let standing = &incident.standing;
    if standing.regressions > 0 {
        facts.add("came back", format!("{} times after it was said to be fixed", standing.regressions));
    }
    if let Some(at) = standing.changed_at {
        let by = standing.changed_by.as_deref().unwrap_or("the engine");
        facts.add("changed", format!("by {}, {}", clean(by), relative(now, at)));
    }
    facts.text("note", standing.note.as_deref());
    facts
}

/// What a person does next, by where the incident stands.
fn advice(incident: &Incident) -> Vec<String> {
    let print = &incident.fingerprint;
    let mut lines = vec![format!("look at one: backstop job explain {}", incident.sample_job)];
    match incident.standing.state {
        IncidentState::New | IncidentState::Regressed => {
            lines.push(format!("acknowledge it: backstop incident ack {print}"));
            lines.push(format!("once it is fixed: backstop incident fixed {print} --in VERSION"));
        }
        IncidentState::Acknowledged => {
            lines.push(format!("once it is fixed: backstop incident fixed {print} --in VERSION"));
        }
        IncidentState::Fixed if incident.open > 0 => {
            lines.push(format!(
                "drive its dead letters again, carefully: backstop redrive plan --incident {print}"
            ));
        }
        IncidentState::Fixed => lines.push("nothing: it is fixed and no dead letters are left".to_owned()),
        IncidentState::Muted => lines.push(format!("reopen it: backstop incident reopen {print}")),
    }
    lines
}

async fn say(client: &Client, app: &App, saying: NoteOptions, verb: &str) -> Result<(), Problem> {
    let NoteOptions { fingerprint, note, by } = saying;
    post(client, app, &fingerprint, verb, &IncidentNote { note, by: Some(who(by)) }).await
}

async fn post(
    client: &Client,
    app: &App,
    fingerprint: &Fingerprint,
    verb: &str,
    said: &impl Serialize,
) -> Result<(), Problem> {
    let incident: Incident = client.post(&format!("{INCIDENTS}/{fingerprint}/{verb}"), said).await?;
    if app.out.json {
        return app.out.document(&incident);
    }
    let next = match incident.standing.state {
        IncidentState::Fixed if incident.open > 0 => format!(
            "; {} dead {} can be driven again: backstop redrive plan --incident {fingerprint}",
            grouped(incident.open),
            if incident.open == 1 { "letter" } else { "letters" }
        ),
        _ => String::new(),
    };
    app.out.page(&format!("incident {fingerprint} is {}{next}", state_words(&incident)))
}

//! `backstop bridge list|show|pause|resume|test|remove|invalid`: brokers whose messages become jobs, and that are told
//! what became of jobs (B1, B2, B4).

mod invalid;

use backstop::Timestamp;
use backstop::bridges::BridgeState;
use backstop_server::shape::{BridgeCheckJson, BridgeJson, BridgeTestJson, PlanActor};
use clap::Subcommand;
use comfy_table::Cell;
use serde_json::json;

use crate::app::{App, who};
use crate::client::{Client, escaped};
use crate::commands::deletion::{Unused, remove};
use crate::output::clean;
use crate::output::figures::{counted, grouped};
use crate::output::paint::Colour;
use crate::output::span::{both, length, relative};
use crate::output::table::{Properties, TextTable, inked, number, short, text};
use crate::problem::{Exit, Problem};

const BRIDGES: &str = "/api/v1/bridges";

/// Commands about bridges.
#[derive(Debug, Subcommand)]
pub(crate) enum BridgeCommand {
    /// List bridges with their state and what passes through them.
    List,
    /// Show one bridge, and how it is in each process.
    Show {
        /// The bridge.
        name: String,
    },
    /// Pause a bridge in every process: it takes no messages and publishes none.
    Pause {
        /// The bridge.
        name: String,
    },
    /// Resume a bridge.
    Resume {
        /// The bridge.
        name: String,
    },
    /// Test a bridge: reach its broker, sign in, look for its queues.
    Test {
        /// The bridge.
        name: String,
    },
    /// Remove a bridge that no process runs, with the messages that wait to be published for it.
    Remove {
        /// The bridge.
        name: String,
        /// Remove without being asked.
        #[arg(long)]
        yes: bool,
    },
    /// List, export and remove messages that could not become jobs.
    Invalid(invalid::InvalidOptions),
}

fn path(name: &str) -> String {
    format!("{BRIDGES}/{}", escaped(name))
}

pub(crate) async fn run(command: BridgeCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        BridgeCommand::List => list(&client, app).await?,
        BridgeCommand::Show { name } => show(&client, app, &client.get(&path(&name)).await?).await?,
        BridgeCommand::Pause { name } => {
            let body = PlanActor { by: Some(who(None)) };
            let bridge: BridgeJson = client.post(&format!("{}/pause", path(&name)), &body).await?;
            let undo = format!("`backstop bridge resume {}` undoes it", clean(&name));
            changed(app, &bridge, "is paused within 5 seconds", &undo)?;
        }
        BridgeCommand::Resume { name } => {
            let bridge: BridgeJson = client.post(&format!("{}/resume", path(&name)), &json!({})).await?;
            changed(app, &bridge, "goes on within 5 seconds", "`backstop bridge show` says how it is")?;
        }
        BridgeCommand::Test { name } => {
            let test: BridgeTestJson = client.post(&format!("{}/test", path(&name)), &json!({})).await?;
            tested(app, &name, &test)?;
            return Ok(if test.ok { Exit::Done } else { Exit::Failed });
        }
        BridgeCommand::Remove { name, yes } => {
            let bridge: BridgeJson = client.get(&path(&name)).await?;
            let waits = bridge.sink.map_or(0, |sink| sink.backlog);
            remove(&client, app, &path(&name), &Unused { what: "bridge", name, waits, of: "message", yes })
                .await?;
        }
        BridgeCommand::Invalid(options) => invalid::run(options, &client, app).await?,
    }
    Ok(Exit::Done)
}

fn changed(app: &App, bridge: &BridgeJson, what: &str, next: &str) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(bridge);
    }
    app.out.page(&format!("bridge `{}` {what}: {next}", clean(&bridge.name)))
}

fn tested(app: &App, name: &str, test: &BridgeTestJson) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(test);
    }
    let mut page = format!("bridge `{}`, tested by {}\n", clean(name), clean(&test.node));
    let mut line = |what: &str, check: &BridgeCheckJson| {
        let result = match &check.error {
            None => format!("{}, {} ms", app.out.ink(Colour::Green, "ok"), check.took_ms),
            Some(error) => format!("{}: {}", app.out.ink(Colour::Red, "failed"), clean(error)),
        };
        page.push_str(&format!("  {what:<6} {result}\n"));
    };
    if let Some(check) = &test.source {
        line("source", check);
    }
    if let Some(check) = &test.sink {
        line("sink", check);
    }
    if let Some(error) = &test.error {
        page.push_str(&format!("  {}: {}\n", app.out.ink(Colour::Red, "not started"), clean(error)));
    }
    app.out.page(page.trim_end())
}

const fn colour(state: BridgeState) -> Colour {
    match state {
        BridgeState::Running => Colour::Green,
        BridgeState::Paused | BridgeState::Starting | BridgeState::Held => Colour::Yellow,
        _ => Colour::Red,
    }
}

/// A state in a word that people read.
fn worded(state: BridgeState) -> &'static str {
    match state {
        BridgeState::NotRunning => "not running",
        state => state.as_str(),
    }
}

fn state(state: BridgeState) -> Cell {
    inked(colour(state), worded(state))
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let bridges: Vec<BridgeJson> = client.list(BRIDGES).await?;
    if app.out.json {
        return app.out.items(&bridges, None);
    }
    if bridges.is_empty() {
        return app.out.page(
            "no bridge: add [bridges.NAME] to backstop.toml and start `backstop up` (see docs/learn/bridges.md)",
        );
    }
    let now = client.now().await?;
    let heads = [
        "bridge",
        "state",
        "broker",
        "consumers",
        "in",
        "out",
        "backlog",
        "lag",
        "duplicates",
        "invalid",
        "last error",
    ];
    let table = TextTable::new(&app.out, &heads).flexible(&[10]).drop_first(&[2, 8, 7, 3]);
    let mut table = table.figures(&[3, 4, 5, 6, 8, 9]);
    for bridge in &bridges {
        table.row(vec![
            text(&bridge.name),
            state(bridge.state),
            text(&bridge.broker),
            text(&consumers(bridge)),
            number(bridge.r#in),
            number(bridge.out),
            number(bridge.backlog),
            text(&lag(bridge)),
            number(bridge.duplicates),
            number(bridge.invalid),
            short(&trouble(bridge, now), 200),
        ]);
    }
    app.out.page(&table.text())
}

/// How many connections take messages, of those that are to.
fn consumers(bridge: &BridgeJson) -> String {
    bridge
        .consumers()
        .map_or_else(String::new, |(taking, of)| format!("{} of {}", grouped(taking), grouped(of)))
}

fn lag(bridge: &BridgeJson) -> String {
    match bridge.lag_ms {
        0 => String::new(),
        millis => length(std::time::Duration::from_millis(millis)),
    }
}

/// What a person should know first.
fn trouble(bridge: &BridgeJson, now: Timestamp) -> String {
    match (&bridge.last_error, &bridge.paused_by) {
        _ if bridge.state == BridgeState::NotRunning => {
            format!("not running since {}", both(now, bridge.seen_at))
        }
        (Some(error), _) => error.clone(),
        (None, Some(by)) => format!("paused by {by}"),
        (None, None) => String::new(),
    }
}

async fn show(client: &Client, app: &App, bridge: &BridgeJson) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(bridge);
    }
    let now = client.now().await?;
    let mut page = format!("{} {}\n\n", app.out.ink(Colour::Bold, "bridge"), clean(&bridge.name));
    page.push_str(&facts(bridge, now, app).page(&app.out));
    let mut table =
        TextTable::new(&app.out, &["process", "state", "consumers", "since", "heard of", "last error"])
            .flexible(&[5])
            .figures(&[2]);
    for process in &bridge.processes {
        table.row(vec![
            text(&process.node),
            state(process.state),
            number(process.consuming.into()),
            text(&relative(now, process.since)),
            text(&relative(now, process.seen_at)),
            short(process.last_error.as_deref().unwrap_or_default(), 200),
        ]);
    }
    if !bridge.processes.is_empty() {
        page.push_str(&format!("\n{}\n", table.text()));
    }
    if bridge.invalid > 0 {
        let (name, count) = (clean(&bridge.name), counted(bridge.invalid, "message"));
        page.push_str(&format!("\n{count} could not become jobs: backstop bridge invalid {name}\n"));
    }
    app.out.page(page.trim_end())
}

fn facts(bridge: &BridgeJson, now: Timestamp, app: &App) -> Properties {
    let mut facts = Properties::default();
    facts.add("state", app.out.ink(colour(bridge.state), worded(bridge.state)));
    if bridge.state == BridgeState::NotRunning {
        facts.add("not running since", both(now, bridge.seen_at));
    }
    facts.text("last error", bridge.last_error.as_deref());
    if let (Some(by), Some(at)) = (&bridge.paused_by, bridge.paused_at) {
        facts.add("paused", format!("by {}, {}", clean(by), both(now, at)));
    }
    facts.add("broker", clean(&bridge.broker));
    if let Some(source) = &bridge.source {
        let (queue, kind, to) = (clean(&source.queue), clean(&source.kind), clean(&source.to_queue));
        facts.add("source", format!("`{queue}` to jobs of kind `{kind}` in queue `{to}`"));
        let (each, taking) = (grouped(source.concurrency.into()), grouped(source.consuming.into()));
        facts.add("concurrency", format!("{each} in each process, {taking} take messages now"));
        let waits = source.backlog.map_or_else(|| "not told".to_owned(), grouped);
        facts.add("waiting at the broker", waits);
        facts.add("in", format!("{} became jobs", counted(bridge.r#in, "message")));
        facts.add("duplicates", grouped(bridge.duplicates));
        facts.add("invalid", format!("{} kept, {} ever", grouped(bridge.invalid), grouped(source.invalid)));
        for (name, count, what) in [
            ("abandoned", source.abandoned, ", kept by the broker"),
            ("rejected", source.rejected, " with a wrong signature, kept by the broker"),
            ("passed on", source.passed_on, " to other queues"),
            ("discarded", source.discarded, " of jobs elsewhere that are over"),
            ("given back", source.given_back, ", delivered again"),
        ] {
            if count > 0 {
                facts.add(name, format!("{}{what}", counted(count, "message")));
            }
        }
    }
    if let Some(sink) = &bridge.sink {
        let of: Vec<&str> = sink.of.iter().map(|topic| topic.as_str()).collect();
        facts.add("sink", format!("{} to `{}`", of.join(", "), clean(&sink.queue)));
        facts.add("out", format!("{} confirmed", counted(bridge.out, "message")));
        let lag =
            if bridge.lag_ms == 0 { String::new() } else { format!(", the oldest for {}", lag(bridge)) };
        facts.add("waiting in the outbox", format!("{}{lag}", grouped(sink.backlog)));
        if let Some(since) = sink.full_since {
            facts.add("outbox full since", both(now, since));
        }
        if sink.refused > 0 {
            facts.add("refused", format!("{} because too much waited", counted(sink.refused, "message")));
        }
        facts.text("published by", sink.publisher.as_deref());
    }
    facts
}

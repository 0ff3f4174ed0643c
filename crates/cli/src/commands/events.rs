//! `backstop events`: what happens on a server, as it happens.

mod sse;

use std::time::Duration;

use backstop::Timestamp;
use clap::Args;
use serde_json::Value;

use self::sse::{SseBlock, SseBlocks};
use crate::app::App;
use crate::client::{Client, JobRef, query};
use crate::output::paint::Colour;
use crate::output::{brief, clean};
use crate::problem::{Exit, Problem};

/// How long to wait before a lost connection is made again.
const RECONNECT: Duration = Duration::from_secs(2);

/// Parts of an event that stand at the front of its line, or that only machines need.
const FRONT: [&str; 10] =
    ["at", "event", "job_id", "kind", "queue", "tenant", "node", "version", "correlation_id", "business_key"];

/// Options of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsOptions {
    /// Keep following. Events are not stored, so the command always does.
    #[arg(long, short)]
    follow: bool,
    /// Only on this queue; commas separate several.
    #[arg(long)]
    queue: Option<String>,
    /// Only of this kind; commas separate several.
    #[arg(long)]
    kind: Option<String>,
    /// Only events with this name, such as dead or succeeded; commas separate several.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Only of this job: its id, or at least the first 6 characters of it.
    #[arg(long, value_name = "ID")]
    job: Option<JobRef>,
    /// Stop after this many events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

pub(crate) async fn run(args: &EventsOptions, app: &App) -> Result<Exit, Problem> {
    if app.settings.remote.is_none() {
        return Err(Problem::usage("needs_a_server", "events come from a running server, not from a store")
            .hint("name the server with --server URL or BACKSTOP_SERVER; `backstop up` starts one"));
    }
    let client = app.looking().await?;
    let job = match &args.job {
        Some(named) => Some(client.job_id(named).await?.to_string()),
        None => None,
    };
    let wanted = query([
        ("queue", args.queue.clone()),
        ("kind", args.kind.clone()),
        ("event", args.event.clone()),
        ("job", job),
    ]);
    let mut followed = Followed { app, left: args.limit, last_id: None };
    let mut connected = false;
    loop {
        match followed.read(&client, &wanted, &mut connected).await {
            Ok(Some(exit)) => return Ok(exit),
            Ok(None) => {}
            // The first connection has to work; later ones come back when the server does.
            Err(problem) if !connected || !problem.is("server_unavailable") => return Err(problem),
            Err(problem) => app.out.warn(&format!("{problem}: connecting again")),
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

/// How far the events were read.
struct Followed<'a> {
    app: &'a App,
    left: Option<u64>,
    last_id: Option<String>,
}

impl Followed<'_> {
    /// Reads one connection to its end; answers when enough was read.
    async fn read(
        &mut self,
        client: &Client,
        wanted: &str,
        connected: &mut bool,
    ) -> Result<Option<Exit>, Problem> {
        let mut stream = client.stream(&format!("/api/v1/events{wanted}"), self.last_id.as_deref()).await?;
        if !*connected {
            self.app.out.note("following events: press Ctrl-C to stop");
        }
        *connected = true;
        let mut blocks = SseBlocks::default();
        while let Some(bytes) = stream.next().await? {
            for block in blocks.push(&bytes) {
                self.tell(&block)?;
                if self.left == Some(0) {
                    return Ok(Some(Exit::Done));
                }
            }
        }
        Ok(None)
    }

    fn tell(&mut self, block: &SseBlock) -> Result<(), Problem> {
        if block.id.is_some() {
            self.last_id.clone_from(&block.id);
        }
        if block.data.is_empty() {
            return Ok(());
        }
        if block.event == "gap" {
            self.app
                .out
                .warn("some events are missing here: they came too fast, or nobody followed for too long");
            return Ok(());
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        if self.app.out.json {
            return self.app.out.line(&block.data);
        }
        let event: Value = serde_json::from_str(&block.data).unwrap_or_default();
        self.app.out.page(&line(self.app, &block.event, &event))
    }
}

/// An event on one line: when, what, which job, and what else there is to say.
fn line(app: &App, name: &str, event: &Value) -> String {
    let text = |field: &str| event[field].as_str().map_or_else(String::new, |text| clean(text).into_owned());
    let at = event["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    let at = at.map_or_else(|| text("at"), |at| at.to_string());
    let mut line =
        format!("{}  {}", app.out.ink(Colour::Grey, &at), app.out.ink(ink(name), &format!("{name:<12}")));
    for field in ["job_id", "kind", "queue"] {
        if event[field].is_string() {
            line.push_str(&format!("  {}", text(field)));
        }
    }
    for (field, value) in event.as_object().into_iter().flatten() {
        if FRONT.contains(&field.as_str()) || value.is_null() {
            continue;
        }
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        line.push_str(&format!("  {}={}", app.out.ink(Colour::Grey, field), brief(&value, 120)));
    }
    line
}

fn ink(name: &str) -> Colour {
    match name {
        "succeeded" => Colour::Green,
        "started" => Colour::Blue,
        "failed" | "dead" | "alert" | "timed_out" | "incident_opened" | "incident_regressed" => Colour::Red,
        "canceled" => Colour::Grey,
        "enqueued" => Colour::Bold,
        _ => Colour::Yellow,
    }
}

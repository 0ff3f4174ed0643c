//! `backstop limit list|set|delete`: how many jobs may run at once and start in a time, over all workers (H5).

use backstop::Timestamp;
use backstop::limits::{CountBy, RunRate};
use backstop_server::shape::{LimitBody, LimitJson};
use clap::{Args, Subcommand};

use crate::app::App;
use crate::client::{Client, escaped};
use crate::config::rate;
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{TextTable, inked, number_inked, text};
use crate::problem::{Exit, Problem};

const LIMITS: &str = "/api/v1/limits";

/// Commands about limits on runs.
#[derive(Debug, Subcommand)]
pub(crate) enum LimitCommand {
    /// List limits with what is used of them.
    List,
    /// Set a limit on all workers together; they follow it within two seconds.
    Set(SetLimitOptions),
    /// Delete a limit.
    Delete {
        /// Its name.
        name: String,
    },
}

/// What a limit says.
#[derive(Debug, Args)]
pub(crate) struct SetLimitOptions {
    /// Its name; a limit that has it is replaced.
    name: String,
    /// For jobs of this queue [default: of all queues].
    #[arg(long)]
    queue: Option<String>,
    /// For jobs of this kind [default: of all kinds].
    #[arg(long)]
    kind: Option<String>,
    /// Runs at once.
    #[arg(long, value_name = "N")]
    concurrency: Option<u64>,
    /// Runs that start in a time, such as 100/1m.
    #[arg(long, value_name = "N/TIME", value_parser = rate::parse)]
    rate: Option<RunRate>,
    /// Count the runs of each limit key apart.
    #[arg(long)]
    by_key: bool,
    /// Permits that jobs can hold: makes a pool of this name.
    #[arg(long, value_name = "N", conflicts_with_all = ["queue", "kind", "by_key"])]
    permits: Option<u32>,
    /// Starts that a key has in its turn, for keys that have more than one; may be repeated.
    #[arg(long = "weight", value_name = "KEY=N", value_parser = weight, requires = "by_key")]
    weights: Vec<(String, u32)>,
}

/// Reads the weight of a key.
fn weight(text: &str) -> Result<(String, u32), String> {
    let (key, weight) = text.rsplit_once('=').ok_or("say it as KEY=N, such as acme=3")?;
    let weight = weight.parse().map_err(|_| format!("`{weight}` is not a number of starts"))?;
    Ok((key.to_owned(), weight))
}

pub(crate) async fn run(command: LimitCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        LimitCommand::List => list(&client, app).await?,
        LimitCommand::Set(options) => set(&client, app, options).await?,
        LimitCommand::Delete { name } => {
            let gone: LimitJson = client.delete(&format!("{LIMITS}/{}", escaped(&name))).await?;
            say(app, &gone, "deleted")?;
        }
    }
    Ok(Exit::Done)
}

async fn set(client: &Client, app: &App, options: SetLimitOptions) -> Result<(), Problem> {
    let SetLimitOptions { name, queue, kind, concurrency, rate, by_key, permits, weights } = options;
    let by = if by_key { CountBy::Key } else { CountBy::All };
    let weights = weights.into_iter().collect();
    let body = LimitBody { queue, kind, by, concurrency, rate, permits, weights };
    let set: LimitJson = client.put(&format!("{LIMITS}/{}", escaped(&name)), &body).await?;
    say(app, &set, "set")
}

fn say(app: &App, limit: &LimitJson, done: &str) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(limit);
    }
    app.out.page(&format!("limit `{}` {done}: {} for {}", clean(&limit.name), allows(limit), about(limit)))
}

/// What it allows.
fn allows(limit: &LimitJson) -> String {
    let at_once = limit.concurrency.map(|count| format!("{count} at once"));
    let starts = limit.rate.map(rate::shown);
    let permits = limit.permits.map(|count| format!("{count} permits"));
    let weights = match limit.weights.len() {
        0 => None,
        1 => Some("weights of 1 key".to_owned()),
        count => Some(format!("weights of {count} keys")),
    };
    at_once.into_iter().chain(starts).chain(permits).chain(weights).collect::<Vec<_>>().join(", ")
}

/// The jobs that it is about.
fn about(limit: &LimitJson) -> String {
    let queue = limit.queue.as_ref().map(|queue| format!("queue `{}`", clean(queue)));
    let kind = limit.kind.as_ref().map(|kind| format!("kind `{}`", clean(kind)));
    let about: Vec<String> = queue.into_iter().chain(kind).collect();
    let about = match (limit.permits, about.is_empty()) {
        (Some(_), _) => "jobs that ask for permits".to_owned(),
        (None, true) => "all jobs".to_owned(),
        (None, false) => about.join(", "),
    };
    if limit.by == CountBy::Key { format!("each key of {about}") } else { about }
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let limits: Vec<LimitJson> = client.list(LIMITS).await?;
    if app.out.json {
        return app.out.items(&limits, None);
    }
    if limits.is_empty() {
        return app.out.page("no limit: `backstop limit set NAME --queue QUEUE --concurrency N` sets one");
    }
    let now = client.now().await?;
    app.out.page(&table(app, &limits, now))
}

fn table(app: &App, limits: &[LimitJson], now: Timestamp) -> String {
    let heads = ["limit", "for", "allows", "in use", "kept back", "goes on"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[1]);
    for limit in limits {
        let goes_on = match limit.next_start {
            Some(at) if at <= now => inked(Colour::Green, "now"),
            Some(at) => inked(Colour::Yellow, &relative(now, at)),
            None => inked(Colour::Yellow, "when a run ends"),
        };
        table.row(vec![
            text(&limit.name),
            text(&about(limit)),
            text(&allows(limit)),
            number_inked(Colour::Blue, limit.in_use),
            limit.parked.map_or_else(|| text("-"), |parked| number_inked(Colour::Yellow, parked)),
            goes_on,
        ]);
    }
    table.text()
}

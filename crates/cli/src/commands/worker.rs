//! `backstop worker list`.

use backstop::Timestamp;
use backstop_server::shape::Worker;
use clap::Subcommand;

use crate::app::App;
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{TextTable, inked, number, short, text};
use crate::problem::{Exit, Problem};

/// Where they are listed.
pub(crate) const WORKERS: &str = "/api/v1/workers";

/// Commands about workers.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// List live workers, and those that stopped renewing their lease.
    List,
}

pub(crate) async fn run(command: WorkerCommand, app: &App) -> Result<Exit, Problem> {
    let WorkerCommand::List = command;
    let client = app.looking().await?;
    let workers: Vec<Worker> = client.list(WORKERS).await?;
    if app.out.json {
        app.out.items(&workers, None)?;
    } else if workers.is_empty() {
        app.out.page("no workers: `backstop up` starts one, or run the worker of your own program")?;
    } else {
        let now = client.now().await?;
        let parts = [Some(table(app, &workers, now)), dependencies(app, &workers, now), paused(&workers)];
        app.out.page(&parts.into_iter().flatten().collect::<Vec<_>>().join("\n"))?;
    }
    Ok(Exit::Done)
}

fn table(app: &App, workers: &[Worker], now: Timestamp) -> String {
    let heads = ["id", "name", "state", "running", "queues", "kinds", "version", "up since"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[4, 5]).drop_first(&[6, 7, 5, 4]);
    for worker in workers {
        let state = match &worker.paused {
            _ if !worker.live => {
                inked(Colour::Red, &format!("silent, lease ended {}", relative(now, worker.expires_at)))
            }
            Some(paused) => {
                inked(Colour::Red, &format!("paused, tries again {}", relative(now, paused.until)))
            }
            None => inked(Colour::Green, "live"),
        };
        let kinds: Vec<String> =
            worker.kinds.iter().map(|known| format!("{} v{}", known.kind, known.version)).collect();
        table.row(vec![
            text(&worker.id.to_string()),
            text(&worker.name),
            state,
            worker.running.map_or_else(|| text("-"), number),
            short(&worker.queues.join(", "), 200),
            short(&kinds.join(", "), 200),
            text(worker.code_version.as_deref().unwrap_or("-")),
            text(&relative(now, worker.started_at)),
        ]);
    }
    table.text()
}

/// What the kinds of live workers need, each with its last result (H2).
fn dependencies(app: &App, workers: &[Worker], now: Timestamp) -> Option<String> {
    let heads = ["worker", "dependency", "state", "since", "last result", "kinds"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[4, 5]).drop_first(&[5, 4]);
    let mut any = false;
    for worker in workers.iter().filter(|worker| worker.live) {
        for one in &worker.dependencies {
            any = true;
            let last = one.last.as_ref().map_or_else(
                || "not checked yet".to_owned(),
                |last| {
                    let said =
                        last.problem.as_ref().map_or_else(String::new, |problem| format!(": {problem}"));
                    format!("{} {}{said}", last.result.as_str().replace('_', " "), relative(now, last.at))
                },
            );
            table.row(vec![
                text(&worker.name),
                text(&one.dependency),
                if one.ok { inked(Colour::Green, "green") } else { inked(Colour::Red, "red") },
                text(&relative(now, one.since)),
                short(&last, 200),
                short(&one.kinds.join(", "), 200),
            ]);
        }
    }
    any.then(|| table.text())
}

/// Why workers claim nothing that fail far more often than others (H8).
fn paused(workers: &[Worker]) -> Option<String> {
    let lines = workers.iter().filter(|worker| worker.live).filter_map(|worker| {
        let why = worker.paused?.why;
        Some(format!("{} claims nothing: {why}\n", clean(&worker.name)))
    });
    Some(lines.collect::<String>()).filter(|lines| !lines.is_empty())
}

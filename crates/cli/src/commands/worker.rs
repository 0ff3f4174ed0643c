//! `backstop worker list`.

use backstop::Timestamp;
use backstop_server::shape::Worker;
use clap::Subcommand;

use crate::app::App;
use crate::output::clean;
use crate::output::figures::grouped;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{TextTable, inked, short, text};
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
    let table = TextTable::new(&app.out, &heads);
    let mut table = table.flexible(&[4, 5]).drop_first(&[6, 7, 5, 4]).figures(&[3]);
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
            text(&running(worker)),
            short(&worker.queues.join(", "), 200),
            short(&kinds.join(", "), 200),
            text(worker.code_version.as_deref().unwrap_or("-")),
            text(&relative(now, worker.started_at)),
        ]);
    }
    table.text()
}

/// How many jobs it holds, and how many it runs at once at most where it says so.
fn running(worker: &Worker) -> String {
    let held = worker.running.map_or_else(|| "-".to_owned(), grouped);
    if worker.slots.is_empty() {
        return held;
    }
    format!("{held} of {}", grouped(worker.slots.values().sum()))
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_runs_stands_beside_the_slots() {
        // H5
        let shown = |held: Value, slots: Value| {
            let worker = json!({
                "id": "0192f3a4-5b6c-7d8e-9f01-23456789abcd", "name": "abe", "code_version": null,
                "queues": [], "kinds": [], "started_at": "2026-11-15T09:30:00Z",
                "expires_at": "2026-11-15T09:31:00Z", "live": true, "running": held, "slots": slots,
            });
            running(&serde_json::from_value(worker).expect("a worker"))
        };
        assert_eq!(shown(json!(3), json!({ "mail": 8, "other": 1_200 })), "3 of 1,208");
        assert_eq!(shown(json!(3), json!({})), "3", "it has not said how many");
        assert_eq!(shown(json!(null), json!({ "mail": 8 })), "- of 8", "it also serves what is not seen");
    }
}

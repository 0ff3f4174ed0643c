//! `backstop worker list`.

use backstop::Timestamp;
use backstop_server::shape::Worker;
use clap::Subcommand;

use crate::app::App;
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
        app.out.page(&table(app, &workers, client.now().await?))?;
    }
    Ok(Exit::Done)
}

fn table(app: &App, workers: &[Worker], now: Timestamp) -> String {
    let heads = ["id", "name", "state", "running", "queues", "kinds", "version", "up since"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[4, 5]).drop_first(&[6, 7, 5, 4]);
    for worker in workers {
        let state = if worker.live {
            inked(Colour::Green, "live")
        } else {
            inked(Colour::Red, &format!("silent, lease ended {}", relative(now, worker.expires_at)))
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

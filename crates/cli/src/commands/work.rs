//! `backstop work`: keeps as many worker processes as the backlog needs (H9).

use std::ffi::OsString;

use backstop_core::scale::{ProcessRange, ScaleSettings};
use clap::Args;

use crate::app::App;
use crate::output::clean;
use crate::problem::{Exit, Problem};
use crate::supervise::{Backlog, SupervisorSignals, WorkerProgram, supervise};

/// Options of `work`.
#[derive(Debug, Args)]
#[command(
    after_help = "Signals: SIGTERM stops the processes within the grace period, a second one at once; SIGHUP \
                        replaces them one after the other."
)]
pub(crate) struct WorkOptions {
    /// How many processes: a number, or a minimum and a maximum [default: workers.processes, or 1..8].
    #[arg(long, value_name = "RANGE")]
    processes: Option<ProcessRange>,
    /// Count only this queue; repeat for more [default: the queues of backstop.toml for the built-in kinds, all for a
    /// program].
    #[arg(long, value_name = "NAME")]
    queue: Vec<String>,
    /// The program to run and its arguments; the built-in kinds if there is none.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) async fn run(args: WorkOptions, app: &App) -> Result<Exit, Problem> {
    let signals = SupervisorSignals::listen()?;
    let built_in = args.program.is_empty();
    let program = WorkerProgram::new(args.program, app)?;
    let queues = match (built_in, args.queue) {
        (true, named) if named.is_empty() => app.settings.scale.slots.queues.keys().cloned().collect(),
        (_, named) => named,
    };
    let usual = app.settings.scale.clone();
    let settings = ScaleSettings { processes: args.processes.unwrap_or(usual.processes), ..usual };
    // What cannot be reached now is said now; later it may come back.
    let (client, engine) = app.client_and_engine().await?;
    client.now().await?;
    let name =
        if built_in { "the built-in kinds".to_owned() } else { format!("`{}`", clean(&program.name())) };
    app.out.note(&format!("supervising {} processes of {name}: press Ctrl-C to stop", settings.processes));
    let backlog = Backlog { queues, every: app.settings.poll };
    supervise(program, settings, backlog, (client, engine), signals, app).await
}

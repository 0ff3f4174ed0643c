//! `backstop bench`: measures this machine, floor against Backstop.

use std::path::PathBuf;

use clap::builder::RangedI64ValueParser;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::app::App;
use crate::bench::{self, BenchFigure, BenchFolder, BenchMeasure, BenchServer, BenchSizes, WorkflowPlace};
use crate::problem::{Exit, Problem};

/// How many processes may run the jobs of a measure.
fn processes() -> RangedI64ValueParser<u16> {
    RangedI64ValueParser::new().range(1..=64)
}

/// Options of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Run at a tenth of the size: quick, not for comparisons.
    #[arg(long)]
    quick: bool,
    /// Run only these measures; may be repeated.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<BenchMeasure>,
    /// Where the files are written [default: the system's directory for temporary files].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Measure workflows in a database on a server, by its URL. What is submitted stays there: give it one of its own.
    #[arg(long, value_name = "URL", conflicts_with = "dir")]
    on: Option<String>,
    /// Measure messages in and out of this broker, by its URL; may be repeated. They go through queues that are made
    /// for it and removed after it.
    #[arg(long, value_name = "URL", conflicts_with_all = ["on", "only"])]
    broker: Vec<String>,
    /// With `--on`: how many processes run the jobs.
    #[arg(long, value_name = "N", value_parser = processes(), default_value_t = 1, requires = "on")]
    processes: u16,
    /// Run the jobs of one queue until the input ends; `bench` starts itself so.
    #[arg(long, hide = true, requires = "child_slots")]
    child_queue: Option<String>,
    /// With how many slots.
    #[arg(long, hide = true)]
    child_slots: Option<usize>,
    /// Measure one backlog in this process; `bench` starts itself so.
    #[arg(long, hide = true, requires = "dir")]
    child_backlog: Option<usize>,
}

pub(crate) async fn run(args: BenchOptions, app: &App) -> Result<Exit, Problem> {
    if let (Some(backlog), Some(path)) = (args.child_backlog, &args.dir) {
        app.out.document(&bench::child(path, backlog).await?)?;
        return Ok(Exit::Done);
    }
    if let (Some(queue), Some(slots)) = (&args.child_queue, args.child_slots) {
        bench::work(queue, slots).await?;
        return Ok(Exit::Done);
    }
    if backstop::is_isolated_child() {
        bench::serve().await?;
        return Ok(Exit::Done);
    }
    app.no_server()?;
    if cfg!(debug_assertions) {
        app.out.warn("this program was built without optimization: its figures mean little");
    }
    let sizes = BenchSizes::new(args.quick);
    let measured = match &args.on {
        Some(url) => on_server(&args, url, &sizes, app).await?,
        None if !args.broker.is_empty() => by_brokers(&args, &sizes, app).await?,
        None => in_files(&args, &sizes, app).await?,
    };
    if app.out.json {
        app.out.document(&json!({ "quick": args.quick, "items": measured }))?;
    } else {
        app.out.page(&bench::table(&app.out, &measured))?;
    }
    Ok(Exit::Done)
}

/// Workflows in a database on a server.
async fn on_server(
    args: &BenchOptions,
    url: &str,
    sizes: &BenchSizes,
    app: &App,
) -> Result<Vec<BenchFigure>, Problem> {
    if args.only.iter().any(|measure| *measure != BenchMeasure::Workflows) {
        let problem = Problem::usage("bench_on", "`--on` measures workflows and nothing else");
        return Err(
            problem.hint("leave `--only` out; `cargo xtask bench compare` measures the rest on servers")
        );
    }
    let server = BenchServer::new(url.to_owned(), args.processes);
    app.out.note(&format!("{server}, medians of {} runs", sizes.rounds));
    let bar = bar(app, 1);
    let step = |step: &str| bar.set_message(step.to_owned());
    let measured = bench::measure_workflows(sizes, WorkflowPlace::Server(&server), &step).await?;
    bar.finish_and_clear();
    Ok(measured)
}

/// Messages of brokers, with jobs in files of their own.
async fn by_brokers(args: &BenchOptions, sizes: &BenchSizes, app: &App) -> Result<Vec<BenchFigure>, Problem> {
    let place = BenchFolder::new(args.dir.as_deref())?;
    app.out.note(&format!(
        "messages beside a bare loop of the broker's client, files in {}, medians of {} runs",
        place.path().display(),
        sizes.rounds
    ));
    let bar = bar(app, 1);
    let step = |step: &str| bar.set_message(step.to_owned());
    let measured = bench::measure_bridges(sizes, &args.broker, &place, &step).await?;
    bar.finish_and_clear();
    Ok(measured)
}

/// The measures in files of their own.
async fn in_files(args: &BenchOptions, sizes: &BenchSizes, app: &App) -> Result<Vec<BenchFigure>, Problem> {
    let place = BenchFolder::new(args.dir.as_deref())?;
    let chosen = |measure: &&BenchMeasure| args.only.is_empty() || args.only.contains(measure);
    let measures: Vec<BenchMeasure> = BenchMeasure::value_variants().iter().filter(chosen).copied().collect();
    app.out.note(&format!(
        "files in {}, synchronous=FULL, medians of {} runs",
        place.path().display(),
        sizes.rounds
    ));
    let bar = bar(app, measures.len());
    let mut measured = Vec::new();
    for measure in measures {
        measured.extend(measure.take(sizes, &place, &|step| bar.set_message(step.to_owned())).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(measured)
}

fn bar(app: &App, measures: usize) -> ProgressBar {
    if !app.out.live {
        return ProgressBar::hidden();
    }
    let template = "{spinner} {bar:30} {pos} of {len}  {elapsed}  {wide_msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(u64::try_from(measures).unwrap_or(0)).with_style(style.progress_chars("━━─"));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

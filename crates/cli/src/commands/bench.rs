//! `backstop bench`: measures this machine, floor against Backstop.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::app::App;
use crate::bench::{self, BenchFolder, BenchMeasure, BenchSizes};
use crate::problem::{Exit, Problem};

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
    /// Measure one backlog in this process; `bench` starts itself so.
    #[arg(long, hide = true, requires = "dir")]
    child_backlog: Option<usize>,
}

pub(crate) async fn run(args: BenchOptions, app: &App) -> Result<Exit, Problem> {
    if let (Some(backlog), Some(path)) = (args.child_backlog, &args.dir) {
        app.out.document(&bench::child(path, backlog).await?)?;
        return Ok(Exit::Done);
    }
    if backstop::is_isolated_child() {
        bench::serve().await?;
        return Ok(Exit::Done);
    }
    app.no_server()?;
    let sizes = BenchSizes::new(args.quick);
    let place = BenchFolder::new(args.dir.as_deref())?;
    let chosen = |measure: &&BenchMeasure| args.only.is_empty() || args.only.contains(measure);
    let measures: Vec<BenchMeasure> = BenchMeasure::value_variants().iter().filter(chosen).copied().collect();
    if cfg!(debug_assertions) {
        app.out.warn("this program was built without optimization: its figures mean little");
    }
    app.out.note(&format!(
        "files in {}, synchronous=FULL, medians of {} runs",
        place.path().display(),
        sizes.rounds
    ));
    let bar = bar(app, measures.len());
    let mut measured = Vec::new();
    for measure in measures {
        measured.extend(measure.take(&sizes, &place, &|step| bar.set_message(step.to_owned())).await?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if app.out.json {
        app.out.document(&json!({ "quick": args.quick, "items": measured }))?;
    } else {
        app.out.page(&bench::table(&app.out, &measured))?;
    }
    Ok(Exit::Done)
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

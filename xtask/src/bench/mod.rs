//! `cargo xtask bench`: the program's own benchmark, always in release mode; `bench compare`: Backstop and its peers.
//!
//! The comparison runs every contender on the same servers and the same work, one after the other, and writes what came
//! out.
//! - [`contender`]: who takes part. [`peers`]: how they are installed. [`driver`]: how their programs are called.
//! - [`quiet`]: whether the machine has time for it. [`room`]: whether its disk has room.
//! - [`stage`]: the servers. [`floor`]: hand-written SQL.
//! - [`comparison`]: who does what when. [`measure`]: the turn of one contender. [`progress`]: what is going on.
//! - [`pin`]: a transaction that is held open. [`statements`]: what reaches a server.
//! - [`results`], [`figures`], [`json`]: what came out. [`page`], [`chart`]: how it is shown.

mod chart;
mod comparison;
mod contender;
mod driver;
mod figures;
mod floor;
mod json;
mod measure;
mod options;
mod page;
mod peers;
mod pin;
mod progress;
mod quiet;
mod results;
mod room;
mod stage;
mod statements;

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::error::TaskError;
use crate::process::{CommandLine, repository_root};
use crate::setup;
use comparison::Comparison;
use contender::ContenderStore;
use driver::Driver;
use options::CompareOptions;
use progress::CompareProgress;
use results::{ResultRow, Results};
use stage::BenchServers;

/// How long a driver may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(30);

/// The template of the page, the page, its chart, and the figures behind them.
const TEMPLATE: &str = "bench/page.template";
const PAGE: &str = "docs/benchmarks.md";
const CHART: &str = "docs/benchmarks.svg";
const FIGURES: &str = "bench/results/compare.json";

/// Runs `backstop bench` with the given arguments, or the comparison.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    match arguments.split_first() {
        Some((word, rest)) if word == "compare" => compare(&CompareOptions::parse(rest)?),
        _ => CommandLine::new("cargo run --release --package backstop-cli -- bench").with(arguments).run(),
    }
}

fn compare(options: &CompareOptions) -> Result<(), TaskError> {
    let progress = CompareProgress::begin();
    room::check(options)?;
    setup::programs()?;
    stage::sweep();
    let drivers = peers::install(&options.contenders);
    let mut rows: Vec<ResultRow> =
        options.contenders.iter().map(|contender| ResultRow::new(contender)).collect();
    for (row, driver) in rows.iter_mut().zip(&drivers) {
        introduce(row, driver);
    }
    let before = quiet::busy_share();
    let mut stage = BenchServers::start(&stores(&mut rows))?;
    let folder = peers::folder();
    fs::create_dir_all(&folder)
        .map_err(|error| TaskError::Failed(format!("cannot create {}: {error}", folder.display())))?;
    let mut results = Results { facts: stage.describe(), sizes: options.sizes, rows };
    Comparison {
        options,
        drivers: &drivers,
        stage: &mut stage,
        folder: &folder,
        progress: &progress,
        results: &mut results,
    }
    .take();
    drop(stage);
    // Whoever was busy at either end was most likely busy in between.
    let busy = [before, quiet::busy_share()].into_iter().flatten().fold(0.0, f64::max);
    results.facts.push(("busy_percent", format!("{:.0}", busy * 100.0)));
    println!("{}", page::terminal(&results));
    println!("all of it took {:.0} s", progress.elapsed().as_secs_f64());
    let quiet = is_quiet(busy);
    let whole = results.is_whole();
    if !whole {
        println!("figures of Backstop itself are absent, for the reasons above: this is not published");
    }
    write(options.is_complete() && quiet && whole, &results)
}

/// Says so when others worked on this machine: then the figures stay out of the repository.
fn is_quiet(busy: f64) -> bool {
    if busy > quiet::BUSY {
        let percent = busy * 100.0;
        println!(
            "others kept this machine busy ({percent:.0} %): these figures say little and are not published"
        );
    }
    busy <= quiet::BUSY
}

/// Asks the driver for the version that it drives.
fn introduce(row: &mut ResultRow, driver: &Result<Option<Driver>, String>) {
    let known = match driver {
        Err(reason) => Err(reason.clone()),
        Ok(None) => floor::version().map(|version| {
            let settings =
                "pgbench, planner held to index scans, batches of 1,000 in and of 500 out, 2 clients";
            (version, settings.to_owned())
        }),
        Ok(Some(driver)) => driver.run(&["version".to_owned()], VERSION_LIMIT).map(|said| {
            let text = |name: &str| said.answer.text_at(name).unwrap_or_default().to_owned();
            (text("version"), text("settings"))
        }),
    };
    match known {
        Ok((version, settings)) => (row.version, row.settings) = (version, settings),
        Err(reason) => row.absent = Some(reason),
    }
}

/// The stores that somebody will use. Without Redis those who need it are absent, and the rest goes on.
fn stores(rows: &mut [ResultRow]) -> Vec<ContenderStore> {
    let needs_redis =
        |row: &ResultRow| row.absent.is_none() && matches!(row.contender.store, ContenderStore::Redis(_));
    if rows.iter().any(needs_redis)
        && let Err(failure) = setup::bench_program("redis-server")
    {
        for row in rows.iter_mut().filter(|row| needs_redis(row)) {
            row.absent = Some(failure.to_string());
        }
    }
    rows.iter().filter(|row| row.absent.is_none()).map(|row| row.contender.store).collect()
}

/// Writes the figures below the build folder, or into the repository when they are fit to be shown.
fn write(publish: bool, results: &Results) -> Result<(), TaskError> {
    let cannot = |path: &Path, error: &std::io::Error| {
        TaskError::Failed(format!("cannot read or write {}: {error}", path.display()))
    };
    let root = repository_root();
    let template = root.join(TEMPLATE);
    let template = fs::read_to_string(&template).map_err(|error| cannot(&template, &error))?;
    let texts = [
        (FIGURES, results.json().pretty()),
        (CHART, chart::svg(results)),
        (PAGE, page::markdown(&template, results)),
    ];
    for (name, text) in texts {
        let path = if publish { root.join(name) } else { peers::folder().join("out").join(name) };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
        }
        fs::write(&path, text).map_err(|error| cannot(&path, &error))?;
        println!("written: {}", path.display());
    }
    Ok(())
}

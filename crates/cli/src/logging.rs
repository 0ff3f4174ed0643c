//! Log lines on stderr: warnings by default, more with `-v`, anything with `BACKSTOP_LOG`.

use backstop::RunLog;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use crate::output::CliOutput;

/// Starts logging. A demo shows what happens itself, so its engine is quiet unless it is asked.
pub(crate) fn start(verbose: u8, demo: bool, output: &CliOutput) {
    let level = match (verbose, demo) {
        (0, true) => "off",
        (0, false) => "warn",
        (1, _) => "info",
        (2, _) => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("BACKSTOP_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(output.live);
    // What handlers say is kept with their runs, whatever this process shows (F15).
    let all = tracing_subscriber::registry().with(lines.with_filter(filter)).with(kept());
    // Only one subscriber can be set, and this is the only place that sets one.
    let _ = all.try_init();
}

/// The lines of handlers, at the level that people want to read later.
fn kept<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    RunLog::new().with_filter(LevelFilter::INFO)
}

//! Log lines on stderr: warnings by default, more with `-v`, anything with `BACKSTOP_LOG`.

use tracing_subscriber::EnvFilter;

use crate::output::Output;

/// Starts logging. A demo shows what happens itself, so its engine is quiet unless it is asked.
pub(crate) fn start(verbose: u8, demo: bool, output: &Output) {
    let level = match (verbose, demo) {
        (0, true) => "off",
        (0, false) => "warn",
        (1, _) => "info",
        (2, _) => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("BACKSTOP_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Only one subscriber can be set, and this is the only place that sets one.
    let _ = lines.with_ansi(output.live).try_init();
}

//! The bridges beside the worker of `up` (B1, B2): started with it, stopped after it.
//!
//! A bridge that cannot be started, or whose broker is unavailable, holds up nobody: it is named, and the engine goes
//! on.

use backstop::Backstop;
use backstop_bridges::BridgeRunner;

use crate::app::App;
use crate::output::clean;

/// Starts every bridge of the settings.
pub(super) fn start(engine: &Backstop, app: &App) -> BridgeRunner {
    let runner = BridgeRunner::start(engine, &app.settings.bridges);
    let problems = runner.problems();
    for name in app.settings.bridges.keys() {
        if problems.iter().all(|(known, _)| known != name) {
            app.out.note(&format!("bridge: {}", clean(name)));
        }
    }
    for (name, problem) in problems {
        app.out.warn(&format!("bridge `{}` is not started: {}", clean(&name), clean(&problem.message)));
    }
    runner
}

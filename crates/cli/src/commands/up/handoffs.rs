//! The hand-offs beside the worker of `up` (B7): started with it, stopped after it, with or without a worker or an API.
//!
//! One whose receiver is unavailable holds up nobody: what waits for it is kept, and the engine goes on.

use backstop::Backstop;
use backstop_bridges::handoff::{HandOffHandle, HandOffLoop};

use crate::app::App;
use crate::output::clean;

/// Hand-offs that run.
pub(super) struct RunningHandOffs {
    running: Vec<HandOffHandle>,
}

impl RunningHandOffs {
    /// Starts every hand-off of the settings that publishes.
    pub(super) fn start(engine: &Backstop, app: &App) -> Self {
        let mut running = Vec::new();
        for (name, settings) in app.settings.handoffs.iter().filter(|(_, settings)| settings.publishes()) {
            match HandOffLoop::new(engine, name, settings) {
                Ok(handoff) => {
                    running.push(handoff.start());
                    app.out.note(&format!("hand-off: {}", clean(name)));
                }
                Err(problem) => app.out.warn(&clean(&problem.to_string())),
            }
        }
        Self { running }
    }

    /// Ends them: a request under way is settled, and what waits stays for the next process.
    pub(super) async fn stop(self) {
        for handoff in self.running {
            handoff.stop().await;
        }
    }
}

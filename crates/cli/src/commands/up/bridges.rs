//! The bridges beside the worker of `up` (B1, B2): started with it, stopped after it.
//!
//! A bridge that cannot be started, or whose broker is unavailable, holds up nobody: it is named, and the engine goes
//! on.

use backstop::Backstop;
use backstop_bridges::{BridgeSink, SinkHandle, Source, SourceHandle};

use crate::app::App;
use crate::output::clean;

/// Bridges that run.
pub(super) struct RunningBridges {
    sources: Vec<SourceHandle>,
    sinks: Vec<SinkHandle>,
}

impl RunningBridges {
    /// Starts every bridge of the settings.
    pub(super) fn start(engine: &Backstop, app: &App) -> Self {
        let mut running = Self { sources: Vec::new(), sinks: Vec::new() };
        for (name, bridge) in &app.settings.bridges {
            if bridge.source.is_some() {
                match Source::new(engine, name, bridge) {
                    Ok(source) => running.sources.push(source.start()),
                    Err(problem) => app.out.warn(&clean(&problem.to_string())),
                }
            }
            if bridge.sink.is_some() {
                match BridgeSink::new(engine, name, bridge) {
                    Ok(sink) => running.sinks.push(sink.start()),
                    Err(problem) => app.out.warn(&clean(&problem.to_string())),
                }
            }
            app.out.note(&format!("bridge: {}", clean(name)));
        }
        running
    }

    /// Ends them: what is held is settled or goes back to its broker, what is being published is confirmed, and what
    /// waits stays in the outbox for the next process.
    pub(super) async fn stop(self) {
        for source in self.sources {
            source.stop().await;
        }
        for sink in self.sinks {
            sink.stop().await;
        }
    }
}

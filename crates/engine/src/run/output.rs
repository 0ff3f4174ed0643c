//! What a run logs, up to a limit (F15).

use backstop_core::job::LogLines;

/// The lines of one run.
#[derive(Debug)]
pub(crate) struct RunOutput {
    lines: LogLines,
    limit: usize,
}

impl RunOutput {
    pub(crate) fn new(limit: usize) -> Self {
        Self { lines: LogLines::default(), limit }
    }

    pub(crate) fn push(&mut self, line: &str) {
        self.lines.push(line, self.limit);
    }

    /// What was logged, with a last line that says how much did not fit.
    pub(crate) fn text(&self) -> Option<String> {
        self.lines.text()
    }
}

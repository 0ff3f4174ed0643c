//! Says what is going on, one line each, with the time since the start.

use std::time::{Duration, Instant};

/// A run that takes most of an hour and is watched.
pub(crate) struct CompareProgress {
    begin: Instant,
}

impl CompareProgress {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        Self { begin: Instant::now() }
    }

    /// Tells who is about to do what.
    pub(crate) fn say(&self, who: &str, what: &str) {
        println!("{}", line(self.begin.elapsed(), who, what));
    }

    /// How long it has taken until now.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

fn line(since: Duration, who: &str, what: &str) -> String {
    let seconds = since.as_secs();
    format!("[{:02}:{:02}] {who}: {what}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_minutes_and_seconds() {
        let shown = |seconds| line(Duration::from_secs(seconds), "pg-boss, round 2 of 3", "drain");
        assert_eq!(shown(751), "[12:31] pg-boss, round 2 of 3: drain");
        assert_eq!(shown(6_000), "[100:00] pg-boss, round 2 of 3: drain");
    }
}

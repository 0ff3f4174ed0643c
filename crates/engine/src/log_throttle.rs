//! Log lines that repeat are held to one in ten seconds.

use std::time::Duration;

use tokio::time::Instant;

const INTERVAL: Duration = Duration::from_secs(10);

/// Lets one line through per interval.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    last: Option<Instant>,
}

impl LogThrottle {
    /// Calls `log` unless it was called within the interval.
    pub(crate) fn warn(&mut self, log: impl FnOnce()) {
        let now = Instant::now();
        if self.last.is_none_or(|last| now.duration_since(last) >= INTERVAL) {
            self.last = Some(now);
            log();
        }
    }
}

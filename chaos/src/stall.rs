//! How long a campaign waits: for as long as something changes. A busy machine is slow; a fault stands still.

use std::time::{Duration, Instant};

/// Waits while what it is shown changes.
#[derive(Debug)]
pub struct StallGuard<T> {
    last: Option<T>,
    since: Instant,
    span: Duration,
}

impl<T: PartialEq> StallGuard<T> {
    /// That ends when nothing has changed for `span`.
    #[must_use]
    pub fn new(span: Duration) -> Self {
        Self { last: None, since: Instant::now(), span }
    }

    /// Looks at how things are now; true when they have been so for too long.
    pub fn is_over(&mut self, now: T) -> bool {
        if self.last.as_ref() != Some(&now) {
            (self.last, self.since) = (Some(now), Instant::now());
        }
        self.since.elapsed() >= self.span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_only_when_nothing_changes() {
        let mut short = StallGuard::new(Duration::ZERO);
        assert!(short.is_over(1) && short.is_over(2));
        let mut long = StallGuard::new(Duration::from_secs(3_600));
        assert!(!long.is_over(1) && !long.is_over(1));
    }
}

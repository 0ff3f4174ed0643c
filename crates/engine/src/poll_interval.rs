//! How long to wait for a wake-up that may never come (L13).

use std::time::Duration;

/// How soon the next look follows after there was work: where it came from there may be more.
const FIRST_LOOK: Duration = Duration::from_millis(20);

/// A store without notices is looked at often while work comes, and ever more seldom while none does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PollInterval {
    next: Duration,
    longest: Duration,
}

impl PollInterval {
    pub(crate) fn new(longest: Duration) -> Self {
        Self { next: FIRST_LOOK.min(longest), longest }
    }

    pub(crate) fn found_work(&mut self) {
        self.next = FIRST_LOOK.min(self.longest);
    }

    /// How long to wait after a look that found nothing due.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_while_nothing_comes() {
        // L13
        let mut interval = PollInterval::new(Duration::from_secs(1));
        let mut looks = || -> Vec<u128> { (0..7).map(|_| interval.pause().as_millis()).collect() };
        assert_eq!(looks(), [20, 40, 80, 160, 320, 640, 1_000]);
        assert_eq!(looks(), [1_000; 7]);
        interval.found_work();
        assert_eq!(interval.pause().as_millis(), 20);
        assert_eq!(
            PollInterval::new(Duration::from_millis(5)).pause().as_millis(),
            5,
            "never slower than asked for"
        );
    }
}

//! The bookings behind the near ones, as runs of seconds that hold the same number.
//!
//! Retries come here only when more than an hour of seconds is full, always to the first second with room, so
//! the runs are few: a new one begins where the rate has changed.

use std::collections::VecDeque;

/// Most runs that are told apart. Beyond it neighbours are taken together as full as the fuller one, which
/// bounds the document and can never let a second hold too much.
const RUNS: usize = 512;

/// Neighbouring seconds that hold the same number of bookings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EqualSeconds {
    /// Bookings in each second.
    pub(super) count: u32,
    /// How many seconds.
    pub(super) seconds: u64,
}

/// Bookings by run, in the order of time and without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FarBookings {
    runs: VecDeque<EqualSeconds>,
}

impl FarBookings {
    pub(super) fn runs(&self) -> impl Iterator<Item = EqualSeconds> {
        self.runs.iter().copied()
    }

    /// Adds a run at the end.
    pub(super) fn push(&mut self, run: EqualSeconds) {
        match self.runs.back_mut() {
            _ if run.seconds == 0 => {}
            Some(last) if last.count == run.count => last.seconds = last.seconds.saturating_add(run.seconds),
            _ => self.runs.push_back(run),
        }
        self.limit();
    }

    /// Takes the first second away and returns what it holds.
    pub(super) fn take_second(&mut self) -> u32 {
        let count = self.runs.front().map_or(0, |run| run.count);
        self.skip(1);
        count
    }

    /// Takes the first `seconds` away.
    pub(super) fn skip(&mut self, mut seconds: u64) {
        while let Some(first) = self.runs.front_mut() {
            if first.seconds > seconds {
                first.seconds -= seconds;
                return;
            }
            seconds -= first.seconds;
            self.runs.pop_front();
        }
    }

    /// Books the first second with fewer than `rate` bookings: how many seconds lie before it, and how many
    /// bookings it held.
    pub(super) fn book(&mut self, rate: u32) -> (u64, u32) {
        let mut before = 0_u64;
        for at in 0..self.runs.len() {
            let EqualSeconds { count, seconds } = self.runs[at];
            if count < rate {
                self.raise_first_of(at);
                self.limit();
                return (before, count);
            }
            before = before.saturating_add(seconds);
        }
        self.push(EqualSeconds { count: 1, seconds: 1 });
        (before, 0)
    }

    /// Adds one booking to the first second of a run, which then belongs to the run before it or is its own.
    fn raise_first_of(&mut self, at: usize) {
        let raised = self.runs[at].count + 1;
        self.runs[at].seconds -= 1;
        if self.runs[at].seconds == 0 {
            self.runs.remove(at);
        }
        match at.checked_sub(1).and_then(|before| self.runs.get_mut(before)) {
            Some(before) if before.count == raised => before.seconds += 1,
            _ => self.runs.insert(at, EqualSeconds { count: raised, seconds: 1 }),
        }
    }

    fn limit(&mut self) {
        while self.runs.len() > RUNS {
            let cost = |at: &usize| {
                let (a, b) = (self.runs[*at], self.runs[*at + 1]);
                let lower = if a.count < b.count { a } else { b };
                u64::from(a.count.abs_diff(b.count)).saturating_mul(lower.seconds)
            };
            let Some(at) = (0..self.runs.len() - 1).min_by_key(cost) else { return };
            let Some(second) = self.runs.remove(at + 1) else { return };
            let first = &mut self.runs[at];
            first.count = first.count.max(second.count);
            first.seconds = first.seconds.saturating_add(second.seconds);
        }
    }
}

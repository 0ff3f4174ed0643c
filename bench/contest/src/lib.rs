//! What the drivers of `cargo xtask bench compare` have in common: their arguments, the work, and their answer.
//!
//! A driver is a small program that does one phase of the comparison with one job engine and prints one line of JSON.
//! The contract is in `bench/README.md`; drivers in other languages keep it too. This crate needs nothing but the
//! standard library, because it is compiled together with engines that bring their own versions of everything.
#![allow(clippy::print_stdout, reason = "a driver answers on standard output")]

mod answer;
mod arguments;
mod tally;

use std::time::{Duration, Instant, SystemTime};

pub use answer::DriverAnswer;
pub use arguments::{DriverCall, DriverPhase};
pub use tally::{RunCount, WARM_UP};

/// What a driver fails with; `xtask` shows it as the reason of the contender's absence.
pub type DriverError = Box<dyn std::error::Error + Send + Sync>;

/// How many jobs one call of bulk enqueue carries.
pub const BATCH: usize = 1_000;

/// How often a driver looks whether the last endings are stored, once all handlers have run.
pub const LOOK: Duration = Duration::from_millis(5);

/// The filling of every job, which makes its payload about 200 bytes of JSON.
#[must_use]
pub fn filling() -> String {
    "x".repeat(170)
}

/// Microseconds since 1970, the clock that producer and handler share.
#[must_use]
pub fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The sizes of the batches that `jobs` jobs make when `clients` producers share them evenly, one list per producer.
#[must_use]
pub fn shares(jobs: usize, clients: usize) -> Vec<Vec<usize>> {
    let clients = clients.max(1);
    (0..clients)
        .map(|client| {
            let share = jobs / clients + usize::from(client < jobs % clients);
            let rest = share % BATCH;
            let mut batches = vec![BATCH; share / BATCH];
            batches.extend((rest > 0).then_some(rest));
            batches
        })
        .collect()
}

/// The moments at which jobs are due when `rate` of them come every second, evenly.
pub fn schedule(jobs: usize, rate: u32) -> impl Iterator<Item = Instant> + Send {
    let begin = Instant::now() + Duration::from_millis(50);
    let gap = Duration::from_secs(1) / rate.max(1);
    (0..jobs).map(move |number| begin + gap * u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_complete() {
        assert_eq!(shares(2_500, 2), [vec![1_000, 250], vec![1_000, 250]]);
        assert_eq!(shares(3, 2), [vec![2], vec![1]]);
        assert_eq!(shares(0, 1), [Vec::<usize>::new()]);
    }

    #[test]
    fn jobs_are_due_evenly() {
        let moments: Vec<Instant> = schedule(3, 100).collect();
        assert_eq!(moments[2].duration_since(moments[0]), Duration::from_millis(20));
    }
}

//! Whether this machine has time for a benchmark: what others do on it is in every figure, and not evenly.

use std::fs;
use std::thread;
use std::time::Duration;

/// How long the machine is watched.
const WATCH: Duration = Duration::from_secs(3);

/// Above this share of all cores, figures are not fit to be shown: medians have been seen to change places.
pub(crate) const BUSY: f64 = 0.1;

/// The share of all cores that is busy right now, while nothing of ours runs.
pub(crate) fn busy_share() -> Option<f64> {
    let before = ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    thread::sleep(WATCH);
    share(before, ticks(&fs::read_to_string("/proc/stat").ok()?)?)
}

/// All ticks of the processors since the start, and those without work.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let all: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // The fourth is idle, the fifth waits for a disk; the ninth and tenth are part of the first two.
    Some((all.iter().take(8).sum(), *all.get(3)?))
}

fn share(before: (f64, f64), after: (f64, f64)) -> Option<f64> {
    let (all, idle) = (after.0 - before.0, after.1 - before.1);
    Some(1.0 - idle / all).filter(|share| share.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_being_busy() {
        let before = ticks("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 2 3 4\n").unwrap();
        let after = ticks("cpu  20 0 20 140 20 0 0 0 99 99\n").unwrap();
        assert_eq!((before, after), ((100.0, 80.0), (200.0, 140.0)));
        assert!((share(before, after).unwrap() - 0.4).abs() < 1e-9);
        assert_eq!(share(before, before), None);
        assert_eq!(ticks("nothing"), None);
    }
}

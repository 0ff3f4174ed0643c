//! A worker that has nothing to do, and the processor time that it takes all the same.

use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop_contest::{DriverAnswer, DriverCall, DriverError, RunCount};

use crate::served::ServedQueues;
use crate::work::HandlerBehaviour;

/// How long a worker that has just started is given to come to rest. `xtask` waits as long before it counts statements.
const SETTLING: Duration = Duration::from_secs(3);

/// The worker goes on for this long after it was watched: whoever counts statements began a moment later.
const LINGERING: Duration = Duration::from_secs(2);

/// How the kernel tells processor time to programs, on every machine: in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// Starts a worker, waits, and tells how busy the process was.
pub(crate) async fn idle(
    engine: &Backstop,
    arguments: &DriverCall,
    served: &ServedQueues,
) -> Result<DriverAnswer, DriverError> {
    let worker = served.worker(engine, &RunCount::default(), HandlerBehaviour::Well).await?;
    tokio::time::sleep(SETTLING).await;
    let (before, began) = (busy()?, Instant::now());
    tokio::time::sleep(arguments.watch).await;
    let (busy, spent) = (busy()?.saturating_sub(before), began.elapsed());
    tokio::time::sleep(LINGERING).await;
    worker.stop().await;
    Ok(DriverAnswer::Idle { spent, busy })
}

/// The processor time of this process since its start, all threads together.
fn busy() -> Result<Duration, DriverError> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let ticks = ticks(&stat).ok_or("/proc/self/stat does not tell the processor time")?;
    Ok(TICK * ticks)
}

/// User and system time are the 14th and 15th field; the second is the name, which may contain anything.
fn ticks(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    let user: u32 = times.next()?.parse().ok()?;
    user.checked_add(times.next()?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_found_behind_any_name() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("42 (short) S 1"), None);
    }
}

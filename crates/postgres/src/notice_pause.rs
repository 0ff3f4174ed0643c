//! How soon a notice of another process is passed on to the workers of this one (L13).
//!
//! Every process that serves a queue hears of each job in it, and one of them gets it. With many processes nearly all
//! look in vain, and then their looks are what the server is busy with. So a process that has looked in vain rests
//! before it follows the next notice, longer each time in a row, and one that has found something rests no more. What
//! it hears meanwhile is followed when the rest is over, never forgotten. The rests of two processes differ, so that of
//! those who rest one is always ready soon.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A rest after the first look in vain is half to all of this; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(2);
/// So often: no rest is longer than 16 ms, which is what a job may wait when whoever found the ones before it is busy.
const DOUBLINGS: u32 = 3;

/// When this process follows notices.
#[derive(Debug)]
pub(crate) struct NoticePause {
    /// What tells the rests of this process from those of others.
    spread: u8,
    looks: Mutex<NoticeLooks>,
}

#[derive(Debug, Clone, Copy, Default)]
struct NoticeLooks {
    /// A notice was passed on, and nobody has looked since.
    told: bool,
    /// Looks in vain in a row.
    in_vain: u32,
    /// The rest after the last of them.
    until: Option<Instant>,
    /// A notice was heard meanwhile; it is passed on then.
    due: Option<Instant>,
}

impl NoticeLooks {
    fn hear(&mut self, now: Instant) -> bool {
        if let Some(until) = self.until.filter(|until| *until > now) {
            self.due.get_or_insert(until);
            return false;
        }
        (self.told, self.due) = (true, None);
        true
    }

    fn wake(&mut self, now: Instant) -> bool {
        let wakes = self.due.is_some_and(|due| due <= now);
        if wakes {
            (self.told, self.due) = (true, None);
        }
        wakes
    }

    fn look(&mut self, found: bool, spread: u8, now: Instant) {
        if found {
            *self = Self { due: self.due, ..Self::default() };
        } else if self.told {
            let most = FIRST * 2_u32.pow(self.in_vain);
            self.until = Some(now + most / 2 + most * u32::from(spread) / 512);
            self.in_vain = (self.in_vain + 1).min(DOUBLINGS);
            self.told = false;
        }
    }
}

impl NoticePause {
    pub(crate) fn new(spread: u8) -> Self {
        Self { spread, looks: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, NoticeLooks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A notice was heard: true when it is to be passed on now.
    pub(crate) fn hear(&self, now: Instant) -> bool {
        self.lock().hear(now)
    }

    /// When what was heard in a rest is to be passed on.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lock().due
    }

    /// True when what was heard in a rest is to be passed on now.
    pub(crate) fn wake(&self, now: Instant) -> bool {
        self.lock().wake(now)
    }

    /// A worker of this process has claimed, or looked whether there is work: whether there was any.
    pub(crate) fn look(&self, found: bool, now: Instant) {
        self.lock().look(found, self.spread, now);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const LONGEST: Duration = Duration::from_millis(16);

    #[test]
    fn rests_grow_while_looks_are_in_vain_and_end_with_work() {
        // L13
        for (spread, first) in [(0, 1_000), (128, 1_500), (255, 1_996)] {
            let (mut looks, mut now, mut rests) = (NoticeLooks::default(), Instant::now(), Vec::new());
            for _ in 0..7 {
                assert!(looks.hear(now), "it is rested");
                looks.look(false, spread, now);
                assert!(!looks.hear(now));
                let due = looks.due.expect("it was heard");
                rests.push((due - now).as_micros() / first);
                now = due;
                assert!(looks.wake(now) && !looks.wake(now), "once");
            }
            assert_eq!(rests, [1, 2, 4, 8, 8, 8, 8], "in units of the first one");
            looks.look(false, spread, now);
            looks.look(true, spread, now);
            assert!(looks.hear(now), "who finds something follows the next one at once");
        }
    }

    #[test]
    fn who_looks_without_being_told_may_do_so_in_vain() {
        let (mut looks, now) = (NoticeLooks::default(), Instant::now());
        looks.look(false, 0, now);
        assert!(looks.hear(now));
    }

    /// What can happen to one process.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Notice,
        Look { found: bool },
        Time(Duration),
    }

    /// Plays every order of steps from here on. `heard`: when the first notice was heard that was not passed on.
    fn play(looks: NoticeLooks, now: Instant, heard: Option<Instant>, left: u32) -> u64 {
        assert_eq!(looks.due.is_some(), heard.is_some(), "{looks:?}");
        if let (Some(due), Some(heard)) = (looks.due, heard) {
            assert!(due <= heard + LONGEST, "{looks:?}");
        }
        if left == 0 {
            return 1;
        }
        let short = Duration::from_millis(1);
        let steps = [
            Step::Notice,
            Step::Look { found: false },
            Step::Look { found: true },
            Step::Time(short),
            Step::Time(LONGEST / 3),
        ];
        let mut played = 0;
        for step in steps {
            let (mut looks, mut now, mut heard) = (looks, now, heard);
            match step {
                Step::Notice => {
                    let passed_on = looks.hear(now);
                    heard = if passed_on { None } else { heard.or(Some(now)) };
                }
                Step::Look { found } => looks.look(found, 77, now),
                Step::Time(span) => {
                    now += span;
                    if looks.wake(now) {
                        heard = None;
                    }
                }
            }
            played += play(looks, now, heard, left - 1);
        }
        played
    }

    #[test]
    fn no_order_of_steps_forgets_a_notice() {
        // L13
        assert_eq!(play(NoticeLooks::default(), Instant::now(), None, 7), 5_u64.pow(7));
    }

    /// Looks of so many idle processes when a job is stored every five milliseconds for a second, and how long the one
    /// waited that waited longest.
    fn crowd(processes: u8) -> (usize, Duration) {
        let (begin, quarter) = (Instant::now(), Duration::from_micros(250));
        let mut crowd: Vec<(u8, NoticeLooks)> =
            (0..processes).map(|number| (number.wrapping_mul(37), NoticeLooks::default())).collect();
        let (mut jobs, mut count, mut longest) = (VecDeque::new(), 0, Duration::ZERO);
        for tick in 0..5_000_u32 {
            let now = begin + quarter * tick;
            let is_told = tick % 20 == 0 && tick < 4_000;
            jobs.extend(is_told.then_some(now));
            for (spread, looks) in &mut crowd {
                if (is_told && looks.hear(now)) || looks.wake(now) {
                    count += 1;
                    let found = jobs.pop_front();
                    longest = longest.max(found.map_or(Duration::ZERO, |stored| now - stored));
                    looks.look(found.is_some(), *spread, now);
                }
            }
        }
        assert!(jobs.is_empty(), "{} jobs were not found", jobs.len());
        (count, longest)
    }

    #[test]
    fn a_crowd_looks_half_as_often_as_it_is_told() {
        // L13
        let looks: Vec<(usize, Duration)> = [1, 4, 16, 64].map(crowd).into();
        println!("looks for 200 jobs of 1, 4, 16 and 64 processes: {looks:?}");
        assert_eq!(looks[0].0, 200, "the only one finds every job");
        for (looks, longest) in &looks[1..] {
            // All 64 would look 12,800 times.
            assert!(*looks <= 6_500 && *longest <= LONGEST, "{looks} looks, {longest:?}");
        }
    }
}

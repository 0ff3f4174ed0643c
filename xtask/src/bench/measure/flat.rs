//! Whether a rate stays when the backlog, the history or the number of queues grows: drains of the same number of jobs
//! in places that differ in one thing, in turns.

use super::super::contender::ContenderStore;
use super::super::figures::{median, ratio};
use super::super::stage::EmptyStore;
use super::{ContenderRun, MeasuredRound, phase, rate, value};

pub(super) const BACKLOG: [&str; 3] = ["backlog_small", "backlog_large", "backlog_ratio"];
pub(super) const HISTORY: [&str; 3] = ["history_none", "history_kept", "history_ratio"];
pub(super) const QUEUES: [&str; 5] =
    ["queues_one", "queues_many", "queues_many_ratio", "queues_few", "queues_few_ratio"];

/// Jobs that are stored, or stored and drained, by one call of a driver.
const STEP: u32 = 250_000;

/// When a drain is stopped, in seconds: below the limit of a phase.
const DRAIN_LIMIT: u32 = 90;

/// Counts the finished jobs that Backstop keeps.
const ENDED: &str = "select count(*) from backstop.done";

/// Many queues, and few of them.
const MANY: u32 = 200;
const FEW: u32 = 5;

/// One of the places that are drained in turns. The first is what the others are held against.
struct Side<'a> {
    rate: &'static str,
    ratio: Option<&'static str>,
    place: &'a EmptyStore,
    /// The queues that the worker serves, and those that have jobs.
    queues: (u32, u32),
    /// Whether the jobs of a drain are stored before it; otherwise they are there.
    refill: bool,
}

impl<'a> Side<'a> {
    fn new(rate: &'static str, ratio: Option<&'static str>, place: &'a EmptyStore) -> Self {
        Self { rate, ratio, place, queues: (1, 1), refill: true }
    }
}

impl ContenderRun<'_> {
    pub(super) fn flatness(&mut self) -> Vec<MeasuredRound> {
        if !self.contender.is_ours() {
            return Vec::new();
        }
        let store = self.contender.store;
        let mut found = Vec::new();
        if matches!(store, ContenderStore::Postgres | ContenderStore::Sqlite) {
            let backlog =
                self.on_a_place(|turn, small| turn.on_a_place(|turn, large| turn.backlog(small, large)));
            found.extend(phase(&BACKLOG, backlog));
        }
        if store == ContenderStore::Postgres {
            let history =
                self.on_a_place(|turn, none| turn.on_a_place(|turn, kept| turn.history(none, kept)));
            found.extend(phase(&HISTORY, history));
        }
        found.extend(phase(&QUEUES, self.queues()));
        found
    }

    /// The first jobs of a large backlog against a small one.
    fn backlog(&mut self, small: &EmptyStore, large: &EmptyStore) -> Result<Vec<MeasuredRound>, String> {
        let backlog = self.sizes.backlog;
        for stored in (0..backlog).step_by(step()) {
            self.say(&format!("a backlog of {backlog} jobs: {stored} are stored"));
            self.fill(large, STEP.min(backlog - stored), &[])?;
        }
        let large = Side { refill: false, ..Side::new("backlog_large", Some("backlog_ratio"), large) };
        self.in_turns(&[Side::new("backlog_small", None, small), large])
    }

    /// A place in which many jobs have ended against one in which none have.
    fn history(&mut self, none: &EmptyStore, kept: &EmptyStore) -> Result<Vec<MeasuredRound>, String> {
        let history = self.sizes.history;
        for ended in (0..history).step_by(step()) {
            self.say(&format!("a history of {history} jobs: {ended} have ended"));
            let jobs = STEP.min(history - ended);
            self.fill(kept, jobs, &[])?;
            let answered = self.run("drain", kept, &[("jobs", jobs), ("limit", DRAIN_LIMIT)])?;
            let done = rate(&answered.answer)?.jobs;
            if done < f64::from(jobs) {
                return Err(format!("only {done} of {jobs} jobs of its history ended in {DRAIN_LIMIT} s"));
            }
        }
        let found = self.stage.number(kept, ENDED).ok_or("its tables cannot be counted")?;
        if (found - f64::from(history)).abs() > 0.0 {
            return Err(format!("its tables keep {found} finished jobs where {history} are expected"));
        }
        self.in_turns(&[
            Side::new("history_none", None, none),
            Side::new("history_kept", Some("history_ratio"), kept),
        ])
    }

    /// Many queues against one: all of them filled, and few of them.
    fn queues(&mut self) -> Result<Vec<MeasuredRound>, String> {
        self.on_a_place(|turn, one| {
            turn.on_a_place(|turn, many| {
                turn.on_a_place(|turn, few| {
                    let many = Side::new("queues_many", Some("queues_many_ratio"), many);
                    let few = Side::new("queues_few", Some("queues_few_ratio"), few);
                    turn.in_turns(&[
                        Side::new("queues_one", None, one),
                        Side { queues: (MANY, MANY), ..many },
                        Side { queues: (MANY, FEW), ..few },
                    ])
                })
            })
        })
    }

    /// Drains every place as often as the others, in turns.
    fn in_turns(&mut self, sides: &[Side<'_>]) -> Result<Vec<MeasuredRound>, String> {
        let mut found = Vec::new();
        for repeat in 1..=self.sizes.repeats {
            for side in sides {
                let (name, repeats) = (side.rate.replace('_', ", "), self.sizes.repeats);
                self.say(&format!("{name}: drain {repeat} of {repeats}"));
                found.push(self.drain_of(side)?);
            }
        }
        let ratios = ratios(sides, &found);
        found.extend(ratios);
        Ok(found)
    }

    fn drain_of(&mut self, side: &Side<'_>) -> Result<MeasuredRound, String> {
        let jobs = self.sizes.jobs;
        let (served, filled) = side.queues;
        let queues = [("queues", served), ("filled", filled)];
        if side.refill {
            self.fill(side.place, jobs, &queues)?;
        }
        self.stage.clean(side.place)?;
        let options = [("jobs", jobs), ("limit", DRAIN_LIMIT), queues[0], queues[1]];
        let done = rate(&self.run("drain", side.place, &options)?.answer)?;
        Ok(MeasuredRound { partial: done.jobs < f64::from(jobs), ..value(side.rate, done.a_second()) })
    }
}

fn step() -> usize {
    usize::try_from(STEP).unwrap_or(usize::MAX)
}

/// The median of every side against that of the first.
fn ratios(sides: &[Side<'_>], found: &[MeasuredRound]) -> Vec<MeasuredRound> {
    let middle = |side: &Side<'_>| {
        let own = found.iter().filter(|found| found.measure == side.rate);
        median(&own.filter_map(|found| found.value.clone().ok()).collect::<Vec<f64>>())
    };
    let held_against = |side: &Side<'_>| {
        let times = ratio(middle(side)?, middle(sides.first()?)?)?;
        Some(value(side.ratio?, times))
    };
    sides.iter().filter_map(held_against).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_held_against_that_of_the_first_side() {
        let place = EmptyStore::sample();
        let sides = [
            Side::new("queues_one", None, &place),
            Side::new("queues_many", Some("queues_many_ratio"), &place),
        ];
        let mut found: Vec<MeasuredRound> =
            [100.0, 300.0, 200.0].map(|rate| value("queues_one", rate)).to_vec();
        found.extend([90.0, 150.0, 180.0].map(|rate| value("queues_many", rate)));
        let ratios = ratios(&sides, &found);
        assert_eq!(ratios, [value("queues_many_ratio", 0.75)]);
    }
}

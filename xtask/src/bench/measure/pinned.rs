//! Whether a rate lasts while a transaction is held open, so that PostgreSQL may clean nothing up.
//!
//! A backlog is stored and drained again and again in the same place. What is dead and cannot be removed grows each
//! time.

use std::time::{Duration, Instant};

use super::super::figures::{median, ratio};
use super::super::pin::IdleTransaction;
use super::super::stage::EmptyStore;
use super::{ContenderRun, MeasuredRound, Rate, absent, phase, rate, value};

pub(super) const NAMES: [&str; 5] = ["pinned_first", "pinned_last", "pinned_ratio", "pinned_trend", "pinned"];

/// Who does this: every one takes minutes.
const CONTENDERS: [&str; 5] = ["backstop-postgres", "graphile-worker", "pg-boss", "awa", "apalis-postgres"];

/// When a round ends that is not done, and the session with it, in seconds.
const ROUND_LIMIT: u32 = 30;

/// After so long no further round of another engine begins.
const SESSION_LIMIT: Duration = Duration::from_secs(120);

/// A trend is judged by so many rounds at either end: one alone says little on a machine that is not quiet.
const END: usize = 3;

impl ContenderRun<'_> {
    pub(super) fn pinned(&mut self) -> Vec<MeasuredRound> {
        if !CONTENDERS.contains(&self.contender.name) {
            return Vec::new();
        }
        let sessions = if self.contender.is_ours() { self.sizes.pinned_sessions } else { 1 };
        let session = |number| phase(&NAMES, self.on_a_place(|turn, place| turn.session(place, number)));
        (1..=sessions).flat_map(session).collect()
    }

    fn session(&mut self, place: &EmptyStore, number: u32) -> Result<Vec<MeasuredRound>, String> {
        let pin = IdleTransaction::hold(self.stage, place)?;
        let (begin, jobs) = (Instant::now(), f64::from(self.sizes.jobs));
        let mut rounds: Vec<Rate> = Vec::new();
        for round in 1..=self.sizes.pinned_rounds {
            if !self.contender.is_ours() && begin.elapsed() > SESSION_LIMIT {
                break;
            }
            self.say(&format!("a transaction is held open, session {number}, round {round}"));
            rounds.push(self.pinned_round(place)?);
            if rounds.last().is_some_and(|last| last.jobs < jobs) {
                break;
            }
        }
        if !pin.is_held(self.stage, place) {
            return Err("the transaction that was held open has ended on the way".to_owned());
        }
        let complete = rounds.iter().all(|round| round.jobs >= jobs);
        if complete {
            self.check(place, 0.0, 0.0)?;
        }
        let wanted = usize::try_from(self.sizes.pinned_rounds).unwrap_or(usize::MAX);
        let partial = !complete || rounds.len() < wanted;
        let rates: Vec<f64> = rounds.iter().map(Rate::a_second).collect();
        Ok(figures(&rates).into_iter().map(|found| MeasuredRound { partial, ..found }).collect())
    }

    fn pinned_round(&mut self, place: &EmptyStore) -> Result<Rate, String> {
        let jobs = self.sizes.jobs;
        self.fill(place, jobs, &[])?;
        self.stage.settle(place)?;
        rate(&self.run("drain", place, &[("jobs", jobs), ("limit", ROUND_LIMIT)])?.answer)
    }
}

/// What the rounds of a session say. One that ended early has no trend, and a single round has nothing behind it.
fn figures(rates: &[f64]) -> Vec<MeasuredRound> {
    let mut found: Vec<MeasuredRound> = rates.iter().map(|rate| value("pinned", *rate)).collect();
    let (Some(first), Some(last)) = (rates.first(), rates.last()) else {
        return phase(&NAMES, Err("there was no round".to_owned()));
    };
    found.push(value("pinned_first", *first));
    let short = format!("its session ended after {} of the rounds", rates.len());
    let none = |name: &str| absent(name, &short);
    if rates.len() < 2 {
        found.extend(["pinned_last", "pinned_ratio"].map(none));
    } else {
        found.push(value("pinned_last", *last));
        found.push(ratio(*last, *first).map_or_else(|| none("pinned_ratio"), |it| value("pinned_ratio", it)));
    }
    found.push(trend(rates).map_or_else(|| none("pinned_trend"), |it| value("pinned_trend", it)));
    found
}

fn trend(rates: &[f64]) -> Option<f64> {
    if rates.len() < 2 * END {
        return None;
    }
    ratio(median(&rates[rates.len() - END..])?, median(&rates[..END])?)
}

#[cfg(test)]
mod tests {
    use super::super::super::contender::ALL;
    use super::*;

    fn at(found: &[MeasuredRound], name: &str) -> Option<f64> {
        found.iter().find(|found| found.measure == name)?.value.clone().ok()
    }

    #[test]
    fn a_session_has_its_ends_and_its_trend() {
        let found = figures(&[100.0, 90.0, 110.0, 60.0, 55.0, 45.0, 50.0]);
        assert_eq!(at(&found, "pinned_first"), Some(100.0));
        assert_eq!((at(&found, "pinned_last"), at(&found, "pinned_ratio")), (Some(50.0), Some(0.5)));
        assert_eq!(at(&found, "pinned_trend"), Some(0.5));
        assert_eq!(found.iter().filter(|found| found.measure == "pinned").count(), 7);
    }

    #[test]
    fn a_session_that_ended_early_is_not_called_flat() {
        let found = figures(&[100.0]);
        assert_eq!(at(&found, "pinned_first"), Some(100.0));
        for name in ["pinned_last", "pinned_ratio", "pinned_trend"] {
            let found = found.iter().find(|found| found.measure == name).unwrap();
            assert!(found.value.is_err(), "{name}");
        }
        let found = figures(&[100.0, 50.0]);
        assert_eq!((at(&found, "pinned_ratio"), at(&found, "pinned_trend")), (Some(0.5), None));
    }

    #[test]
    fn everybody_who_does_this_takes_part() {
        for name in CONTENDERS {
            assert!(ALL.iter().any(|contender| contender.name == name), "{name}");
        }
    }
}

//! How long a job waits for its handler, at a low and at a high rate.

use super::super::figures::quantile;
use super::super::json::Json;
use super::super::stage::EmptyStore;
use super::{ContenderRun, MeasuredRound, WARM_UP, phase, value};

/// Jobs a second.
pub(super) const RATES: [u32; 2] = [100, 2_000];

/// How long to wait for jobs that have not started when the last one was sent.
pub(super) const PATIENCE: u32 = 30;

/// The figures at a rate.
pub(super) fn names(rate: u32) -> [String; 3] {
    ["p50", "p99", "p999"].map(|end| format!("latency_{rate}_{end}"))
}

impl ContenderRun<'_> {
    pub(super) fn latencies(&mut self) -> Vec<MeasuredRound> {
        let mut found = Vec::new();
        for rate in RATES {
            self.say(&format!("latency at {rate} jobs a second"));
            let names = names(rate);
            let names = [names[0].as_str(), names[1].as_str(), names[2].as_str()];
            found.extend(phase(&names, self.on_a_place(|turn, place| turn.latency(place, rate, &names))));
        }
        found
    }

    fn latency(
        &mut self,
        place: &EmptyStore,
        rate: u32,
        names: &[&str; 3],
    ) -> Result<Vec<MeasuredRound>, String> {
        self.stage.settle(place)?;
        let jobs = rate * self.sizes.latency_seconds + WARM_UP;
        let options = [("jobs", jobs), ("rate", rate), ("limit", PATIENCE)];
        let answered = self.run("latency", place, &options)?;
        let waits = sorted_waits(&answered.answer, jobs - WARM_UP)?;
        let at = |name: &str, per_mille: usize| value(name, millis(&waits, per_mille));
        Ok(vec![at(names[0], 500), at(names[1], 990), at(names[2], 999)])
    }
}

/// The waits of a driver's answer, shortest first, when they are all there.
pub(super) fn sorted_waits(answer: &Json, wanted: u32) -> Result<Vec<f64>, String> {
    let mut waits = answer.numbers_at("waits_us").ok_or("its answer has no waits")?;
    if waits.len() != usize::try_from(wanted).unwrap_or_default() {
        let found = waits.len();
        return Err(format!("{found} of {wanted} jobs were started within {PATIENCE} s of the last one"));
    }
    waits.sort_by(f64::total_cmp);
    Ok(waits)
}

/// The wait that this share of all, in thousandths, does not exceed, in milliseconds.
pub(super) fn millis(sorted: &[f64], per_mille: usize) -> f64 {
    quantile(sorted, per_mille).unwrap_or(f64::NAN) / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_count_only_when_none_is_missing() {
        let answer = Json::parse(r#"{"waits_us":[3000,1000,2000]}"#).unwrap();
        let waits = sorted_waits(&answer, 3).unwrap();
        assert_eq!((millis(&waits, 500), millis(&waits, 999)), (2.0, 3.0));
        assert!(sorted_waits(&answer, 4).unwrap_err().contains("3 of 4 jobs"));
        assert!(sorted_waits(&Json::Null, 0).is_err());
    }
}

//! What a storm of failures does to a queue beside it that the same worker serves.

use super::super::figures::ratio;
use super::super::stage::EmptyStore;
use super::latency::{PATIENCE, millis, sorted_waits};
use super::{ContenderRun, MeasuredRound, Rate, WARM_UP, phase, rate, value};

pub(super) const NAMES: [&str; 8] = [
    "storm_alone",
    "storm_beside",
    "storm_ratio",
    "storm_alone_p50",
    "storm_alone_p99",
    "storm_beside_p50",
    "storm_beside_p99",
    "storm_failures",
];

/// Jobs of the steady queue every second.
const RATE: u32 = 1_000;

/// What became of the steady queue.
struct Steady {
    rate: Rate,
    waits: Vec<f64>,
    failures: f64,
}

impl ContenderRun<'_> {
    pub(super) fn storm(&mut self) -> Vec<MeasuredRound> {
        phase(&NAMES, self.alone_and_beside())
    }

    fn alone_and_beside(&mut self) -> Result<Vec<MeasuredRound>, String> {
        self.say("a steady queue alone");
        let alone = self.on_a_place(|turn, place| turn.steady(place, 0))?;
        self.say("a steady queue beside a storm of failures");
        let beside = self.on_a_place(|turn, place| turn.steady(place, turn.sizes.jobs))?;
        if beside.failures <= 0.0 {
            return Err("nothing failed beside the steady queue".to_owned());
        }
        let times = ratio(beside.rate.a_second(), alone.rate.a_second()).unwrap_or(f64::NAN);
        let at = |name: &str, steady: &Steady, per_mille| value(name, millis(&steady.waits, per_mille));
        Ok(vec![
            value("storm_alone", alone.rate.a_second()),
            value("storm_beside", beside.rate.a_second()),
            value("storm_ratio", times),
            at("storm_alone_p50", &alone, 500),
            at("storm_alone_p99", &alone, 990),
            at("storm_beside_p50", &beside, 500),
            at("storm_beside_p99", &beside, 990),
            value("storm_failures", beside.failures),
        ])
    }

    fn steady(&mut self, place: &EmptyStore, beside: u32) -> Result<Steady, String> {
        self.stage.settle(place)?;
        let jobs = RATE * self.sizes.storm_seconds;
        let options = [("jobs", jobs), ("rate", RATE), ("beside", beside), ("limit", PATIENCE)];
        let answer = self.run("storm", place, &options)?.answer;
        let waits = sorted_waits(&answer, jobs.saturating_sub(WARM_UP))?;
        let failures = answer.number_at("failures").ok_or("its answer has no failures")?;
        Ok(Steady { rate: rate(&answer)?, waits, failures })
    }
}

//! Everything that is measured, by name: the tables are made of these.

/// The unit of a figure that holds two others against each other.
const RATIO: &str = "ratio";

/// One column of the comparison.
#[derive(Debug)]
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
}

impl Measure {
    const fn new(name: &'static str, title: &'static str, unit: &'static str) -> Self {
        Self { name, title, unit }
    }

    const fn rate(name: &'static str, title: &'static str) -> Self {
        Self::new(name, title, "jobs/s")
    }

    const fn millis(name: &'static str, title: &'static str) -> Self {
        Self::new(name, title, "ms")
    }

    const fn ratio(name: &'static str, title: &'static str) -> Self {
        Self::new(name, title, RATIO)
    }

    /// Whether it holds two figures of the same contender against each other.
    pub(crate) fn is_ratio(&self) -> bool {
        self.unit == RATIO
    }
}

/// All of them, in the order of the columns.
pub(crate) const MEASURES: [Measure; 41] = [
    Measure::rate("enqueue_bulk", "bulk enqueue"),
    Measure::rate("enqueue_single", "single enqueue, 64 clients"),
    Measure::rate("drain", "drain of a backlog"),
    Measure::millis("latency_100_p50", "p50 at 100/s"),
    Measure::millis("latency_100_p99", "p99 at 100/s"),
    Measure::millis("latency_100_p999", "p99.9 at 100/s"),
    Measure::millis("latency_2000_p50", "p50 at 2,000/s"),
    Measure::millis("latency_2000_p99", "p99 at 2,000/s"),
    Measure::millis("latency_2000_p999", "p99.9 at 2,000/s"),
    Measure::rate("fail", "failures for good"),
    Measure::rate("retry", "jobs that fail once and succeed"),
    Measure::rate("redrive", "driven again by a plan"),
    Measure::rate("pinned_first", "first round"),
    Measure::rate("pinned_last", "last round"),
    Measure::ratio("pinned_ratio", "last / first"),
    Measure::ratio("pinned_trend", "last three / first three"),
    Measure::rate("pinned", "median of all rounds"),
    Measure::rate("backlog_small", "small backlog"),
    Measure::rate("backlog_large", "large backlog"),
    Measure::ratio("backlog_ratio", "large / small"),
    Measure::rate("history_none", "no history"),
    Measure::rate("history_kept", "long history"),
    Measure::ratio("history_ratio", "long / none"),
    Measure::rate("queues_one", "one queue"),
    Measure::rate("queues_many", "200 queues"),
    Measure::ratio("queues_many_ratio", "200 / one"),
    Measure::rate("queues_few", "5 of 200 queues filled"),
    Measure::ratio("queues_few_ratio", "5 of 200 / one"),
    Measure::rate("storm_alone", "alone, jobs/s"),
    Measure::rate("storm_beside", "beside the storm, jobs/s"),
    Measure::ratio("storm_ratio", "beside / alone"),
    Measure::millis("storm_alone_p50", "p50 alone, ms"),
    Measure::millis("storm_beside_p50", "p50 beside, ms"),
    Measure::millis("storm_alone_p99", "p99 alone, ms"),
    Measure::millis("storm_beside_p99", "p99 beside, ms"),
    Measure::new("storm_failures", "failed runs meanwhile", "runs"),
    Measure::new("idle_busy", "processor, % of a core", "%"),
    Measure::new("idle_statements", "statements a second", "1/s"),
    Measure::new("log_bytes", "log written for a job", "bytes"),
    Measure::new("commits", "commits for a job", "commits"),
    Measure::new("memory", "peak memory of the worker", "MB"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (at, measure) in MEASURES.iter().enumerate() {
            assert!(MEASURES[..at].iter().all(|other| other.name != measure.name), "{}", measure.name);
        }
    }
}

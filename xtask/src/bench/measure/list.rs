//! Everything that is measured, by name: the tables are made of these.

/// The unit of a figure that holds two others against each other.
const RATIO: &str = "ratio";

/// One column of the comparison.
#[derive(Debug)]
pub(crate) struct ComparedMeasure {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
}

impl ComparedMeasure {
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
pub(crate) const MEASURES: [ComparedMeasure; 41] = [
    ComparedMeasure::rate("enqueue_bulk", "bulk enqueue"),
    ComparedMeasure::rate("enqueue_single", "single enqueue, 64 clients"),
    ComparedMeasure::rate("drain", "drain of a backlog"),
    ComparedMeasure::millis("latency_100_p50", "p50 at 100/s"),
    ComparedMeasure::millis("latency_100_p99", "p99 at 100/s"),
    ComparedMeasure::millis("latency_100_p999", "p99.9 at 100/s"),
    ComparedMeasure::millis("latency_2000_p50", "p50 at 2,000/s"),
    ComparedMeasure::millis("latency_2000_p99", "p99 at 2,000/s"),
    ComparedMeasure::millis("latency_2000_p999", "p99.9 at 2,000/s"),
    ComparedMeasure::rate("fail", "failures for good"),
    ComparedMeasure::rate("retry", "jobs that fail once and succeed"),
    ComparedMeasure::rate("redrive", "driven again by a plan"),
    ComparedMeasure::rate("pinned_first", "first round"),
    ComparedMeasure::rate("pinned_last", "last round"),
    ComparedMeasure::ratio("pinned_ratio", "last / first"),
    ComparedMeasure::ratio("pinned_trend", "last three / first three"),
    ComparedMeasure::rate("pinned", "median of all rounds"),
    ComparedMeasure::rate("backlog_small", "small backlog"),
    ComparedMeasure::rate("backlog_large", "large backlog"),
    ComparedMeasure::ratio("backlog_ratio", "large / small"),
    ComparedMeasure::rate("history_none", "no history"),
    ComparedMeasure::rate("history_kept", "long history"),
    ComparedMeasure::ratio("history_ratio", "long / none"),
    ComparedMeasure::rate("queues_one", "one queue"),
    ComparedMeasure::rate("queues_many", "200 queues"),
    ComparedMeasure::ratio("queues_many_ratio", "200 / one"),
    ComparedMeasure::rate("queues_few", "5 of 200 queues filled"),
    ComparedMeasure::ratio("queues_few_ratio", "5 of 200 / one"),
    ComparedMeasure::rate("storm_alone", "alone, jobs/s"),
    ComparedMeasure::rate("storm_beside", "beside the storm, jobs/s"),
    ComparedMeasure::ratio("storm_ratio", "beside / alone"),
    ComparedMeasure::millis("storm_alone_p50", "p50 alone, ms"),
    ComparedMeasure::millis("storm_beside_p50", "p50 beside, ms"),
    ComparedMeasure::millis("storm_alone_p99", "p99 alone, ms"),
    ComparedMeasure::millis("storm_beside_p99", "p99 beside, ms"),
    ComparedMeasure::new("storm_failures", "failed runs meanwhile", "runs"),
    ComparedMeasure::new("idle_busy", "processor, % of a core", "%"),
    ComparedMeasure::new("idle_statements", "statements a second", "1/s"),
    ComparedMeasure::new("log_bytes", "log written for a job", "bytes"),
    ComparedMeasure::new("commits", "commits for a job", "commits"),
    ComparedMeasure::new("memory", "peak memory of the worker", "MB"),
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

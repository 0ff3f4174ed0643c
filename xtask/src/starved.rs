//! Tests that failed while the machine was kept from running them.
//!
//! Campaigns with real processes, leases and time-outs need a processor. On a virtual machine others may take it for
//! seconds at a time, which no test can tell from a fault. The kernel counts that time: when much of it was taken, the
//! few tests that failed are run once more, one at a time, and the log says so. On a machine that was not kept from its
//! work a failure is a failure.

use crate::process::{CommandLine, build_folder};
use crate::test::NEXTEST;

/// Share of the wanted processor time from which on a machine counts as kept from its work.
const MUCH: f64 = 0.1;

/// Tests that are tried again at most: when more have failed, it is not the machine.
const FEW: usize = 20;

/// Processor time of all processors since the machine was started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessorTicks {
    /// What was run here.
    used: u64,
    /// What was ready to run here while somebody else had the processor.
    taken: u64,
}

impl ProcessorTicks {
    /// As of now; none where the kernel does not tell.
    pub(crate) fn now() -> Option<Self> {
        Self::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// From the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn read(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, _idle, _wait, hard, soft, taken, ..] = ticks[..] else { return None };
        Some(Self { used: user + nice + system + hard + soft, taken })
    }

    /// The share of the time wanted since then that somebody else had, if that was much.
    pub(crate) fn much_taken_since(self, before: Self) -> Option<f64> {
        let (used, taken) = (self.used.saturating_sub(before.used), self.taken.saturating_sub(before.taken));
        #[expect(clippy::cast_precision_loss, reason = "a share, told in percent")]
        let share = taken as f64 / (used + taken).max(1) as f64;
        (share >= MUCH).then_some(share)
    }
}

/// The command that runs the tests again that failed in the last run of nextest, one at a time; none when they were
/// many, or nobody knows which.
pub(crate) fn failed_tests_again() -> Option<CommandLine> {
    let report = std::fs::read_to_string(build_folder().join("nextest/default/junit.xml")).ok()?;
    let failed = failed(&report);
    if failed.is_empty() || failed.len() > FEW {
        return None;
    }
    let one = |(binary, name): &(String, String)| format!("(binary_id(={binary}) & test(={name}))");
    let filter = failed.iter().map(one).collect::<Vec<_>>().join(" | ");
    Some(CommandLine::new(NEXTEST).with(&["--test-threads=1".to_owned(), "-E".to_owned(), filter]))
}

/// The tests of a report that failed: binary and name.
fn failed(report: &str) -> Vec<(String, String)> {
    let cases = report.split("<testcase ").skip(1);
    cases
        .filter(|case| case.contains("<failure") || case.contains("<error"))
        .filter_map(|case| Some((attribute(case, "classname")?, attribute(case, "name")?)))
        .collect()
}

/// The names of tests and binaries hold nothing that XML would write otherwise.
fn attribute(case: &str, name: &str) -> Option<String> {
    let head = case.split('>').next()?;
    let value = head.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix("=\""))?;
    Some(value.split('"').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_others_had_is_told_from_time_that_was_used() {
        let before = ProcessorTicks::read("cpu  100 0 50 900 10 0 0 10 0 0\ncpu0 1 2\n").unwrap();
        assert_eq!(before, ProcessorTicks { used: 150, taken: 10 });
        let busy = ProcessorTicks::read("cpu  190 0 50 900 10 0 0 11 0 0\n").unwrap();
        assert_eq!(busy.much_taken_since(before), None, "one tick of ninety-one");
        let starved = ProcessorTicks::read("cpu  130 0 50 990 10 0 0 40 0 0\n").unwrap();
        assert_eq!(starved.much_taken_since(before), Some(0.5), "what was idle does not count");
        assert_eq!(before.much_taken_since(before), None);
        assert!(
            ProcessorTicks::read("intr 1 2 3\n").is_none() && ProcessorTicks::read("cpu  1 2\n").is_none()
        );
    }

    #[test]
    fn the_failed_tests_of_a_report_are_found() {
        let report = r#"<testsuite name="a::b">
        <testcase name="one::well" classname="a::b" time="1.0"><system-out>x</system-out></testcase>
        <testcase name="two::bad" classname="a::b" time="1.0">
            <failure type="test failure" message="name=&quot;no&quot;">stack</failure></testcase>
        <testcase name="three" classname="c" time="1.0"><error type="t">late</error></testcase></testsuite>"#;
        let expected = [("a::b", "two::bad"), ("c", "three")];
        assert_eq!(failed(report), expected.map(|(binary, name)| (binary.to_owned(), name.to_owned())));
    }
}

//! Which kinds are isolated, and what their runs may use.

use std::time::Duration;

/// Whether a run has a process of its own (E2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// It runs in the worker's own process.
    #[default]
    Never,
    /// Always.
    Always,
    /// As soon as the job has crashed: what never crashes pays nothing.
    AfterCrash,
}

/// How the runs of a kind are isolated; what is left open is said by the code of the kind, or is not limited.
///
/// ```
/// use backstop::{Isolation, IsolationSettings};
///
/// let settings = IsolationSettings::default().isolate(Isolation::Always).memory_limit(256 * 1024 * 1024);
/// assert_eq!(settings.memory_limit, Some(256 * 1024 * 1024));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IsolationSettings {
    /// When a run has a process of its own.
    pub isolate: Option<Isolation>,
    /// Bytes of memory that it may write to.
    pub memory_limit: Option<u64>,
    /// Processor time of one run, in whole seconds.
    pub cpu_limit: Option<Duration>,
}

impl IsolationSettings {
    /// When a run has a process of its own.
    #[must_use]
    pub const fn isolate(mut self, isolate: Isolation) -> Self {
        self.isolate = Some(isolate);
        self
    }

    /// How many bytes of memory an isolated run may write to: a run that wants more is a crash, out of memory.
    #[must_use]
    pub const fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// How much processor time an isolated run may use, however long it takes: a run that uses more is a crash.
    #[must_use]
    pub const fn cpu_limit(mut self, time: Duration) -> Self {
        self.cpu_limit = Some(time);
        self
    }

    /// These, and where they are silent, `others`.
    #[must_use]
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            isolate: self.isolate.or(others.isolate),
            memory_limit: self.memory_limit.or(others.memory_limit),
            cpu_limit: self.cpu_limit.or(others.cpu_limit),
        }
    }

    /// What a run of a job that has crashed so often may use in a process of its own; none when it has none.
    pub(crate) fn of_run(&self, crashes: u32) -> Option<RunLimits> {
        let isolated = match self.isolate.unwrap_or_default() {
            Isolation::Never => false,
            Isolation::Always => true,
            Isolation::AfterCrash => crashes > 0,
        };
        isolated.then(|| self.limits())
    }

    /// What an isolated run may use.
    pub(crate) const fn limits(&self) -> RunLimits {
        RunLimits { memory: self.memory_limit, cpu: self.cpu_limit }
    }

    /// True when it limits runs that are never isolated: nothing would come of it.
    pub(crate) fn limits_nothing(&self) -> bool {
        !self.may_isolate() && self.limits() != RunLimits::default()
    }

    /// True when some run may be isolated.
    pub(crate) fn may_isolate(&self) -> bool {
        self.of_run(1).is_some()
    }
}

/// What one isolated run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RunLimits {
    pub(crate) memory: Option<u64>,
    pub(crate) cpu: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_isolated_always_never_or_once_its_job_has_crashed() {
        // E2
        for (isolate, crashes, isolated) in [
            (None, 0, false),
            (None, 3, false),
            (Some(Isolation::Never), 3, false),
            (Some(Isolation::Always), 0, true),
            (Some(Isolation::AfterCrash), 0, false),
            (Some(Isolation::AfterCrash), 1, true),
        ] {
            let settings = IsolationSettings { isolate, ..IsolationSettings::default() };
            assert_eq!(settings.of_run(crashes).is_some(), isolated, "{isolate:?} after {crashes}");
        }
    }

    #[test]
    fn what_an_operator_says_goes_before_what_the_code_says_field_by_field() {
        // L19
        let code = IsolationSettings::default().isolate(Isolation::Always).memory_limit(7);
        let operator = IsolationSettings::default().memory_limit(9);
        let both = operator.or(code);
        assert_eq!(
            (both.isolate, both.memory_limit, both.cpu_limit),
            (Some(Isolation::Always), Some(9), None)
        );
    }
}

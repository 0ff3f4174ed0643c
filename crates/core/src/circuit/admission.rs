//! Whether a run may call its dependency.

use std::time::Duration;

use super::{Circuit, CircuitProbe, CircuitSettings, CircuitState};
use crate::id::JobId;
use crate::time::Timestamp;

/// How long a run that tries a dependency may take to tell what came of it, before another one may try.
const LONGEST_PROBE: Duration = Duration::from_secs(60);

/// How soon to ask again while others try it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The time at most over which jobs come back that were put off together.
const LONGEST_SPREAD: Duration = Duration::from_secs(30);

/// Whether a run may call its dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitAdmission {
    /// It may.
    Go {
        /// The generation that its result belongs to.
        generation: u64,
    },
    /// It may once the store knows that it tries: see [`Circuit::take_probe`].
    Probe,
    /// It may not before this moment.
    Wait {
        /// When.
        until: Timestamp,
    },
}

impl Circuit {
    /// Whether a run of a job may call the dependency now.
    #[must_use]
    pub fn admit(&self, job: JobId, settings: &CircuitSettings, now: Timestamp) -> CircuitAdmission {
        let generation = self.generation;
        match self.state {
            CircuitState::Closed => match self.turn_of(job, settings) {
                Some(until) if until > now => CircuitAdmission::Wait { until },
                _ => CircuitAdmission::Go { generation },
            },
            CircuitState::Open => match self.until {
                Some(until) if until > now => CircuitAdmission::Wait { until },
                _ => CircuitAdmission::Probe,
            },
            CircuitState::HalfOpen if self.has_probes_left(settings, now) => CircuitAdmission::Probe,
            CircuitState::HalfOpen => CircuitAdmission::Wait { until: now.after(ASK_AGAIN) },
        }
    }

    /// When a job's turn comes after the circuit has closed: each has its own place in the slow start, the same on all
    /// nodes. None for a circuit that was never open, or was closed by hand.
    fn turn_of(&self, job: JobId, settings: &CircuitSettings) -> Option<Timestamp> {
        let since = self.since.filter(|_| self.by.is_none())?;
        Some(since.after(settings.slow_start.mul_f64(place(job))))
    }

    /// True when nothing is let through now: it is open, or as many runs try it as may.
    #[must_use]
    pub fn is_shut(&self, settings: &CircuitSettings, now: Timestamp) -> bool {
        match self.state {
            CircuitState::Closed => false,
            CircuitState::Open => self.until.is_some_and(|until| until > now),
            CircuitState::HalfOpen => !self.has_probes_left(settings, now),
        }
    }

    fn has_probes_left(&self, settings: &CircuitSettings, now: Timestamp) -> bool {
        let out = self.probes.iter().filter(|probe| probe.is_out(now)).count();
        u64::try_from(out).unwrap_or(u64::MAX) < settings.probes
    }

    /// Notes that a run of a job tries the dependency; answers the generation of its result, or none when others have
    /// taken all tries.
    pub fn take_probe(&mut self, job: JobId, settings: &CircuitSettings, now: Timestamp) -> Option<u64> {
        if self.state == CircuitState::Open && self.until.is_none_or(|until| until <= now) {
            self.turn(CircuitState::HalfOpen, None, now);
        }
        if self.state != CircuitState::HalfOpen || !self.has_probes_left(settings, now) {
            return None;
        }
        self.probes.retain(|probe| probe.is_out(now));
        self.probes.push(CircuitProbe { since: now, job });
        Some(self.generation)
    }

    /// Gives tries back that were let through in a generation: runs of these jobs said nothing of the dependency, so
    /// others may try it. One of a job that has tried twice is its later one: what ended well stays counted.
    pub fn give_back(&mut self, generation: u64, jobs: &[JobId]) {
        if generation != self.generation {
            return;
        }
        for job in jobs {
            if let Some(place) = self.probes.iter().rposition(|probe| probe.job == *job) {
                self.probes.remove(place);
            }
        }
    }

    /// The tries of runs of these jobs.
    #[must_use]
    pub fn probes_of(&self, jobs: &[JobId]) -> Vec<CircuitProbe> {
        self.probes.iter().filter(|probe| jobs.contains(&probe.job)).copied().collect()
    }

    /// Takes tries back, because the workers of their runs are dead: nobody will tell what came of them. Answers
    /// whether any were left. A later try of the same job is another one.
    pub fn take_back(&mut self, dead: &[CircuitProbe]) -> bool {
        let before = self.probes.len();
        self.probes.retain(|probe| !dead.contains(probe));
        self.probes.len() < before
    }
}

impl CircuitProbe {
    /// True while what came of it may still be told.
    fn is_out(&self, now: Timestamp) -> bool {
        now.since(self.since) < LONGEST_PROBE
    }
}

impl CircuitSettings {
    /// How much later than the first of them a job comes back that was put off with others, the same on all nodes.
    #[must_use]
    pub fn spread(&self, job: JobId) -> Duration {
        self.open.min(LONGEST_SPREAD).mul_f64(place(job))
    }
}

/// The place of a job among all, from 0 to 1.
fn place(job: JobId) -> f64 {
    // The last bytes of an id are random.
    let place = u32::from_be_bytes(job.as_bytes()[12..].try_into().unwrap_or_default());
    f64::from(place) / f64::from(u32::MAX)
}

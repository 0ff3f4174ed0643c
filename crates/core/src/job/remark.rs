//! What a run says while it goes on: how far it is, lines to keep with it, what became of its steps, and which items
//! it rejects.

use serde::{Deserialize, Serialize};

use super::{Progress, Record, Stale, StepHistory, StepMark, StepWrite, StepsChanged};
use crate::id::{JobId, Lease};
use crate::reject::{RejectBatch, RejectTally};

/// What a run that is under way says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remark {
    /// How far it is.
    Progress(Progress),
    /// Lines to keep with the run (F15).
    Log {
        /// The lines, sanitized.
        lines: Vec<String>,
        /// Bytes of all lines of a run that are kept at most.
        limit: usize,
    },
    /// What became of a step (W7, W8).
    Step(StepWrite),
    /// Items that it could not handle (W9).
    Rejects(RejectBatch),
}

/// Why what a run says is not kept. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// The lease is not the current hold, or its run has not started (L5).
    #[error(transparent)]
    Stale(#[from] Stale),
    /// Something else is stored in the place of the step (W7).
    #[error(transparent)]
    StepsChanged(#[from] StepsChanged),
    /// The rejects were told apart from those that are stored, and by now there are more (W9).
    #[error("job {job} has stored other rejects meanwhile: read them, and tell what is still new")]
    MoreRejects {
        /// The job.
        job: JobId,
    },
}

/// Lines of one run, up to a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLines {
    text: String,
    #[serde(default)]
    dropped: usize,
}

impl LogLines {
    /// Keeps a line, if there is room for it within `limit` bytes.
    pub fn push(&mut self, line: &str, limit: usize) {
        let room = limit.saturating_sub(self.text.len());
        if line.len() < room {
            self.text.push_str(line);
            self.text.push('\n');
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// How many bytes the kept lines have.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.text.len()
    }

    /// What was kept, with a last line that says how much did not fit; none when nothing was said.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mut text = self.text.clone();
        if self.dropped > 0 {
            text.push_str(&format!("… {} more lines did not fit\n", self.dropped));
        }
        (!text.is_empty()).then_some(text)
    }
}

impl Record {
    /// Keeps what a started run says. Answers where the result of a step, or a batch of rejects, is
    /// to be kept, if it brings one (W7, W9).
    ///
    /// # Errors
    /// [`NoteError`] says why nothing was changed.
    pub fn note(&mut self, lease: &Lease, remark: &Remark) -> Result<Option<u32>, NoteError> {
        if self.held_by(lease)?.started_at.is_none() {
            return Err(Stale { job: lease.job, fence: lease.fence }.into());
        }
        match remark {
            Remark::Progress(progress) => self.progress = Some(progress.clone()),
            Remark::Log { lines, limit } => self.mark(|marks| {
                let logged = marks.logged.get_or_insert_default();
                lines.iter().for_each(|line| logged.push(line, *limit));
            }),
            Remark::Step(write) => {
                self.step_history().map_or(Ok(()), |history| history.check_write(write))?;
                return Ok(self.write_step(write));
            }
            Remark::Rejects(batch) => {
                if self.rejects().cloned().unwrap_or_default().is_behind(batch) {
                    return Err(NoteError::MoreRejects { job: lease.job });
                }
                return Ok(self.write_rejects(batch));
            }
        }
        Ok(None)
    }

    /// How many bytes the run that is under way has logged so far.
    #[must_use]
    pub fn logged_bytes(&self) -> usize {
        self.marks.as_ref().and_then(|marks| marks.logged.as_ref()).map_or(0, LogLines::bytes)
    }

    /// What the run has logged over all its life, ready for the ledger: what it said on the way, then its last words.
    pub(super) fn take_output(&mut self, last: Option<&str>) -> Option<String> {
        let mut logged = None;
        if self.marks.is_some() {
            self.mark(|marks| logged = marks.logged.take());
        }
        let before = logged.and_then(|lines| lines.text());
        match (before, last) {
            (Some(before), Some(last)) => Some(before + last),
            (before, last) => before.or_else(|| last.map(str::to_owned)),
        }
    }
}

impl Record {
    /// What is stored of its steps (W7, W8); most jobs have none.
    #[must_use]
    pub fn steps(&self) -> &[StepMark] {
        self.step_history().map_or(&[], StepHistory::marks)
    }

    /// The same in the order of their calls.
    #[must_use]
    pub fn steps_in_order(&self) -> Vec<StepMark> {
        let mut steps = self.steps().to_vec();
        steps.sort_by_key(|step| step.index);
        steps
    }

    /// The same as a history; none when nothing is stored.
    #[must_use]
    pub fn step_history(&self) -> Option<&StepHistory> {
        self.marks.as_ref().map(|marks| &marks.steps).filter(|steps| !steps.is_empty())
    }

    /// The step at which its last run died, if that is known (D1).
    #[must_use]
    pub fn died_at_step(&self) -> Option<u32> {
        self.marks.as_ref().and_then(|marks| marks.died_at_step)
    }

    /// The positions under which results of its steps are kept.
    pub fn step_results(&self) -> impl Iterator<Item = u32> {
        self.step_history().into_iter().flat_map(|steps| steps.results().map(|(at, _)| at))
    }

    /// Writes what the run that is under way says of a step.
    pub(super) fn write_step(&mut self, write: &StepWrite) -> Option<u32> {
        let (run, mut kept) = (self.runs, None);
        self.mark(|marks| kept = marks.steps.write(write, run));
        kept
    }

    /// How many of its items were rejected (W9); none for most.
    #[must_use]
    pub fn rejects(&self) -> Option<&RejectTally> {
        self.marks.as_ref().and_then(|marks| marks.rejects.as_ref())
    }

    /// Counts rejects of the run that is under way.
    fn write_rejects(&mut self, batch: &RejectBatch) -> Option<u32> {
        let mut kept = None;
        self.mark(|marks| kept = marks.rejects.get_or_insert_default().take(batch));
        kept
    }

    /// A person drives it again (L9).
    pub(super) fn confirm_steps(&mut self) {
        if self.step_history().is_some() {
            self.mark(|marks| marks.steps.confirm());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Cause, Decision};
    use crate::id::{Fence, JobId, WorkerId};
    use crate::job::{Ending, Operation, Spec, StoredJob};
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn running() -> (StoredJob, Record, Lease) {
        let spec = Spec::new(JobId::from_u128(1), "work", "{}");
        let mut record = Record::new(&spec, NOW);
        let lease = Lease { job: spec.id, worker: WorkerId::from_u128(2), fence: Fence(3) };
        record.claim(lease.worker, lease.fence, NOW, true).expect("it is pending");
        (StoredJob { spec, created_at: NOW }, record, lease)
    }

    fn log(lines: &[&str]) -> Remark {
        Remark::Log { lines: lines.iter().map(|line| (*line).to_owned()).collect(), limit: 20 }
    }

    #[test]
    fn lines_of_a_run_go_into_its_ledger_row_whoever_ends_it() {
        // E7, F15
        let (job, mut record, lease) = running();
        record.note(&lease, &log(&["one", "two"])).expect("held");
        let mut ending = Ending::plain(job.spec.header(), Cause::Interrupted, Decision::handed_back());
        ending.output = Some("last\n".to_owned());
        let mut ended = record.clone();
        let run = ended.finish(&job.spec, &lease, &ending, NOW).expect("held").expect("a run");
        assert_eq!(run.output.as_deref(), Some("one\ntwo\nlast\n"));
        assert_eq!(ended.marks, None, "the next run begins with nothing");
        let called_off = Operation::Cancel { reason: "not needed".to_owned() };
        let operated = record.operate(&job, &called_off, NOW).expect("it runs");
        assert_eq!(operated.ended_run.expect("a run").output.as_deref(), Some("one\ntwo\n"));
        assert_eq!(record.marks, None);
    }

    #[test]
    fn lines_stop_at_the_limit_and_say_so() {
        // F15
        let (_, mut record, lease) = running();
        record.note(&lease, &log(&["0123456789", "0123456789", "short"])).expect("held");
        assert_eq!(record.logged_bytes(), 17);
        let text = record.take_output(None).expect("lines");
        assert_eq!(text, "0123456789\nshort\n… 1 more lines did not fit\n");
    }

    #[test]
    fn a_stale_lease_says_nothing() {
        // L5
        let (_, mut record, lease) = running();
        let old = Lease { fence: Fence(2), ..lease };
        let before = record.clone();
        assert!(record.note(&old, &log(&["one"])).is_err());
        assert_eq!(record, before);
    }
}

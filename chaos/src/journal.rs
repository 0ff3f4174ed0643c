//! What a process says of itself, in its own append-only file outside the store, so that a kill cannot unsay it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use backstop::{Cause, JobId, State, Timestamp, WorkerId};
use backstop_core::Lease;
use backstop_core::failure::Verdict;
use backstop_core::job::{NewJob, Start};
use serde::{Deserialize, Serialize};

/// One thing that a process did, or was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournalEntry {
    /// A submit is about to be made.
    Trying(TriedSubmit),
    /// A submit was acknowledged: this job stands for it.
    Acked {
        /// The job that was submitted.
        job: JobId,
        /// The job that was answered.
        answer: JobId,
    },
    /// A worker was made known; its lease runs out somewhere between these two moments of the store's clock.
    Enlisted {
        /// Who.
        worker: WorkerId,
        /// Not before this moment.
        earliest: Timestamp,
        /// Not after it.
        latest: Timestamp,
    },
    /// A renewal is about to be asked for.
    Renewing(WorkerId),
    /// A renewal was granted until this moment of the store's clock.
    Renewed(WorkerId, Timestamp),
    /// A claim handed this job out.
    Held {
        /// To whom.
        lease: Lease,
        /// When it was asked for, as the moment of a line.
        asked: u64,
    },
    /// A handler started this run.
    Began {
        /// Under which hold.
        lease: Lease,
        /// Which run.
        run: u32,
    },
    /// A handler is about to return from this run.
    Ended {
        /// Under which hold.
        lease: Lease,
        /// Which run.
        run: u32,
    },
    /// A handler did what it does outside.
    Effect {
        /// For which job.
        job: JobId,
        /// The key that it gave, by which the outside knows a repetition.
        key: String,
    },
    /// The code of a step was called (W7).
    Stepping {
        /// Of which job.
        job: JobId,
        /// Its name.
        name: String,
        /// In which run.
        run: u32,
    },
    /// A run was given the result of a step, which says in which run its code was called.
    Stepped {
        /// Of which job.
        job: JobId,
        /// Its name.
        name: String,
        /// What the result says.
        run: u32,
    },
    /// A run asked the outside whether the effect of its job has happened (W8).
    Asked {
        /// Of which job.
        job: JobId,
        /// In which run.
        run: u32,
        /// What it was told.
        happened: bool,
    },
    /// A bulk handler was called with this job (W12).
    Called {
        /// Which job.
        job: JobId,
        /// Its run.
        run: u32,
        /// How many jobs the call has.
        jobs: usize,
    },
    /// A bulk handler is about to say that this job has succeeded.
    Answered {
        /// Which job.
        job: JobId,
        /// Its run.
        run: u32,
    },
    /// The end of a run is about to be reported, by its worker or by whoever rescues it.
    Finishing {
        /// The hold it ends.
        lease: Lease,
        /// Why it ended.
        cause: Cause,
        /// Where the job is to go.
        verdict: Verdict,
    },
    /// That report was accepted.
    Finished {
        /// The hold it ended.
        lease: Lease,
        /// Where the job went.
        state: State,
    },
    /// That report was refused as stale.
    Refused(Lease),
    /// A cancel was acknowledged.
    Canceled(JobId),
    /// The store failed in a way that no fault of a campaign excuses.
    Broken(String),
    /// Live jobs that shared a business key at one moment.
    Live(String, Vec<JobId>),
}

/// A submit, with what must come out of the store unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedSubmit {
    /// The job.
    pub job: JobId,
    /// Its payload.
    pub payload: String,
    /// Its key for ever.
    pub idempotency_key: Option<String>,
    /// Its key among live jobs.
    pub business_key: Option<String>,
    /// Its key among those that run one at a time.
    pub ordering_key: Option<String>,
    /// How long it must wait, by the store's clock.
    pub delay_ms: u64,
}

impl From<&NewJob> for TriedSubmit {
    fn from(new: &NewJob) -> Self {
        let delay = match new.start {
            Start::After(delay) => delay,
            Start::Now | Start::At(_) => std::time::Duration::ZERO,
        };
        Self {
            job: new.spec.id,
            payload: new.spec.payload.to_string(),
            idempotency_key: new.spec.idempotency_key.clone(),
            business_key: new.spec.business_key.clone(),
            ordering_key: new.spec.ordering_key.as_deref().map(ToOwned::to_owned),
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// An entry with the moment it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    /// Hundredths of a second since the machine started: a clock that all processes share and nobody can shift.
    pub at: u64,
    /// What happened.
    pub entry: JournalEntry,
}

/// A journal being written. Each line is one `write` to a file opened for appending: it is there or it is not.
#[derive(Debug)]
pub struct Journal(Mutex<File>);

impl Journal {
    /// Opens it.
    ///
    /// # Panics
    /// When the file cannot be written: a campaign without its journal proves nothing.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        let file =
            OpenOptions::new().create(true).append(true).open(path).expect("the journal can be written");
        Self(Mutex::new(file))
    }

    /// Opens a new one in a folder, under a name that no other process has.
    #[must_use]
    pub fn create_in(folder: &Path) -> Self {
        Self::open(&folder.join(format!("{}-{}.journal", std::process::id(), fastrand::u64(..))))
    }

    /// Adds a line.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write(&self, entry: JournalEntry) {
        self.write_all([entry]);
    }

    /// Adds lines, all at once.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write_all(&self, entries: impl IntoIterator<Item = JournalEntry>) {
        let at = hundredths_since_start();
        let mut text = String::new();
        for entry in entries {
            text += &serde_json::to_string(&JournalLine { at, entry }).expect("an entry is plain data");
            text.push('\n');
        }
        if text.is_empty() {
            return;
        }
        let mut file = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(text.as_bytes()).expect("the journal can be written");
    }
}

/// The moment of a line that is written now.
pub(crate) fn hundredths_since_start() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let digits = text.split(' ').next().unwrap_or_default().replace('.', "");
    digits.parse().unwrap_or(0)
}

/// Reads every journal of a folder, process by process. A torn last line was never said.
///
/// # Panics
/// When the folder cannot be read.
#[must_use]
pub fn read_all(folder: &Path) -> Vec<(PathBuf, Vec<JournalLine>)> {
    let mut journals: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|file| file.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "journal"))
        .collect();
    journals.sort();
    journals
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a journal can be read");
            let entries = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            (path, entries)
        })
        .collect()
}

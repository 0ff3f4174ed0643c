//! What a process says of itself, in its own append-only file outside the store, so that a kill cannot unsay it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use backstop::JobId;

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A submit is about to be made.
    Trying(JobId),
    /// A submit was acknowledged.
    Acked(JobId),
    /// A handler started this run.
    Began(JobId, u32),
    /// A handler is about to return from this run.
    Ended(JobId, u32),
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

    /// Adds a line.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write(&self, entry: &Entry) {
        let line = match entry {
            Entry::Trying(job) => format!("trying {job}\n"),
            Entry::Acked(job) => format!("acked {job}\n"),
            Entry::Began(job, run) => format!("began {job} {run}\n"),
            Entry::Ended(job, run) => format!("ended {job} {run}\n"),
        };
        let mut file = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(line.as_bytes()).expect("the journal can be written");
    }
}

/// Reads every journal of a folder, process by process. A torn last line was never said.
///
/// # Panics
/// When the folder cannot be read.
#[must_use]
pub fn read_all(folder: &Path) -> Vec<(PathBuf, Vec<Entry>)> {
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
            let entries = text.lines().filter_map(parse).collect();
            (path, entries)
        })
        .collect()
}

fn parse(line: &str) -> Option<Entry> {
    let mut words = line.split(' ');
    let (word, job) = (words.next()?, words.next()?.parse().ok()?);
    let run = || words.next()?.parse().ok();
    match word {
        "trying" => Some(Entry::Trying(job)),
        "acked" => Some(Entry::Acked(job)),
        "began" => Some(Entry::Began(job, { run }()?)),
        "ended" => Some(Entry::Ended(job, { run }()?)),
        _ => None,
    }
}

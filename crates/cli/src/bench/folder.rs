//! The directory that a benchmark writes to, removed when it ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::problem::Problem;

/// A directory of fresh files.
#[derive(Debug)]
pub(crate) struct BenchFolder {
    path: PathBuf,
    files: AtomicU32,
}

impl BenchFolder {
    /// A new directory under `parent`, or under the system's directory for temporary files.
    pub(crate) fn new(parent: Option<&Path>) -> Result<Self, Problem> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let path = parent.join(format!("backstop-bench-{}", backstop::job_id()));
        std::fs::create_dir_all(&path).map_err(|error| {
            Problem::failed("bench_dir", format!("cannot create {}: {error}", path.display()))
        })?;
        Ok(Self { path, files: AtomicU32::new(0) })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A file that is not there yet.
    pub(super) fn fresh(&self) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        self.path.join(format!("{number}.db"))
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        // What cannot be removed is a temporary file like any other.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes a store's files, so that the next run does not share its disk cache.
pub(super) fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // A log that is not there needs no removing.
        let _ = std::fs::remove_file(PathBuf::from(name));
    }
}

//! A folder for one test, removed when the test is over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::trouble::TestbedError;

/// A new folder among the temporary files; it goes away with this value. Declare it before the server that uses it:
/// values are dropped in the opposite order, so the server stops first.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates an empty folder with the label in its name.
    ///
    /// # Errors
    /// When the folder for temporary files cannot be written to.
    pub fn new(label: &str) -> Result<Self, TestbedError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("backstop-{label}-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // A killed process with our id may have left its folder behind.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(TestbedError::io(format!("cannot create {}", path.display())))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder inside it, for one of several servers.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failed test keeps its folder: the server's log is in it.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

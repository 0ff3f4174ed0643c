//! One idea per example; each is run by its own test.
//!
//! Holds what the examples need around their idea, and nothing of the idea itself.

use std::io;
use std::path::{Path, PathBuf};

/// A directory of its own for one run of an example; it goes when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A fresh directory for the example `name`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("backstop-{name}-{}", std::process::id()));
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A store in it, as `Backstop::open` wants it.
    #[must_use]
    pub fn store(&self) -> String {
        format!("sqlite:{}", self.0.join("jobs.db").display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the temporary directory harms nobody, and there is nobody left to tell.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

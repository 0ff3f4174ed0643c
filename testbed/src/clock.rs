//! A clock that tests step while programs run by it.
//!
//! Owns the file that says how far it is from the machine's clock, and what a program is told so that it reads that
//! file. Only the time of day is another: what measures spans runs as it does everywhere.

use std::fs;
use std::path::{Path, PathBuf};

use crate::find;
use crate::trouble::TestbedError;

/// The time of day that several programs share, and that a test may set: programs are started under libfaketime.
#[derive(Clone, Debug)]
pub struct SteppedClock {
    library: PathBuf,
    file: PathBuf,
}

impl SteppedClock {
    /// One that is right for now. Its file is in this folder, which the programs must be able to reach.
    ///
    /// # Errors
    /// When libfaketime is not installed, or the folder cannot be written to.
    pub fn new(folder: &Path) -> Result<Self, TestbedError> {
        let library = find::faketime().ok_or_else(|| {
            TestbedError::new(
                "libfaketime is not installed; install the Debian package libfaketime".to_owned(),
            )
        })?;
        let clock = Self { library, file: folder.join("clock") };
        clock.step(0)?;
        Ok(clock)
    }

    /// Sets it to so many seconds before or after the machine's clock.
    ///
    /// # Errors
    /// When its file cannot be written.
    pub fn step(&self, offset_s: i64) -> Result<(), TestbedError> {
        // Whoever looks at it finds the old offset or the new one: half a file would be a step that nobody made.
        let draft = self.file.with_extension("draft");
        fs::write(&draft, format!("{offset_s:+}\n"))
            .and_then(|()| fs::rename(&draft, &self.file))
            .map_err(TestbedError::io(format!("cannot set the clock in {}", self.file.display())))
    }

    /// Where it is written.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What the environment of a program says that goes by this clock.
    #[must_use]
    pub fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
        ]
    }
}

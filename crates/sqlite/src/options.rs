//! What a program may choose when it opens a file.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_store::{Clock, SystemClock};

/// How a file is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The clock that due times, leases and terms go by.
    pub clock: Arc<dyn Clock>,
    /// When a commit counts as durable.
    pub synchronous: Synchronous,
    /// Threads that read.
    pub readers: usize,
    /// How long to wait for other processes before a call fails as unavailable.
    pub busy_timeout: Duration,
    /// Create the file when it does not exist.
    pub create: bool,
    /// Bring the file to this program's schema.
    pub migrate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::default()),
            synchronous: Synchronous::Full,
            readers: 2,
            busy_timeout: Duration::from_secs(30),
            create: true,
            migrate: true,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("synchronous", &self.synchronous)
            .field("readers", &self.readers)
            .field("busy_timeout", &self.busy_timeout)
            .field("create", &self.create)
            .field("migrate", &self.migrate)
            .finish_non_exhaustive()
    }
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// When it has reached the disk.
    #[default]
    Full,
    /// When the operating system has it. A crash of the process loses nothing; a power failure can lose the last
    /// acknowledged calls.
    Normal,
}

//! Stores whose clock a test steps.
//!
//! A file of SQLite goes by the time of day of its processes, which run under libfaketime. A server is shared by many
//! tests, which go by its clock. There the processes bring the clock along, as the stores allow for tests: all of them
//! read the same file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use backstop::mysql::{self, MysqlStore};
use backstop::postgres::{self, PostgresStore};
use backstop::{Backstop, Timestamp};
use backstop_store::{Clock, Store};

/// Tells a process that its store goes by the clock of this file.
pub const VARIABLE: &str = "CHAOS_CLOCK";

/// The machine's clock, and as many seconds as a file says.
#[derive(Debug, Clone)]
pub struct FileClock(PathBuf);

impl FileClock {
    /// The clock of this file, which [`SteppedClock`](backstop_testbed::SteppedClock) writes.
    #[must_use]
    pub const fn new(file: PathBuf) -> Self {
        Self(file)
    }
}

impl Clock for FileClock {
    fn now(&self) -> Timestamp {
        let text = std::fs::read_to_string(&self.0).expect("the clock is there");
        let offset_s: i64 = text.trim().parse().expect("the clock says so many seconds");
        machine_time(offset_s)
    }
}

/// The machine's clock, and so many seconds.
#[must_use]
pub fn machine_time(ahead_s: i64) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(micros + ahead_s * 1_000_000)
}

/// Opens a store, by the clock of a file where that is not for the process to say.
///
/// # Errors
/// As [`Backstop::open`].
pub async fn open(url: &str, clock: Option<FileClock>) -> Result<Arc<dyn Store>, backstop::Error> {
    let Some(clock) = clock.map(|clock| Arc::new(clock) as Arc<dyn Clock>) else {
        return Ok(Backstop::open(url).await?.store().clone());
    };
    if url.starts_with("postgres:") {
        let mut options = postgres::Options::default();
        options.clock = Some(clock);
        return Ok(Arc::new(PostgresStore::open(url, options).await?));
    }
    let mut options = mysql::Options::default();
    options.clock = Some(clock);
    Ok(Arc::new(MysqlStore::open(url, options).await?))
}

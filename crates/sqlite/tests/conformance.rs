//! The suite that every store passes, on a file.

mod scratch;

use std::sync::Arc;

use backstop_sqlite::{Options, SqliteStore};
use backstop_store::conformance::Place;
use backstop_store::{ManualClock, Store};
use scratch::Scratch;

/// A file in a directory of its own.
struct File(Scratch);

impl Place for File {
    fn fresh() -> Self {
        Self(Scratch::new())
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        let mut options = Options::default();
        options.clock = Arc::new(clock);
        Arc::new(SqliteStore::open(self.0.path("jobs.db"), options).expect("a fresh directory takes a store"))
    }
}

backstop_store::conformance!(File);

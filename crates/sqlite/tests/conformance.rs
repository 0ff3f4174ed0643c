//! The suite that every store passes, on a file.

mod scratch;

use std::sync::Arc;

use backstop_sqlite::{Options, SqliteStore, rusqlite};
use backstop_store::conformance::StorePlace;
use backstop_store::{ManualClock, Store};
use scratch::Scratch;

/// A file in a directory of its own.
struct File(Scratch);

impl StorePlace for File {
    fn fresh() -> Self {
        Self(Scratch::new())
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        let mut options = Options::default();
        options.clock = Arc::new(clock);
        Arc::new(SqliteStore::open(self.0.path("jobs.db"), options).expect("a fresh directory takes a store"))
    }

    async fn lose_fences(&self) -> bool {
        let conn = rusqlite::Connection::open(self.0.path("jobs.db")).expect("the file is there");
        let set_back = "UPDATE backstop_meta SET value = 0 WHERE key = 'fence'";
        conn.execute(set_back, []).expect("the file can be written to") == 1
    }
}

backstop_store::conformance!(File);

//! The job that is a dead letter as long as something is broken, and works when it is driven again (W4, D4).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop::prelude::*;
use serde_json::{Value, json};

use crate::journal::{Journal, JournalEntry};

/// What it returns, and what it fails with.
const WORKED: u64 = 3;
const BROKEN: &str = "something is broken";

/// Fails for good while a file is there.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeadLetterJob {
    /// While it is there, something is broken.
    pub sign: PathBuf,
}

impl DeadLetterJob {
    /// The sign, in the folder of a campaign.
    #[must_use]
    pub fn sign_in(folder: &Path) -> PathBuf {
        folder.join("something-is-broken")
    }

    /// True when nothing is broken any more.
    fn works(&self) -> bool {
        !self.sign.exists()
    }

    /// The same in a remote worker; none when this is another job.
    #[must_use]
    pub fn remotely(payload: &Value) -> Option<Value> {
        let job: Self = serde_json::from_value(payload.clone()).ok()?;
        Some(match job.works() {
            true => json!({ "type": "succeeded", "result": WORKED }),
            false => json!({ "type": "failed", "class": "permanent", "message": BROKEN }),
        })
    }
}

impl Job for DeadLetterJob {
    const KIND: &'static str = "redriven";
    type Context = Arc<Journal>;
    type Output = JobResult<u64>;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult<u64> {
        let (lease, run) = (cx.lease(), cx.run_number());
        cx.app().write(JournalEntry::Began { lease, run });
        let works = self.works();
        cx.app().write(JournalEntry::Ended { lease, run });
        if works { Ok(WORKED) } else { Err(Outcome::permanent(BROKEN).into()) }
    }
}

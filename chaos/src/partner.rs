//! The job that calls a partner, and the circuit before that partner (H3).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::circuits::CircuitSettings;
use backstop::prelude::*;
use backstop::{Config, Policy};
use serde_json::{Value, json};

use crate::journal::{Journal, JournalEntry};
use crate::work::policy;

/// What the jobs depend on.
pub const PARTNER: &str = "partner";

/// Runs that try the partner when it has been left alone for a while.
pub const PROBES: u64 = 3;

/// What processes of a campaign are told: the circuit opens soon and is tried often, the rest is as usual.
#[must_use]
pub fn config() -> Config {
    let mut settings = CircuitSettings::default();
    settings.min_calls = 5;
    settings.open = Duration::from_millis(300);
    settings.probes = PROBES;
    settings.slow_start = Duration::from_millis(300);
    Config::default().circuit_settings(PARTNER, settings).kind_dependency(CallingJob::KIND, PARTNER)
}

/// Calls the partner, which is down while a file says so.
#[derive(Debug, Serialize, Deserialize)]
pub struct CallingJob {
    /// Decides how long a call takes.
    pub number: u64,
    /// While it is there, the partner is down.
    pub sign: PathBuf,
}

impl CallingJob {
    /// The sign, in the folder of a campaign.
    #[must_use]
    pub fn sign_in(folder: &Path) -> PathBuf {
        folder.join("partner-is-down")
    }

    /// Calls that fail are charged, so a job may fail often.
    #[must_use]
    pub fn policy() -> Policy {
        policy().retries(100_000)
    }

    const fn takes(&self) -> Duration {
        Duration::from_millis(2 + self.number % 20)
    }

    fn answer(&self) -> Result<(), &'static str> {
        if self.sign.exists() { Err("the partner is down") } else { Ok(()) }
    }

    /// The same call, made by a remote worker; none when this is another job.
    #[must_use]
    pub fn remotely(payload: &Value) -> Option<Value> {
        let job: Self = serde_json::from_value(payload.clone()).ok()?;
        std::thread::sleep(job.takes());
        Some(match job.answer() {
            Ok(()) => json!({ "type": "succeeded" }),
            Err(message) => json!({ "type": "failed", "class": "error", "message": message }),
        })
    }
}

impl Job for CallingJob {
    const KIND: &'static str = "calling";
    type Context = Arc<Journal>;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult {
        let (lease, run) = (cx.lease(), cx.run_number());
        cx.app().write(JournalEntry::Began { lease, run });
        tokio::time::sleep(self.takes()).await;
        let answer = self.answer();
        cx.app().write(JournalEntry::Ended { lease, run });
        Ok(answer?)
    }
}

//! The job of several things that the processes of a campaign run: durable steps, a wait for a signal, and items that
//! it rejects. Programs run it as a handler, remote workers by the verbs of the HTTP API.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::rejects::NewReject;
use backstop::{Signaled, StepError};
use serde_json::{Value, json};

use crate::journal::{Journal, JournalEntry};
use crate::remote::RemoteRun;

/// Items that each job rejects.
pub const REJECTS: u64 = 3;

/// Longer than any campaign: nobody goes on without a signal.
const TIMEOUT_S: u64 = 3_600;

/// A step, a wait for a signal, items that cannot be handled, another step.
#[derive(Debug, Serialize, Deserialize)]
pub struct SignalJob {
    /// Decides how long it takes, and what it waits for.
    pub number: u64,
}

impl SignalJob {
    /// The key of the signal that it waits for; what comes with it is its number.
    #[must_use]
    pub fn signal(&self) -> String {
        format!("errand-{}", self.number)
    }

    const fn work(&self) -> Duration {
        Duration::from_millis(self.number % 8)
    }
}

impl Job for SignalJob {
    const KIND: &'static str = "errand";
    type Context = Arc<Journal>;
    type Output = JobResult<u64>;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult<u64> {
        let (lease, run) = (cx.lease(), cx.run_number());
        cx.app().write(JournalEntry::Began { lease, run });
        let answer = self.walk(&cx).await;
        cx.app().write(JournalEntry::Ended { lease, run });
        answer
    }
}

impl SignalJob {
    async fn walk(&self, cx: &JobContext<Arc<Journal>>) -> JobResult<u64> {
        self.step(cx, "fetch").await?;
        let told = match cx.signal::<u64>(self.signal()).timeout(Duration::from_secs(TIMEOUT_S)).await? {
            Signaled::Received(number) => number,
            Signaled::TimedOut => return Err(Outcome::permanent("nobody sent a signal").into()),
        };
        for item in 0..REJECTS {
            cx.reject_with(NewReject::new(&item, "it cannot be handled").key(item.to_string())).await?;
        }
        self.step(cx, "send").await?;
        Ok(told)
    }

    async fn step(&self, cx: &JobContext<Arc<Journal>>, name: &'static str) -> Result<u32, StepError> {
        let called = || async {
            let run = cx.run_number();
            cx.app().write(JournalEntry::Stepping { job: cx.id(), name: name.to_owned(), run });
            tokio::time::sleep(self.work()).await;
            JobResult::Ok(run)
        };
        let run = cx.step(name, called).await?;
        cx.app().write(JournalEntry::Stepped { job: cx.id(), name: name.to_owned(), run });
        Ok(run)
    }
}

impl SignalJob {
    /// Does the same in a remote worker; answers the outcome.
    ///
    /// # Errors
    /// When no server takes what it says: the run is given up.
    pub(crate) fn remotely(run: &RemoteRun<'_>) -> io::Result<Value> {
        let errand = Self { number: run.claimed["payload"]["number"].as_u64().unwrap_or_default() };
        run.step(None, "fetch", errand.work())?;
        let signal = errand.signal();
        let Some(told) = run.claimed["signals"].get(&signal) else {
            return Ok(json!({ "type": "waiting", "signal": signal, "timeout_ms": TIMEOUT_S * 1_000 }));
        };
        let item = |item: u64| json!({ "error": "it cannot be handled", "item": item });
        let items: Vec<Value> = (0..REJECTS).map(item).collect();
        run.post("/api/v1/work/reject", json!({ "seen": REJECTS, "items": items }))?;
        run.step(None, "send", errand.work())?;
        Ok(json!({ "type": "succeeded", "result": told }))
    }
}

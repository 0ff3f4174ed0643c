//! The job with durable steps that the processes of a campaign run. Programs run it as a handler, remote workers by the
//! verbs of the HTTP API.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{JobId, StepError};
use serde_json::{Value, json};

use crate::journal::{Journal, JournalEntry};
use crate::remote::{RemoteEffectAnswer, RemoteRun};

/// Its steps, in order; the last one is an effect.
pub const NAMES: [&str; 5] = ["fetch", "left", "right", "render", "send"];

/// Calls its steps, two of them side by side, with a moment of work in each and between them. Each result says in which
/// run the code was called.
#[derive(Debug, Serialize, Deserialize)]
pub struct SteppingJob {
    /// Decides how long it takes, and whether its first run fails.
    pub number: u64,
}

impl Job for SteppingJob {
    const KIND: &'static str = "stepping";
    type Context = Arc<Journal>;
    type Output = JobResult<Vec<u32>>;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult<Vec<u32>> {
        let (lease, run) = (cx.lease(), cx.run_number());
        cx.app().write(JournalEntry::Began { lease, run });
        let answer = self.walk(&cx).await;
        cx.app().write(JournalEntry::Ended { lease, run });
        answer
    }
}

impl SteppingJob {
    async fn walk(&self, cx: &JobContext<Arc<Journal>>) -> JobResult<Vec<u32>> {
        let [fetch, left, right, render, send] = NAMES;
        let fetched = self.step(cx, fetch).await?;
        if self.number.is_multiple_of(5) && cx.attempt() == 1 {
            return Err("it fails after its first step".into());
        }
        self.work().await;
        let (left, right) = tokio::join!(self.step(cx, left), self.step(cx, right));
        let (left, right) = (left?, right?);
        let rendered = self.step(cx, render).await?;
        let key = format!("stepping-{}", cx.id());
        let sent = cx.effect(send, key, || self.called(cx, send)).retry_safe().await?;
        cx.app().write(given(cx.id(), send, sent));
        self.work().await;
        Ok(vec![fetched, left, right, rendered, sent])
    }

    /// Its order is that of the calls: the step begins here, before anybody waits for it.
    fn step<'a>(
        &'a self,
        cx: &'a JobContext<Arc<Journal>>,
        name: &'static str,
    ) -> impl Future<Output = Result<u32, StepError>> + 'a {
        let step = cx.step(name, move || self.called(cx, name));
        async move {
            let result = step.await?;
            cx.app().write(given(cx.id(), name, result));
            Ok(result)
        }
    }

    async fn called(&self, cx: &JobContext<Arc<Journal>>, name: &str) -> JobResult<u32> {
        let run = cx.run_number();
        cx.app().write(JournalEntry::Stepping { job: cx.id(), name: name.to_owned(), run });
        self.work().await;
        Ok(run)
    }

    /// How long it takes to do anything.
    const fn takes(&self) -> Duration {
        Duration::from_millis(self.number % 8)
    }

    async fn work(&self) {
        tokio::time::sleep(self.takes()).await;
    }
}

/// The same in a remote worker, one step after the other. It tells their order, as a client of the API may.
impl SteppingJob {
    /// Does what the handler does; answers the outcome.
    ///
    /// # Errors
    /// When no server takes what it says: the run is given up.
    pub(crate) fn remotely(run: &RemoteRun<'_>) -> io::Result<Value> {
        let job: Self = serde_json::from_value(run.claimed["payload"].clone())?;
        let [fetch, left, right, render, send] = NAMES;
        let fetched = run.step(Some(0), fetch, job.takes())?;
        if job.number.is_multiple_of(5) && run.claimed["attempt"] == 0 {
            let message = "it fails after its first step";
            return Ok(json!({ "type": "failed", "class": "error", "message": message }));
        }
        std::thread::sleep(job.takes());
        let left = run.step(Some(1), left, job.takes())?;
        let right = run.step(Some(2), right, job.takes())?;
        let rendered = run.step(Some(3), render, job.takes())?;
        let sent = job.send_remotely(run, send)?;
        std::thread::sleep(job.takes());
        Ok(json!({ "type": "succeeded", "result": [fetched, left, right, rendered, sent] }))
    }

    fn send_remotely(&self, run: &RemoteRun<'_>, send: &str) -> io::Result<u32> {
        let key = format!("stepping-{}", run.job);
        let begun = json!({ "index": 4, "name": send, "key": key, "policy": "retry_safe" });
        let sent = if let RemoteEffectAnswer::Done(sent) = run.begin(&begun)? {
            sent
        } else {
            run.called(send);
            std::thread::sleep(self.takes());
            run.store(Some(4), send)?
        };
        run.given(send, sent);
        Ok(sent)
    }
}

fn given(job: JobId, name: &str, run: u32) -> JournalEntry {
    JournalEntry::Stepped { job, name: name.to_owned(), run }
}

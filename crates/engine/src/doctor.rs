//! What a person should know of an engine before jobs wait for ever.

use backstop_store::{Error as StoreError, Finding, Level, QueueView};

use crate::engine::Backstop;
use crate::rejects::settings::RejectSettings;

impl Backstop {
    /// What is wrong with the store's settings, if anything is, whether somebody does its maintenance, whether every
    /// queue with jobs has a worker, and what would limit the memory of isolated runs in this process.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// engine.enqueue_raw("report", "{}").queue("nightly").submit().await?;
    /// let findings = engine.doctor().await?;
    /// let queues = findings.iter().find(|finding| finding.subject == "queues").ok_or("it looks at them")?;
    /// assert_eq!(queues.message, "no worker serves queue `nightly` (jobs to run: 1)");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the store is away.
    pub async fn doctor(&self) -> Result<Vec<Finding>, StoreError> {
        let mut findings = self.parts.store.check().await?;
        findings.push(self.duties_found().await?);
        findings.push(of_queues(&self.parts.store.queues().await?));
        findings.extend(of_rejects(&self.parts.config.rejects));
        #[cfg(target_os = "linux")]
        findings.push(crate::isolate::memory::finding());
        Ok(findings)
    }
}

/// A sink that may lose rejects (W9); nothing when there is none.
fn of_rejects(settings: &RejectSettings) -> Option<Finding> {
    let sink = settings.lossy_sink()?;
    let message = format!("rejects of items go to `{sink}`, which is not durable");
    let hint = "leave the sink out to keep them in the store, or use one that is durable".to_owned();
    Some(Finding { level: Level::Warning, subject: "rejects".to_owned(), message, hint: Some(hint) })
}

/// Queues that are named when nobody serves them; more would hide the others.
const NAMED: usize = 10;

fn of_queues(queues: &[QueueView]) -> Finding {
    let to_run = |queue: &&QueueView| queue.pending + queue.waiting;
    let alone: Vec<&QueueView> =
        queues.iter().filter(|queue| queue.workers == 0 && to_run(queue) > 0).collect();
    let subject = "queues".to_owned();
    if alone.is_empty() {
        let message = "every queue with jobs to run has a worker".to_owned();
        return Finding { level: Level::Good, subject, message, hint: None };
    }
    let named =
        alone.iter().take(NAMED).map(|queue| format!("`{}` (jobs to run: {})", queue.name, to_run(queue)));
    let mut message = format!("no worker serves queue {}", named.collect::<Vec<_>>().join(", "));
    if alone.len() > NAMED {
        message.push_str(&format!(" and {} more", alone.len() - NAMED));
    }
    let hint = "start a worker that serves it, or check the name that jobs are submitted to";
    Finding { level: Level::Warning, subject, message, hint: Some(hint.to_owned()) }
}

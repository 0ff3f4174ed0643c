//! What a handler says through `tracing` is kept with its run.
#![cfg(feature = "run-log")]

use backstop::prelude::*;
use backstop::{Backstop, RunLog};
use backstop_store::PageRequest;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// Says what it does: itself, in code that it calls, and in a task that it starts.
#[derive(Serialize, Deserialize)]
struct Talk {
    name: String,
}

impl Job for Talk {
    const KIND: &'static str = "talk";
    type Context = ();
    type Output = JobResult;

    async fn run(self, cx: JobContext<()>) -> JobResult {
        cx.log("by hand");
        tracing::info!(who = %self.name, count = 2, "hello");
        tracing::debug!("not kept");
        async { tracing::warn!("from inside password=hunter2") }
            .instrument(tracing::info_span!("inner"))
            .await;
        let task = async { tracing::error!("from a task") }.in_current_span();
        tokio::spawn(task).await?;
        Ok(())
    }
}

#[tokio::test]
async fn what_a_handler_says_is_kept_with_its_own_run() -> Result<(), BoxError> {
    // F15, F11
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(RunLog::new()))?;
    let engine = Backstop::open("memory:").await?;
    let mut ids = Vec::new();
    for name in ["ann", "bob"] {
        ids.push(engine.enqueue(Talk { name: name.to_owned() }).submit().await?.id);
    }
    tracing::info!("said by nobody's run");
    engine.worker(()).register::<Talk>().queue("default", 2).inline()?.drain(10).await?;
    for (id, name) in ids.into_iter().zip(["ann", "bob"]) {
        let run = engine.attempts(id, PageRequest::first(1)).await?.items.remove(0);
        let output = run.output.expect("it said something");
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines.len(), 4, "{output}");
        assert_eq!(lines[0], "by hand");
        assert_eq!(lines[1], format!("INFO run_log: hello who={name} count=2"));
        assert!(lines[2].starts_with("WARN run_log: from inside") && !output.contains("hunter2"), "{output}");
        assert_eq!(lines[3], "ERROR run_log: from a task");
    }
    Ok(())
}

//! Fills a small disk, again and again: a clear error, nothing lost, and on it goes when there is room.

use std::collections::HashSet;
use std::path::Path;

use backstop::prelude::*;
use backstop::{JobId, SubmitError};
use backstop_core::job::State;

#[derive(Serialize, Deserialize)]
struct Bulk {
    filler: String,
}

impl Job for Bulk {
    const KIND: &'static str = "bulk";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        Ok(())
    }
}

const CYCLES: usize = 5;

pub(super) async fn run(url: &str, folder: &Path) -> JobResult {
    let engine = Backstop::open(url).await?;
    let ballast = |cycle: usize| folder.join(format!("ballast-{cycle}"));
    for cycle in 1..=CYCLES {
        std::fs::write(ballast(cycle), vec![7u8; 1 << 20])?;
    }
    // The end needs room for what is stored twice: the log, and the file that it moves into.
    std::fs::write(ballast(CYCLES + 1), vec![7u8; 36 << 20])?;
    let mut acked = HashSet::new();
    for cycle in 1..=CYCLES {
        let before = acked.len();
        let error = fill(&engine, &mut acked).await;
        println!("cycle {cycle}: {} stored, then: {} ({error})", acked.len() - before, error.code());
        if error.code() != "disk_full" {
            return Err(format!("a full disk must be called so, not {}", error.code()).into());
        }
        std::fs::remove_file(ballast(cycle))?;
        acked
            .insert(engine.enqueue(bulk()).submit().await.map_err(|e| format!("room is back, but: {e}"))?.id);
    }
    std::fs::remove_file(ballast(CYCLES + 1))?;
    let worker = engine.worker(()).register::<Bulk>().queue("default", 1).inline()?;
    let ran = worker.drain(usize::MAX).await?;
    for id in &acked {
        let job = engine.job(*id).await?.ok_or_else(|| format!("the acknowledged job {id} is lost"))?;
        if job.view.state() != State::Succeeded {
            return Err(format!("job {id} is {}", job.view.state()).into());
        }
    }
    if ran.len() != acked.len() {
        return Err(format!("{} jobs ran, {} were acknowledged", ran.len(), acked.len()).into());
    }
    for finding in engine.doctor().await? {
        println!("doctor: {:?} {}: {}", finding.level, finding.subject, finding.message);
    }
    println!("all {} acknowledged jobs ran once", acked.len());
    Ok(())
}

fn bulk() -> Bulk {
    Bulk { filler: "x".repeat(20_000) }
}

async fn fill(engine: &Backstop, acked: &mut HashSet<JobId>) -> SubmitError {
    loop {
        match engine.enqueue(bulk()).submit().await {
            Ok(submitted) => {
                acked.insert(submitted.id);
            }
            Err(error) => return error,
        }
    }
}

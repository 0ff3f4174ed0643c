//! Jobs that belong together. Run it with: cargo run -p backstop-examples --example batch
//!
//! Children run as ordinary jobs with their own retries, while later ones are still being stored. When all have ended
//! the batch is judged, once, and what follows is submitted in the same transaction.

use backstop::prelude::*;

#[job(max_retries = 0)]
async fn resize(picture: u32) -> JobResult {
    if picture == 13 { Err("it is not a picture".into()) } else { Ok(()) }
}

#[job]
async fn publish(cx: JobContext<()>) -> JobResult {
    let end = cx.workflow_end().ok_or("this follows a batch")?;
    println!("the {} is published; left out: {}", end.name, end.counts.failed);
    Ok(())
}

#[job]
async fn ask(cx: JobContext<()>) {
    let dead = cx.workflow_end().and_then(|end| end.failed);
    println!("somebody has to look at the album: {:?}", dead.and_then(|dead| dead.error));
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let worker = engine.worker(()).register::<Resize>().queue("default", 8).start().await?;
    let album = engine
        .batch("album")
        .success_rate_at_least(0.9)
        .then_on_success(Publish {})
        .then_on_failure(Ask {})
        .for_each(1..=20, |picture| engine.enqueue(Resize { picture }))
        .await?;

    let mut looks = 0;
    let ended = album.wait(|_| looks += 1).await?;
    println!("{}: {} of {} resized", ended.status, ended.counts.succeeded, ended.counts.total);
    assert!(looks >= 1, "progress was told");
    worker.stop().await;
    // What follows was stored with the end of the batch: whoever knows it runs it.
    let later = engine.worker(()).register::<Publish>().register::<Ask>().queue("default", 1);
    later.inline()?.drain(1).await?;
    Ok(())
}

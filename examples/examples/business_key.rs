//! One live job for each thing. Run it with: cargo run -p backstop-examples --example business_key
//!
//! A business key belongs to one job while that is pending, running, paused or waiting. What a second submit gets is
//! its own choice: a refusal that names the holder, the holder itself, or the holder's place.

use backstop::prelude::*;
use backstop::{JobId, Refusal, State};

#[job]
async fn reindex(shop: String, reason: String) {
    println!("indexing {shop}, because {reason}");
}

fn reindex_for(reason: &str) -> Reindex {
    Reindex { shop: "corner".into(), reason: reason.into() }
}

async fn state(engine: &Backstop, job: JobId) -> JobResult<State> {
    Ok(engine.job(job).await?.ok_or("a job is never lost")?.view.state())
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let key = "reindex:corner";
    let first = engine.enqueue(reindex_for("a price changed")).business_key(key).submit().await?.id;

    // L11: reject is the default, and says who holds the key.
    let refused = engine.enqueue(reindex_for("a photo changed")).business_key(key).submit().await;
    let error = refused.err().ok_or("two live jobs share a key")?;
    println!("reject: {error}");
    assert!(matches!(error.refusal(), Some(Refusal::BusinessKeyConflict { holder, .. }) if *holder == first));

    // L11: skip answers with the holder.
    let skipping =
        engine.enqueue(reindex_for("a name changed")).business_key(key).on_conflict(OnConflict::Skip);
    let skipped = skipping.submit().await?;
    println!("skip: the job that is there will do, deduplicated is {}", skipped.deduplicated);
    assert_eq!(skipped.id, first);

    // L11: replace takes the place of a holder that has not started.
    let replacing = engine.enqueue(reindex_for("all has changed")).business_key(key);
    let second = replacing.on_conflict(OnConflict::Replace).submit().await?.id;
    println!("replace: the first job is {}", state(&engine, first).await?);
    assert_eq!(state(&engine, first).await?, State::Canceled);

    engine.worker(()).register::<Reindex>().queue("default", 1).inline()?.drain(100).await?;
    assert_eq!(state(&engine, second).await?, State::Succeeded);

    // The key is free again when its job has ended.
    let third = engine.enqueue(reindex_for("it is monday")).business_key(key).submit().await?;
    println!("after the end: the key is free, a third job is {}", third.state);
    assert!(!third.deduplicated && third.id != second);
    Ok(())
}

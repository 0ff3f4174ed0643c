//! A job that is submitted again and again. Run it with: cargo run -p backstop-examples --example schedules
//!
//! A program declares all its schedules when it starts. Every process on the store takes part in firing them, and each
//! fire time is submitted once. A handler knows which fire it is.

use std::time::Duration;

use backstop::EventKind;
use backstop::prelude::*;
use backstop::schedules::{Misfire, Overlap, ScheduleOwner, ScheduleSettings};

#[job]
async fn sweep(cx: JobContext<()>) -> JobResult {
    let fired = cx.schedule().ok_or("only a schedule submits it")?;
    println!("swept for `{}`", fired.name);
    Ok(())
}

#[job]
async fn report() -> JobResult {
    Ok(())
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let often = ScheduleSettings::every(Duration::from_secs(1)).overlap(Overlap::Skip);
    let nightly =
        ScheduleSettings::cron("30 2 * * MON-FRI").time_zone("Europe/Berlin").misfire(Misfire::Skip);
    let schedules =
        [("often", (often, engine.enqueue(Sweep {}))), ("nightly", (nightly, engine.enqueue(Report {})))];
    engine.schedules().declare(ScheduleOwner::Code("shop".into()), schedules).await?;

    let mut events = engine.events();
    let twice = async {
        let mut swept = 0;
        while let Some(event) = events.next().await {
            swept += u32::from(matches!(event.what, EventKind::Succeeded { .. }));
            if swept == 2 {
                break;
            }
        }
    };
    engine.worker(()).register::<Sweep>().register::<Report>().queue("default", 2).run_until(twice).await?;

    for schedule in engine.schedules().list().await? {
        let next = schedule.upcoming.len();
        println!(
            "`{}` fires by {}, the next {next} times are known",
            schedule.name, schedule.schedule.timing
        );
    }
    // By hand, whatever the clock says.
    engine.schedules().pause("often", "ann").await?;
    let job = engine.schedules().run("nightly").await?;
    let found = engine.job(job).await?.ok_or("a job is never lost")?;
    println!("`nightly` was run by hand: a job of kind {}", found.view.job.spec.kind);
    Ok(())
}

//! Rows that cannot be read, as a later program or half a restore leaves them: the rest goes on (C7).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::store::{JobFilter, PageRequest};
use backstop::{Cause, Config, JobId, State};

use crate::changed::overwritten;
use crate::place::{App, Place, after, detail, drain, work};

/// Columns of a job that hold JSON, and what may stand there instead.
const COLUMNS: [&str; 5] = ["policy", "tags", "on_success", "on_failure", "papers"];
const TEXTS: [&str; 5] = ["''", "'{'", "'[1, {}]'", "'{\"kind\": 7}'", "'\"2\"'"];

#[tokio::test]
async fn a_row_that_cannot_be_read_stops_no_other() {
    // C7, F17
    for place in Place::all("damaged").await {
        let engine = place.open(Config::default()).await;
        let mut damaged: Vec<JobId> = Vec::new();
        let mut sound = Vec::new();
        for column in COLUMNS {
            for text in TEXTS {
                let job = || engine.enqueue(work("well")).tag("red").on_success(after("x"));
                damaged.push(job().submit().await.expect("admitted").id);
                sound.push(job().submit().await.expect("admitted").id);
                place.sql(&overwritten(&place, damaged[damaged.len() - 1], column, text)).await;
            }
        }
        let name = place.name();
        let listed = engine.jobs(JobFilter::default(), PageRequest::first(100)).await.expect("a list").items;
        assert_eq!(listed.len(), damaged.len() + sound.len(), "{name}: the list shows all");
        let app = Arc::new(App::default());
        drain(&engine, &app).await;
        for id in sound {
            assert_eq!(detail(&engine, id).await.view.record.state, State::Succeeded, "{name}");
        }
        for id in &damaged {
            let detail = detail(&engine, *id).await;
            let runs = engine.store().attempts(*id, PageRequest::first(10)).await.expect("a ledger").items;
            // What can be read without loss is no damage, such as papers that say nothing.
            if detail.view.record.state == State::Succeeded {
                continue;
            }
            let record = &detail.view.record;
            assert_eq!((record.state, record.attempt, runs.len()), (State::Pending, 0, 1), "{name} {id}");
            assert_eq!(runs[0].cause, Cause::EngineFault);
            let message = &runs[0].failure.as_ref().expect("evidence").message;
            assert!(message.starts_with("its stored `"), "{name}: {message}");
            assert!(record.run_at > engine.store().now().await.expect("a clock"), "later, not at once");
        }
        let ended = damaged.len() - unreadable(&engine, &damaged).await;
        assert!(ended <= 5, "{name}: {ended} of them ran");
        // A worker that died with one of them in its hands is dealt with like any other.
        assert!(app.starts.load(Ordering::SeqCst) >= 25);
        engine.maintain(backstop::worker_id(), Duration::from_secs(30)).await.expect("every duty goes on");
        let canceled = engine.cancel(damaged[0], "no use").await.expect("it can be called off");
        assert!(canceled.changed, "{name}");
        place.done().await;
    }
}

/// How many of these wait to be read by somebody else.
async fn unreadable(engine: &backstop::Backstop, jobs: &[JobId]) -> usize {
    let mut count = 0;
    for id in jobs {
        count += usize::from(detail(engine, *id).await.view.job.spec.damage().is_some());
    }
    count
}

//! Rows that cannot be read, as a later program or half a restore leaves them: the rest goes on (C7).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::{Cause, Config, JobId, State};
use backstop_core::incident::Standing;
use backstop_store::{JobFilter, PageRequest};

use crate::changed::overwritten;
use crate::place::{App, Place, Work, after, detail, drain, work};

/// Columns of a job that hold JSON, and what may stand there instead.
const COLUMNS: [&str; 5] = ["policy", "tags", "on_success", "on_failure", "papers"];
/// Columns of a job that hold text, where a database takes anything for that.
const TEXT_COLUMNS: [&str; 5] = ["payload", "business_key", "correlation_id", "params", "tags"];
/// Columns of a record that hold counts or numbers.
const COUNTS: [(&str, &str); 9] = [
    ("attempt", "-1"),
    ("crashes", "-1"),
    ("deferrals", "-1"),
    ("runs", "-1"),
    ("redrives", "-1"),
    ("redrives", "4294967296"),
    ("last_failed_run", "-1"),
    ("last_failed_run", "4294967296"),
    ("paused_from", "99"),
];
/// Columns of a record that hold text.
const RECORD_TEXTS: [&str; 4] = ["progress", "reason", "cancel_reason", "marks"];
const TEXTS: [&str; 5] = ["''", "'{'", "'[1, {}]'", "'{\"kind\": 7}'", "'\"2\"'"];

/// What is no text, in SQL; nothing where the database takes only text.
const fn no_texts(place: &Place) -> &'static [&'static str] {
    match place {
        Place::Sqlite(_) => &["CAST(X'ff' AS TEXT)", "X'00ff'"],
        Place::Postgres(_) => &[],
        Place::Mysql(_) => &["X'ff'", "X'00ff'"],
    }
}

#[tokio::test]
async fn counts_that_cannot_be_and_text_that_is_none_stop_no_other() {
    // C7
    for place in Place::all("counts").await {
        let (name, engine) = (place.name(), place.open(Config::default()).await);
        let record = place.table(if matches!(place, Place::Sqlite(_)) { "state" } else { "record" });
        let mut written = COUNTS.to_vec();
        for text in no_texts(&place) {
            written.extend(RECORD_TEXTS.map(|column| (column, *text)));
        }
        let mut jobs = Vec::new();
        for (column, value) in written {
            let damaged = engine.enqueue(work("well")).submit().await.expect("admitted").id;
            // One that was paused has a record of its own on every store.
            engine.pause(damaged).await.expect("paused");
            engine.resume(damaged).await.expect("resumed");
            let id = place.id(damaged);
            place.sql(&format!("UPDATE {record} SET {column} = {value} WHERE id = {id}")).await;
            jobs.push((damaged, format!("{column} = {value}")));
            let sound = engine.enqueue(work("well")).submit().await.expect("admitted").id;
            jobs.push((sound, "nothing".to_owned()));
        }
        let listed = engine.jobs(JobFilter::default(), PageRequest::first(100)).await.expect("a list").items;
        assert_eq!(listed.len(), jobs.len(), "{name}: the list shows all");
        drain(&engine, &Arc::new(App::default())).await;
        for (id, damage) in &jobs {
            let record = detail(&engine, *id).await.view.record;
            assert_eq!((record.state, record.attempt), (State::Succeeded, 0), "{name}: {damage}");
        }
        place.done().await;
    }
}

/// SQL that adds a claim of a worker who is gone, with half of an id in it; none where jobs are claimed one by one.
fn damaged_claim(place: &Place) -> Option<String> {
    let bytes = match place {
        Place::Sqlite(_) => return None,
        Place::Postgres(_) => r"'\x0102'",
        Place::Mysql(_) => "X'0102'",
    };
    let (claim, worker) = (place.table("claim"), place.id(JobId::from_u128(10)));
    Some(format!(
        "INSERT INTO {claim} (fence, worker, claimed_at, edits, slots, jobs) \
         VALUES (1000000, {worker}, 0, 0, {bytes}, {bytes})"
    ))
}

#[tokio::test]
async fn what_is_damaged_beside_jobs_keeps_no_run_from_ending() {
    // C7, D2
    for place in Place::all("beside").await {
        let (name, engine) = (place.name(), place.open(Config::default()).await);
        let app = Arc::new(App::default());
        let fail = async || {
            let id = engine.enqueue(work("fail")).submit().await.expect("admitted").id;
            drain(&engine, &app).await;
            detail(&engine, id).await.view.record.state
        };
        assert_eq!(fail().await, State::Failed, "{name}");
        let [incident, lane, worker] = ["incident", "lane", "worker"].map(|table| place.table(table));
        let id = place.id(JobId::from_u128(9));
        let columns = "id, name, queues, kinds, started_at, expires_at";
        for damage in [
            format!("UPDATE {incident} SET standing = '{{', open = -7"),
            format!("UPDATE {lane} SET failed = -9"),
            format!("INSERT INTO {worker} ({columns}) VALUES ({id}, 'odd', '{{', '7', 0, 9000000000000000)"),
        ] {
            place.sql(&damage).await;
        }
        if let Some(claim) = damaged_claim(&place) {
            place.sql(&claim).await;
        }
        assert_eq!(fail().await, State::Failed, "{name}: it ends all the same");
        let incidents = engine.incidents().list(10).await.expect("a list");
        let seen = incidents.iter().map(|seen| (seen.failures, seen.open, seen.standing.clone()));
        assert_eq!(seen.collect::<Vec<_>>(), [(2, 0, Standing::default())], "{name}");
        let queues = engine.queues().list().await.expect("a list");
        assert!(!queues.is_empty() && queues.iter().all(|queue| queue.failed == 0), "{name}");
        let workers = engine.workers().await.expect("a list");
        assert!(workers.iter().any(|worker| worker.name == "odd"), "{name}");
        engine.maintain(backstop::worker_id(), Duration::from_secs(30)).await.expect("every duty goes on");
        place.done().await;
    }
}

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
        let texts = no_texts(&place);
        let of_text = TEXT_COLUMNS.iter().flat_map(|column| texts.iter().map(move |text| (*column, *text)));
        for (column, text) in of_text {
            damaged.push(engine.enqueue(work("well")).submit().await.expect("admitted").id);
            place.sql(&overwritten(&place, damaged[damaged.len() - 1], column, text)).await;
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
            // What can be read without loss is no damage, such as provenance that says nothing.
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
        let canceled = engine.cancel(damaged[0], "no use").await.expect("it can be canceled");
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

#[tokio::test]
async fn one_bad_row_in_ten_thousand_stops_no_other_and_can_be_removed() {
    // C7, F17, D5
    const JOBS: usize = 10_000;
    for place in Place::all("one_bad").await {
        let (name, engine) = (place.name(), place.open(Config::default()).await);
        let mut ids = Vec::with_capacity(JOBS);
        for _ in 0..JOBS / 1_000 {
            let jobs = (0..1_000).map(|_| engine.enqueue(work("well")).tag("red")).collect();
            let answers = engine.submit_all(jobs, true).await.expect("stored");
            ids.extend(answers.into_iter().map(|answer| answer.expect("admitted").id));
        }
        let bad = ids[JOBS / 2];
        place.sql(&overwritten(&place, bad, "tags", "'{'")).await;
        let worker = engine.worker(Arc::new(App::default())).register::<Work>().queue("default", 500);
        let worker = worker.start().await.expect("a worker");
        let queue = loop {
            let queue = engine.queues().list().await.expect("queues").remove(0);
            if queue.running == 0 && queue.pending <= 1 {
                break queue;
            }
            tokio::task::yield_now().await;
        };
        worker.stop().await;
        assert_eq!((queue.succeeded, queue.pending), (JOBS as u64 - 1, 1), "{name}");
        let filter = JobFilter { state: Some(State::Pending), ..JobFilter::default() };
        let left = engine.jobs(filter, PageRequest::first(10)).await.expect("a list").items;
        assert_eq!(
            left.iter().map(|view| view.job.spec.id).collect::<Vec<_>>(),
            [bad],
            "{name}: a person sees it"
        );
        let found = &left[0].last_failure.as_ref().expect("what was found").message;
        assert!(found.starts_with("its stored `tags` cannot be read"), "{name}: {found}");
        assert!(engine.cancel(bad, "it cannot be read").await.expect("canceled").changed, "{name}");
        let purged = engine.store().purge(vec![bad], None).await.expect("purged");
        assert_eq!(purged, [Ok(State::Canceled)], "{name}: and removes it");
        place.done().await;
    }
}

/// SQL after which the database refuses to write the end of a job that has not started.
fn refuse_to_end(place: &Place, id: JobId) -> String {
    let id = place.id(id);
    match place {
        Place::Sqlite(_) => format!(
            "CREATE TRIGGER refuse BEFORE UPDATE ON backstop_state WHEN OLD.id = {id} AND NEW.status <> 1 \
             BEGIN SELECT RAISE(ABORT, 'refused by a trigger'); END"
        ),
        Place::Postgres(schema) => format!(
            "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'refused by a trigger'; END $$; \
             CREATE TRIGGER refuse BEFORE DELETE ON {schema}.ready FOR EACH ROW WHEN (OLD.id = {id}) \
             EXECUTE FUNCTION {schema}.refuse()"
        ),
        Place::Mysql(_) => format!(
            "CREATE TRIGGER refuse BEFORE DELETE ON backstop_ready FOR EACH ROW BEGIN IF OLD.id = {id} THEN \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused by a trigger'; END IF; END"
        ),
    }
}

/// Takes the trigger away.
async fn refuse_no_more(place: &Place) {
    let mended = match place {
        Place::Postgres(schema) => format!("DROP TRIGGER refuse ON {schema}.ready"),
        _ => "DROP TRIGGER refuse".to_owned(),
    };
    place.sql(&mended).await;
}

#[tokio::test]
async fn an_expiry_that_the_database_refuses_stops_no_other() {
    // C7, F17, L19: neither those that expire beside it nor those of its lane that are due.
    for place in Place::all("refused").await {
        let (name, engine) = (place.name(), place.open(Config::default()).await);
        let now = engine.store().now().await.expect("a clock");
        let node = backstop::worker_id();
        let mut late = Vec::new();
        for _ in 0..9 {
            let job = engine.enqueue(work("late")).expires_at(now);
            late.push(job.submit().await.expect("admitted").id);
        }
        let sound = engine.enqueue(work("well")).submit().await.expect("admitted").id;
        let stuck = late[4];
        place.sql(&refuse_to_end(&place, stuck)).await;
        let app = Arc::new(App::default());
        drain(&engine, &app).await;
        assert_eq!(detail(&engine, sound).await.view.record.state, State::Succeeded, "{name}: behind it");
        assert_eq!(app.starts.load(Ordering::SeqCst), 1, "{name}: none of those that are late");
        engine.maintain(node, Duration::from_secs(30)).await.expect("every duty goes on");
        for id in &late {
            let expected = if *id == stuck { State::Pending } else { State::Failed };
            assert_eq!(detail(&engine, *id).await.view.record.state, expected, "{name}");
        }
        refuse_no_more(&place).await;
        engine.maintain(node, Duration::from_secs(30)).await.expect("every duty goes on");
        assert_eq!(detail(&engine, stuck).await.view.record.state, State::Failed, "{name}: once it is fixed");
        place.done().await;
    }
}

/// SQL after which the database refuses to make a job pending; none where the turn passes on in one transaction with
/// whatever made room.
fn refuse_the_turn(place: &Place, id: JobId) -> Option<String> {
    let id = place.id(id);
    match place {
        Place::Sqlite(_) => None,
        Place::Postgres(schema) => Some(format!(
            "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'refused by a trigger'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON {schema}.ready FOR EACH ROW WHEN (NEW.id = {id}) \
             EXECUTE FUNCTION {schema}.refuse()"
        )),
        Place::Mysql(_) => Some(format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON backstop_ready FOR EACH ROW BEGIN IF NEW.id = {id} THEN \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused by a trigger'; END IF; END"
        )),
    }
}

#[tokio::test]
async fn a_line_that_the_database_refuses_to_move_on_stops_no_other() {
    // C7, L21
    for place in Place::all("lines").await {
        let (name, engine) = (place.name(), place.open(Config::default()).await);
        let mut jobs = Vec::new();
        for key in ["a", "b", "c", "a", "b", "c"] {
            let job = engine.enqueue(work("well")).ordering_key(key);
            jobs.push(job.submit().await.expect("admitted").id);
        }
        let Some(refuse) = refuse_the_turn(&place, jobs[3]) else {
            place.done().await;
            continue;
        };
        place.sql(&refuse).await;
        let app = Arc::new(App::default());
        drain(&engine, &app).await;
        for (place_in_list, id) in jobs.iter().enumerate() {
            let expected = if place_in_list == 3 { State::Waiting } else { State::Succeeded };
            assert_eq!(detail(&engine, *id).await.view.record.state, expected, "{name}: {place_in_list}");
        }
        refuse_no_more(&place).await;
        engine.maintain(backstop::worker_id(), Duration::from_secs(30)).await.expect("every duty goes on");
        drain(&engine, &app).await;
        assert_eq!(
            detail(&engine, jobs[3]).await.view.record.state,
            State::Succeeded,
            "{name}: once it is fixed"
        );
        place.done().await;
    }
}

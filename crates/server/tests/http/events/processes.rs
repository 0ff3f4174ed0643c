//! Streams of several processes on one store: one order for all of them, and ids that every one of them knows (V2).

use backstop::Backstop;
use backstop_server::ServerSettings;
use backstop_store::{DocumentRange, Drawer};
use backstop_testbed::Folder;
use serde_json::json;

use super::reader::{Reader, Told};
use crate::harness::Harness;

const EVENTS: &str = "/api/v1/events";

/// A store in a file that processes open one after the other, or together.
struct Place {
    url: String,
    _folder: Folder,
}

impl Place {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name).expect("a folder");
        Self { url: format!("sqlite:{}", folder.join("jobs.db").display()), _folder: folder }
    }

    async fn engine(&self) -> Backstop {
        Backstop::open(&self.url).await.expect("a store")
    }

    async fn server(&self) -> Harness {
        Harness::of(self.engine().await, ServerSettings::default())
    }
}

async fn submit(engine: &Backstop, count: usize) {
    for _ in 0..count {
        engine.enqueue_raw("mail", "{}").submit().await.expect("stored");
    }
}

fn numbers(told: &[Told]) -> Vec<u64> {
    assert!(told.iter().all(|told| told.name == "enqueued"), "{told:?}");
    told.iter().map(|told| told.id.split_once('-').expect("an id").1.parse().expect("a number")).collect()
}

#[tokio::test]
async fn a_reader_that_moves_between_servers_sees_each_event_once_and_in_order() {
    // V2
    let place = Place::new("streams-move");
    let (one, other) = (place.server().await, place.server().await);
    let mut whole = Reader::open(&one, EVENTS, None, None).await;
    // From here on the other one writes what streams are told too.
    drop(Reader::open(&other, EVENTS, None, None).await);
    let mut mover = Reader::open(&one, EVENTS, None, None).await;
    let mut seen = Vec::new();
    for round in 0..4 {
        let (here, there) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        submit(here.engine(), 2).await;
        submit(there.engine(), 3).await;
        seen.extend(mover.take(3).await);
        let id = &seen.last().expect("some").id;
        mover = Reader::open(there, EVENTS, Some(id), None).await;
    }
    seen.extend(mover.take(8).await);
    assert_eq!(numbers(&seen), (1..=20).collect::<Vec<_>>());
    assert_eq!(seen, whole.take(20).await, "one order for all");
    let mut jobs: Vec<&str> = seen.iter().filter_map(|told| told.data["job_id"].as_str()).collect();
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), 20, "each event once");
    assert!(seen.iter().all(|told| told.data["node"].is_string()), "{seen:?}");
}

#[tokio::test]
async fn a_reader_goes_on_without_a_hole_when_its_server_was_restarted() {
    // V2
    let place = Place::new("streams-restart");
    let first = place.server().await;
    let mut reader = Reader::open(&first, EVENTS, None, None).await;
    submit(first.engine(), 3).await;
    let id = reader.take(2).await[1].id.clone();
    drop(reader);
    drop(first);
    // Meanwhile a program that only submits goes on.
    submit(&place.engine().await, 4).await;
    let second = place.server().await;
    submit(second.engine(), 1).await;
    let mut again = Reader::open(&second, EVENTS, Some(&id), None).await;
    assert_eq!(numbers(&again.take(6).await), [3, 4, 5, 6, 7, 8]);
    // And one that has seen nothing begins where it comes.
    let mut fresh = Reader::open(&second, EVENTS, None, None).await;
    submit(second.engine(), 1).await;
    assert_eq!(numbers(&fresh.take(1).await), [9]);
    assert_eq!(numbers(&again.take(1).await), [9]);
}

#[tokio::test]
async fn what_a_server_cannot_have_any_more_is_told_with_its_number() {
    // V2
    let place = Place::new("streams-gap");
    let first = place.server().await;
    let mut reader = Reader::open(&first, EVENTS, None, None).await;
    submit(first.engine(), 30).await;
    let told = reader.take(30).await;
    drop((reader, first));
    // It keeps fewer than the log has, so it reads no more of them.
    let mut settings = ServerSettings::default();
    settings.reporting.kept_events = 10;
    let second = Harness::of(place.engine().await, settings);
    let mut again = Reader::open(&second, EVENTS, Some(&told[4].id), None).await;
    let gap = again.next().await.expect("it goes on");
    assert_eq!((gap.name.as_str(), &gap.data["reason"]), ("gap", &json!("too_old")));
    assert_eq!((&gap.data["missed"], &gap.id), (&json!(15), &told[19].id));
    assert_eq!(numbers(&again.take(10).await), (21..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn many_streams_write_no_more_than_one_and_none_writes_nothing() {
    // V2
    let harness = Harness::new().await;
    let documents = async |drawer| {
        let range = DocumentRange::first(drawer, 1_000);
        harness.engine().store().documents(range).await.expect("read").items.len()
    };
    submit(harness.engine(), 5).await;
    for drawer in [Drawer::Outbox, Drawer::EventLog, Drawer::Sinks] {
        assert_eq!(documents(drawer).await, 0, "{drawer}");
    }
    let mut readers = Vec::new();
    for _ in 0..50 {
        readers.push(Reader::open(&harness, EVENTS, None, None).await);
    }
    submit(harness.engine(), 1).await;
    for reader in &mut readers {
        assert_eq!(numbers(&reader.take(1).await), [1]);
    }
    // One document of events, how far the log is, and that somebody listens.
    assert_eq!((documents(Drawer::Outbox).await, documents(Drawer::EventLog).await), (0, 3));
}

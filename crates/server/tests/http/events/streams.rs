//! Streams: in order, resumed without a gap or a repeat, and honest about what is missing (V2).

use backstop::Config;
use backstop_server::ServerSettings;
use serde_json::json;

use super::reader::Reader;
use crate::harness::Harness;

const EVENTS: &str = "/api/v1/events";

async fn submit(harness: &Harness, count: usize) {
    for at in 0..count {
        harness.engine().enqueue_raw("mail", format!("{{\"at\":{at}}}")).submit().await.unwrap();
    }
}

async fn small(kept_events: usize) -> Harness {
    let mut settings = ServerSettings::default();
    settings.reporting.kept_events = kept_events;
    Harness::with(Config::default(), settings).await
}

fn seq(id: &str) -> u64 {
    id.split_once('-').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    // V2
    let harness = Harness::new().await;
    let mut first = Reader::open(&harness, EVENTS, None, None).await;
    submit(&harness, 5).await;
    let seen = first.take(3).await;
    assert!(seen.iter().all(|told| told.name == "enqueued" && told.data["kind"] == "mail"), "{seen:?}");
    drop(first);
    submit(&harness, 3).await;
    for by_header in [true, false] {
        let id = &seen[2].id;
        let path = if by_header { EVENTS.to_owned() } else { format!("{EVENTS}?after={id}") };
        let mut again = Reader::open(&harness, &path, by_header.then_some(id.as_str()), None).await;
        let numbers: Vec<u64> = again.take(5).await.iter().map(|told| seq(&told.id)).collect();
        assert_eq!(numbers, [4, 5, 6, 7, 8]);
    }
}

#[tokio::test]
async fn a_reader_that_left_before_its_first_event_knows_where_it_was() {
    // V2
    let harness = Harness::new().await;
    let mut first = Reader::open(&harness, EVENTS, None, None).await;
    first.read().await.unwrap();
    let id = first.last_id.clone();
    drop(first);
    submit(&harness, 2).await;
    let mut again = Reader::open(&harness, EVENTS, Some(&id), None).await;
    let told = again.take(2).await;
    assert!(told.iter().all(|told| told.name == "enqueued"), "{told:?}");
}

#[tokio::test]
async fn ids_that_mean_nothing_here_are_answered_with_a_gap_first() {
    // V2
    let harness = Harness::new().await;
    let mut first = Reader::open(&harness, EVENTS, None, None).await;
    submit(&harness, 2).await;
    let here = first.take(2).await[1].id.clone();
    let ahead = format!("{}-99", here.split_once('-').unwrap().0);
    for (id, reason, follow) in [
        ("0123456789abcdef-7", "other_epoch", 2),
        ("no id at all", "unknown_id", 2),
        (ahead.as_str(), "unknown_id", 0),
    ] {
        let mut reader = Reader::open(&harness, EVENTS, Some(id), None).await;
        let gap = reader.next().await.unwrap();
        assert_eq!(gap.name, "gap");
        assert_eq!((&gap.data["reason"], &gap.data["after"]), (&json!(reason), &json!(id)));
        assert_eq!(gap.data["resumes_after"], gap.id);
        let told = reader.take(follow).await;
        assert!(told.iter().all(|told| told.name == "enqueued"), "what is known follows: {told:?}");
    }
}

#[tokio::test]
async fn an_id_that_is_too_old_and_a_reader_that_is_too_slow_are_told_how_much_is_missing() {
    // V2
    let harness = small(10).await;
    let mut slow = Reader::open(&harness, EVENTS, None, None).await;
    let mut first = Reader::open(&harness, EVENTS, None, None).await;
    submit(&harness, 1).await;
    let id = first.next().await.unwrap().id;
    // A reader that does not read holds nobody up.
    for _ in 0..29 {
        submit(&harness, 1).await;
        first.next().await.unwrap();
    }
    let mut again = Reader::open(&harness, EVENTS, Some(&id), None).await;
    let gap = again.next().await.unwrap();
    assert_eq!((gap.name.as_str(), &gap.data["reason"]), ("gap", &json!("too_old")));
    assert_eq!(gap.data["missed"], 19);
    let numbers: Vec<u64> = again.take(10).await.iter().map(|told| seq(&told.id)).collect();
    assert_eq!(numbers, (21..=30).collect::<Vec<_>>());
    let gap = slow.next().await.unwrap();
    assert_eq!((gap.name.as_str(), &gap.data["reason"]), ("gap", &json!("too_fast")));
    assert_eq!(gap.data["missed"], 20);
    assert_eq!(slow.take(10).await.len(), 10);
}

#[tokio::test]
async fn filters_let_through_what_was_asked_for() {
    // V2
    let harness = Harness::new().await;
    let engine = harness.engine();
    let job = engine.enqueue_raw("mail", "{}").submit().await.unwrap().id;
    let of_job = format!("{EVENTS}?job={job}");
    let mut readers = Vec::new();
    let paths = [
        "/api/v1/events?event=canceled,paused",
        "/api/v1/events?queue=slow",
        "/api/v1/events?kind=report,invoice",
        &of_job,
    ];
    for path in paths {
        readers.push(Reader::open(&harness, path, None, None).await);
    }
    engine.enqueue_raw("mail", "{}").queue("slow").submit().await.unwrap();
    engine.enqueue_raw("report", "{}").submit().await.unwrap();
    engine.cancel(job, "no more").await.unwrap();
    for (reader, expected) in readers.iter_mut().zip(["canceled", "enqueued", "enqueued", "canceled"]) {
        assert_eq!(reader.next().await.unwrap().name, expected);
    }
}

#[tokio::test]
async fn a_filter_that_is_none_is_refused_in_the_one_shape() {
    let harness = Harness::new().await;
    let long = format!("kind={}", vec!["a"; 101].join(","));
    for query in ["event=deadd", "job=7", "queue=", "kind=a,,b", "sort=up", &long] {
        let answer = harness.get(&format!("{EVENTS}?{query}")).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (422, "invalid"), "{query}");
    }
}

#[tokio::test]
async fn streams_are_bounded_and_a_place_is_given_back() {
    let mut settings = ServerSettings::default();
    settings.limits.streams = 2;
    let harness = Harness::with(Config::default(), settings).await;
    let first = Reader::open(&harness, EVENTS, None, None).await;
    let _second = Reader::open(&harness, EVENTS, None, None).await;
    let refused = harness.get(EVENTS).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "busy"));
    assert_eq!(refused.headers["retry-after"], "1");
    drop(first);
    Reader::open(&harness, EVENTS, None, None).await;
}

#[tokio::test(start_paused = true)]
async fn silence_is_filled_with_signs_of_life_that_keep_the_place() {
    // V2
    let harness = Harness::new().await;
    let mut reader = Reader::open(&harness, "/api/v1/events?event=dead", None, None).await;
    let began = tokio::time::Instant::now();
    submit(&harness, 3).await;
    reader.read().await.unwrap();
    while reader.comments < 2 {
        reader.read().await.unwrap();
    }
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(seq(&reader.last_id), 3, "what the filter held back is seen all the same");
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let harness = Harness::new().await;
    let mut reader = Reader::open(&harness, EVENTS, None, None).await;
    reader.read().await.unwrap();
    let (told, ()) = tokio::join!(reader.next(), async { harness.api.close_streams() });
    assert_eq!(told, None);
}

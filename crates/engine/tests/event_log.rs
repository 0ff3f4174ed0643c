//! The event log, from the transition to whoever reads behind a number, on every store (V2).
#![allow(missing_docs, reason = "a test")]

mod stores;

use std::sync::Arc;
use std::time::Duration;

use backstop::{Backstop, Config, EventLog, EventLogEntry, EventLogLimits, EventLogPosition, Timestamp};
use backstop_core::WorkerId;
use backstop_core::outbox::{OutboxKey, STREAM_SINK};
use backstop_store::{
    Amend, Amended, Answer, DocumentRange, Drawer, Edit, Expect, Layer, ManualClock, ModelStore, Store,
};

struct Stage {
    engine: Backstop,
    log: EventLog,
}

impl Stage {
    fn new(store: &Arc<dyn Store>, limits: EventLogLimits) -> Self {
        let engine = Backstop::on(store.clone(), Config::default().event_log(limits));
        Self { log: engine.event_log(), engine }
    }

    async fn submit(&self) -> String {
        self.engine.enqueue_raw("mail", "{}").submit().await.expect("stored").id.to_string()
    }

    async fn listen(&self) -> EventLogPosition {
        self.log.listen().await.expect("the store is there")
    }

    async fn relay(&self) {
        while self.log.relay().await.expect("the store is there") {}
    }

    async fn maintain(&self) {
        let (node, term) = (WorkerId::from_u128(9), Duration::from_secs(60));
        self.engine.maintain(node, term).await.expect("the store is there");
    }

    /// All that the log has behind a number.
    async fn after(&self, position: &EventLogPosition, mut seq: u64) -> Vec<EventLogEntry> {
        let mut all = Vec::new();
        loop {
            let page = self.log.after(&position.epoch, seq).await.expect("the store is there");
            seq = page.entries.last().map_or(seq, EventLogEntry::last);
            all.extend(page.entries);
            if !page.more {
                return all;
            }
        }
    }

    async fn documents(&self, drawer: Drawer) -> usize {
        let range = DocumentRange::first(drawer, 1_000);
        self.engine.store().documents(range).await.expect("read").items.len()
    }

    async fn written(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for (count, drawer) in counts.iter_mut().zip([Drawer::Outbox, Drawer::EventLog, Drawer::Sinks]) {
            *count = self.documents(drawer).await;
        }
        counts
    }

    /// Leaves the store as it was.
    async fn end(self) {
        let range = DocumentRange::first(Drawer::EventLog, 1_000);
        let found = self.engine.store().documents(range).await.expect("read").items;
        let gone = found.into_iter().map(|document| edit(Drawer::EventLog, document.key, None));
        self.engine
            .store()
            .amend(Amend { edits: gone.collect(), ..Amend::default() })
            .await
            .expect("removed");
        self.engine.sinks().remove(STREAM_SINK).await.expect("removed");
        assert_eq!(self.written().await, [0; 3]);
    }
}

fn edit(drawer: Drawer, key: String, body: Option<&str>) -> Edit {
    Edit { drawer, key, expect: Expect::Any, body: body.map(Into::into) }
}

/// Numbers, and `-n` with how many they are for what is lost up to n.
fn numbers(entries: &[EventLogEntry]) -> Vec<(i64, u64)> {
    let number = |entry: &EventLogEntry| match entry {
        EventLogEntry::Told(event) => (i64::try_from(event.seq).expect("small"), 1),
        EventLogEntry::Lost { last, count } => (-i64::try_from(*last).expect("small"), *count),
    };
    entries.iter().map(number).collect()
}

/// V2: whoever moves events into the log, and however many do at once, each has one number and none is left out.
async fn every_event_has_one_number(store: &Arc<dyn Store>) {
    let (one, other) =
        (Stage::new(store, EventLogLimits::default()), Stage::new(store, EventLogLimits::default()));
    let begin = one.listen().await;
    assert_eq!(other.listen().await, begin, "the same log, and nothing is in it");
    let mut jobs = Vec::new();
    for round in 0..20 {
        jobs.push(if round % 2 == 0 { one.submit().await } else { other.submit().await });
        let (here, there) = tokio::join!(one.log.relay(), other.log.relay());
        here.and(there).expect("the store is there");
    }
    one.relay().await;
    let all = one.after(&begin, 0).await;
    assert_eq!(numbers(&all), (1..=20).map(|number| (number, 1)).collect::<Vec<_>>());
    let told = all.iter().map(|entry| match entry {
        EventLogEntry::Told(event) => (event.name.as_str(), event.job.expect("a job").to_string()),
        EventLogEntry::Lost { .. } => panic!("{entry:?}"),
    });
    let expected = jobs.into_iter().map(|job| ("enqueued", job));
    assert_eq!(told.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "in the order of commits");
    assert_eq!(other.after(&begin, 13).await, all[13..]);
    assert_eq!(one.documents(Drawer::Outbox).await, 0);
    one.end().await;
}

/// V2: the log is bounded by events and by bytes, the oldest go, and what is there begins with its number.
async fn the_log_is_bounded(store: &Arc<dyn Store>) {
    let few = Stage::new(store, EventLogLimits::default().events(10));
    let begin = few.listen().await;
    for _ in 0..25 {
        few.submit().await;
        few.relay().await;
    }
    let expected: Vec<_> = (16..=25).map(|number| (number, 1)).collect();
    assert_eq!(numbers(&few.after(&begin, 3).await), expected, "a reader at 3 has missed 12 events");
    assert_eq!(few.documents(Drawer::EventLog).await, 12, "ten, and two of the log itself");
    few.end().await;
    let small = Stage::new(store, EventLogLimits::default().bytes(4_000));
    let begin = small.listen().await;
    for _ in 0..25 {
        small.submit().await;
        small.relay().await;
    }
    let kept = numbers(&small.after(&begin, 0).await);
    assert!((2..20).contains(&kept.len()) && kept.last() == Some(&(25, 1)), "{kept:?}");
    let range = DocumentRange::first(Drawer::EventLog, 100).under("events/");
    let found = store.documents(range).await.expect("read").items;
    assert!(found.iter().map(|document| document.body.len()).sum::<usize>() <= 4_000);
    small.end().await;
}

/// V2: what streams were refused, because too much waited, has numbers too: readers are told how many events it was.
async fn what_was_refused_is_counted_with_the_rest(store: &Arc<dyn Store>) {
    let stage = Stage::new(store, EventLogLimits::default());
    let begin = stage.listen().await;
    stage.submit().await;
    let stamp = i64::MAX / 2;
    let note = OutboxKey { sink: STREAM_SINK.into(), stamp, messages: 7, bytes: 0 }.text("x");
    let edits = vec![edit(Drawer::OutboxRefused, note, Some("1"))];
    store.amend(Amend { edits, ..Amend::default() }).await.expect("planted");
    // What nobody can read is lost, and holds up nothing.
    let waiting = OutboxKey { sink: STREAM_SINK.into(), stamp, messages: 2, bytes: 3 }.text("y");
    let edits = vec![edit(Drawer::Outbox, waiting, Some("{\"messages\":\n7}"))];
    store.amend(Amend { edits, ..Amend::default() }).await.expect("planted");
    stage.maintain().await;
    stage.submit().await;
    stage.relay().await;
    let all = stage.after(&begin, 0).await;
    assert_eq!(numbers(&all), [(1, 1), (-3, 2), (-10, 7), (11, 1)]);
    assert_eq!(stage.documents(Drawer::OutboxRefused).await, 0);
    stage.end().await;
}

/// V2, C7: documents that are none of the log hold up none behind them, however many they are.
async fn what_is_no_document_of_the_log_is_passed_over(store: &Arc<dyn Store>) {
    let stage = Stage::new(store, EventLogLimits::default());
    let begin = stage.listen().await;
    stage.submit().await;
    stage.submit().await;
    stage.relay().await;
    let strange = |number: u32| format!("events/{}/{:020}x{number}", begin.epoch, 1);
    let edits = (0..9).map(|number| edit(Drawer::EventLog, strange(number), Some("7"))).collect();
    store.amend(Amend { edits, ..Amend::default() }).await.expect("planted");
    let page = stage.log.after(&begin.epoch, 0).await.expect("the store is there");
    assert_eq!((numbers(&page.entries), page.more), (vec![(1, 1), (2, 1)], false));
    stage.end().await;
}

/// V2, C7: a log whose head is damaged is another log from then on, and its events have numbers again.
async fn a_damaged_head_begins_another_log(store: &Arc<dyn Store>) {
    let stage = Stage::new(store, EventLogLimits::default());
    let begin = stage.listen().await;
    let most = u64::MAX;
    for body in
        [format!(r#"{{"epoch":"{}","before":0,"last":{most},"bytes":0}}"#, begin.epoch), "no JSON".to_owned()]
    {
        let edits = vec![edit(Drawer::EventLog, "head".to_owned(), Some(&body))];
        store.amend(Amend { edits, ..Amend::default() }).await.expect("planted");
        stage.submit().await;
        stage.relay().await;
        stage.maintain().await;
        let next = stage.listen().await;
        assert!(next.epoch != begin.epoch && next.last == 0, "{next:?}");
        stage.relay().await;
        assert_eq!(numbers(&stage.after(&next, 0).await), [(1, 1)], "what waited is not lost");
    }
    stage.end().await;
}

async fn everything(store: Arc<dyn Store>) {
    every_event_has_one_number(&store).await;
    the_log_is_bounded(&store).await;
    what_was_refused_is_counted_with_the_rest(&store).await;
    what_is_no_document_of_the_log_is_passed_over(&store).await;
    a_damaged_head_begins_another_log(&store).await;
}

#[tokio::test]
async fn in_memory() {
    // V2
    stores::in_memory(everything).await;
}

#[tokio::test]
async fn on_sqlite() {
    // V2
    stores::on_sqlite("event-log", everything).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // V2
    stores::on_postgres("event_log", everything).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // V2
    stores::on_mysql("event_log", everything).await;
}

fn by_hand(limits: EventLogLimits) -> (ManualClock, Stage) {
    let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
    let store: Arc<dyn Store> = Arc::new(ModelStore::new(Arc::new(clock.clone())));
    (clock, Stage::new(&store, limits))
}

#[tokio::test]
async fn nothing_is_written_until_somebody_listens_nor_long_after() {
    // V2
    let (clock, stage) = by_hand(EventLogLimits::default());
    stage.submit().await;
    stage.maintain().await;
    assert_eq!(stage.written().await, [0; 3], "nobody ever listened");
    let first = stage.listen().await;
    stage.submit().await;
    stage.maintain().await;
    assert_eq!(stage.written().await, [0, 3, 1], "an event, and two documents of the log itself");
    // Whoever listens says so while it does.
    for _ in 0..10 {
        clock.advance(Duration::from_secs(60));
        assert_eq!(stage.listen().await.epoch, first.epoch);
        stage.maintain().await;
    }
    clock.advance(Duration::from_secs(6 * 60));
    stage.submit().await;
    stage.maintain().await;
    assert_eq!(numbers(&stage.after(&first, 1).await), [(2, 1)], "it is on for those who come back");
    clock.advance(Duration::from_secs(2 * 60));
    stage.submit().await;
    stage.maintain().await;
    stage.submit().await;
    stage.maintain().await;
    clock.advance(Duration::from_secs(61));
    stage.maintain().await;
    assert_eq!(stage.written().await, [0; 3], "it is off, and nothing is left");
    let second = stage.listen().await;
    assert!(second.epoch != first.epoch && second.last == 0, "another log: {second:?}");
    assert!(stage.after(&first, 0).await.is_empty());
}

#[tokio::test]
async fn events_go_when_they_are_too_old_and_their_numbers_are_not_given_again() {
    // V2
    let (clock, stage) = by_hand(EventLogLimits::default().keep(Duration::from_secs(30)));
    let begin = stage.listen().await;
    stage.submit().await;
    stage.maintain().await;
    clock.advance(Duration::from_secs(20));
    stage.submit().await;
    stage.maintain().await;
    assert_eq!(numbers(&stage.after(&begin, 0).await), [(1, 1), (2, 1)]);
    clock.advance(Duration::from_secs(20));
    stage.maintain().await;
    assert_eq!(numbers(&stage.after(&begin, 0).await), [(2, 1)]);
    clock.advance(Duration::from_secs(20));
    stage.maintain().await;
    assert!(stage.after(&begin, 0).await.is_empty());
    stage.submit().await;
    stage.relay().await;
    assert_eq!(numbers(&stage.after(&begin, 0).await), [(3, 1)]);
}

/// A store in which somebody else listens anew right when the log has been switched off, and writes an event for it.
struct SwitchedOnAgain {
    below: Arc<dyn Store>,
    key: String,
}

impl Layer for SwitchedOnAgain {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        Box::pin(async move {
            let ends = amend.edits.iter().any(|edit| edit.key == "head" && edit.body.is_none());
            let amended = self.below.amend(amend).await?;
            if ends {
                let edits = vec![edit(Drawer::Outbox, self.key.clone(), Some("{\"messages\":[]}"))];
                self.below.amend(Amend { edits, ..Amend::default() }).await?;
            }
            Ok(amended)
        })
    }
}

#[tokio::test]
async fn what_is_written_for_the_next_log_is_not_removed_with_the_last_one() {
    // V2
    let start = Timestamp::from_micros(1_700_000_000_000_000);
    let clock = ManualClock::at(start);
    let span = Duration::from_secs(8 * 60);
    let written = start.after(span + Duration::from_secs(1));
    let stamp = written.as_micros() - Timestamp::MIN.as_micros();
    let key = OutboxKey { sink: STREAM_SINK.into(), stamp, messages: 1, bytes: 15 }.text("x");
    let below: Arc<dyn Store> = Arc::new(ModelStore::new(Arc::new(clock.clone())));
    let store: Arc<dyn Store> = Arc::new(SwitchedOnAgain { below, key });
    let stage = Stage::new(&store, EventLogLimits::default());
    stage.listen().await;
    clock.advance(span);
    stage.maintain().await;
    assert_eq!(stage.written().await, [1, 0, 0], "the log is off, and the event of the next one waits");
}

//! Keeps outboxes within their limits, and counts what was refused (B2). Whoever leads the counts does it, and keeps
//! what it counted where so much waits that nobody should count it again.

use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::outbox::{OutboxKey, Sink, SinkSort};
use backstop_store::{DocumentRange, Drawer, Edit, Error as StoreError, Expect, OutboxBacklog, WorkStore};

use super::stored::{
    Part, SinkBacklog, SinkDocuments, SinkLimits, SinkState, StoredSink, TOGETHER, edit, remove_with, waiting,
};
use crate::loops::LoopHeartbeat;

/// Percent of a limit below which a full sink takes messages again: one that is full and not full by turns would lose
/// messages here and there, which is harder to make good than one gap.
const REFILL_PERCENT: u64 = 90;

/// Notes of what was refused that are counted and removed together, and how often in a row. They are small.
const REFUSED_TOGETHER: usize = 1_000;
const REFUSED_ROUNDS: usize = 50;

/// How old messages are of which it is known whether their sink is there.
const SETTLED: Duration = Duration::from_secs(60);

/// Rounds of removing in a row, so that nobody else has to wait for long.
const ROUNDS: usize = 500;

/// Documents above which a backlog is large: counting reads the key of each.
const LARGE: u64 = 10_000;

/// Documents of a large hand-off that are counted per second, taken over the time: its backlog has no limit, so nobody
/// waits to hear that it is full.
const COUNTED_PER_SECOND: u64 = 20_000;

/// How long a large backlog is not counted at most.
const SELDOM: Duration = Duration::from_secs(60);

/// How long what was counted stands for those who look. Longer than [`SELDOM`]: it runs out only when nobody leads.
const STANDS: Duration = Duration::from_secs(90);

/// Measures every sink, counts what was refused, and writes which are full. Answers whether anything is news.
pub(crate) async fn look(
    store: &dyn WorkStore,
    found: &SinkDocuments,
    heartbeat: Option<&LoopHeartbeat>,
) -> Result<bool, StoreError> {
    let mut news = false;
    for StoredSink { sink, limits, target } in found.sinks() {
        if let Some(heartbeat) = heartbeat {
            heartbeat.record();
        }
        let before = found.state(&sink.name);
        let counted = before.large.filter(|_| target.is_some());
        if counted.zip(found.now).is_some_and(|(large, now)| !large.is_due(now)) {
            continue;
        }
        let backlog = store.outbox_backlog(&sink.name).await?;
        let is_full = full(before.full_since.is_some(), limits, [backlog.documents, backlog.bytes]);
        let full_since = is_full.then(|| before.full_since.unwrap_or(backlog.now));
        if before.full_since.is_none() && is_full {
            tracing::error!(sink = %sink.name, documents = backlog.documents, bytes = backlog.bytes,
                "too much waits for a sink: what comes now is refused and counted until less does");
        }
        let large = (backlog.documents > LARGE).then(|| SinkBacklog::of(&backlog));
        let state = SinkState { full_since, large, ..before.clone() };
        let expect = found.expect(Part::State, &sink.name);
        let after = keep(store, sink, (&before, expect), state, backlog.now).await?;
        news |= (after.full_since, after.refused) != (before.full_since, before.refused);
    }
    Ok(news)
}

/// Writes how a sink stands, unless it stands as before, and counts what it was refused: all of it, for while a sink is
/// full every commit may leave a note.
async fn keep(
    store: &dyn WorkStore,
    sink: &Sink,
    (before, mut expect): (&SinkState, Expect),
    mut state: SinkState,
    now: Timestamp,
) -> Result<SinkState, StoreError> {
    for round in 0..REFUSED_ROUNDS {
        // What streams were refused is told to them, and counted with that.
        let (refused, keys) = match sink.sort() {
            SinkSort::Streams => (0, Vec::new()),
            SinkSort::Named | SinkSort::Webhook => refused(store, &sink.name).await?,
        };
        if keys.is_empty() && (round > 0 || state == *before) {
            break;
        }
        if refused > 0 {
            state.refused = state.refused.saturating_add(refused);
            state.refused_at = Some(now);
        }
        let more = keys.len() >= REFUSED_TOGETHER;
        let written = edit(Part::State, &sink.name, expect, Some(&state));
        // Somebody else who was faster has counted the same; the next look sees what is left.
        if !remove_with(store, Drawer::OutboxRefused, keys, vec![written]).await? || !more {
            break;
        }
        expect = match expect {
            Expect::Revision(revision) => Expect::Revision(revision + 1),
            Expect::Any | Expect::Absent => Expect::Revision(1),
        };
    }
    Ok(state)
}

/// What waits for a sink, for whoever looks. What is large is as whoever leads the counts has counted it; only whether
/// anything waits, and since when, is read.
pub(crate) async fn backlog(
    store: &dyn WorkStore,
    found: &SinkDocuments,
    sink: &str,
) -> Result<OutboxBacklog, StoreError> {
    let large = found.state(sink).large;
    let Some(large) = large.filter(|large| found.now.is_some_and(|now| large.stands(now))) else {
        return store.outbox_backlog(sink).await;
    };
    let first = store.documents(waiting(Drawer::Outbox, sink, 1)).await?;
    let Some(document) = first.items.first() else { return Ok(OutboxBacklog::empty(first.now)) };
    let SinkBacklog { documents, messages, bytes, .. } = large;
    let oldest = OutboxKey::read(&document.key).map(|key| key.at());
    Ok(OutboxBacklog { now: first.now, documents, messages, bytes, oldest })
}

impl SinkBacklog {
    const fn of(backlog: &OutboxBacklog) -> Self {
        let OutboxBacklog { now: at, documents, messages, bytes, .. } = *backlog;
        Self { at, documents, messages, bytes }
    }

    /// True when it is time to count it again. A clock that went back is no reason to wait.
    fn is_due(&self, now: Timestamp) -> bool {
        let wait = Duration::from_secs(self.documents / COUNTED_PER_SECOND).min(SELDOM);
        now < self.at || now.since(self.at) >= wait
    }

    /// True while it is young enough for those who look.
    fn stands(&self, now: Timestamp) -> bool {
        now >= self.at && now.since(self.at) <= STANDS
    }
}

/// Whether a sink is full: at its limit, and until enough is gone.
fn full(was_full: bool, limits: &SinkLimits, [documents, bytes]: [u64; 2]) -> bool {
    let over = |actual: u64, limit: u64| {
        let bound =
            if was_full { limit / 100 * REFILL_PERCENT + limit % 100 * REFILL_PERCENT / 100 } else { limit };
        actual >= bound.max(1)
    };
    over(documents, limits.documents) || over(bytes, limits.bytes)
}

/// How many messages were refused that nobody has counted, and where that is written.
async fn refused(store: &dyn WorkStore, sink: &str) -> Result<(u64, Vec<String>), StoreError> {
    let found = store.documents(waiting(Drawer::OutboxRefused, sink, REFUSED_TOGETHER)).await?.items;
    let messages = |key: &str| OutboxKey::read(key).map_or(0, |key| key.messages);
    let count = found.iter().map(|document| messages(&document.key)).sum::<usize>();
    let keys = found.into_iter().map(|document| document.key).collect();
    Ok((u64::try_from(count).unwrap_or(u64::MAX), keys))
}

/// Removes what is kept for a sink and was written before that moment.
pub(crate) async fn clear(
    store: &dyn WorkStore,
    drawer: Drawer,
    sink: &str,
    before: Timestamp,
) -> Result<(), StoreError> {
    for _ in 0..ROUNDS {
        let found = store.documents(waiting(drawer, sink, TOGETHER)).await?;
        let old = |key: &String| OutboxKey::read(key).is_none_or(|key| key.at() < before);
        // In the order of time.
        let keys: Vec<String> =
            found.items.into_iter().map(|document| document.key).take_while(old).collect();
        if keys.is_empty() {
            break;
        }
        remove_with(store, drawer, keys, Vec::<Edit>::new()).await?;
    }
    Ok(())
}

/// Removes what is kept for sinks that are not there: a process may have left some before it heard that they are gone.
/// What is not old stays: the sink may be one that was set since the sinks were read.
pub(crate) async fn clear_unknown(store: &dyn WorkStore, found: &SinkDocuments) -> Result<(), StoreError> {
    let Some(before) = found.now.map(|now| now.before(SETTLED)) else { return Ok(()) };
    for drawer in [Drawer::Outbox, Drawer::OutboxRefused] {
        let mut range = DocumentRange::first(drawer, 1);
        while let Some(document) = store.documents(range.clone()).await?.items.pop() {
            let sink = document.key.split('/').next().unwrap_or_default().to_owned();
            if !found.sinks().any(|known| *known.sink.name == *sink) {
                clear(store, drawer, &sink, before).await?;
            }
            // Above every key of this sink.
            range = range.after(format!("{sink}/\u{10ffff}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_sink_takes_messages_again_when_enough_is_gone() {
        // B2
        let limits = SinkLimits { documents: 1_000, bytes: 50 };
        let table = [
            (false, [999, 49], false),
            (false, [1_000, 0], true),
            (false, [0, 50], true),
            (true, [999, 0], true),
            (true, [900, 0], true),
            (true, [899, 44], false),
            (true, [0, 45], true),
        ];
        for (was_full, sizes, expected) in table {
            assert_eq!(full(was_full, &limits, sizes), expected, "{was_full} {sizes:?}");
        }
        let nothing = SinkLimits { documents: 0, bytes: 0 };
        assert!(!full(true, &nothing, [0, 0]), "an empty outbox is never full");
    }

    #[test]
    fn the_more_waits_the_less_often_it_is_counted() {
        // B2
        let begin = Timestamp::from_micros(1_800_000_000_000_000);
        let after = |secs: u64| begin.after(Duration::from_secs(secs));
        for (documents, due) in [(10_001, 0), (200_000, 10), (2_000_000, 60), (10_000_000, 60)] {
            let large = SinkBacklog { at: begin, documents, messages: documents, bytes: 1 };
            assert!(large.is_due(after(due)), "{documents}");
            assert!(due == 0 || !large.is_due(after(due - 1)), "{documents}");
            assert!(large.stands(after(due)), "still valid until the next count: {documents}");
            assert!(!large.stands(after(91)), "too old, the leader is gone: {documents}");
            let back = begin.before(Duration::from_secs(1));
            assert!(large.is_due(back) && !large.stands(back), "the clock went back: {documents}");
        }
    }
}

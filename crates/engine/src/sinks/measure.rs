//! Keeps outboxes within their limits, and counts what was refused (B2). Whoever leads the counts does it.

use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::outbox::OutboxKey;
use backstop_store::{DocumentRange, Drawer, Edit, Error as StoreError, WorkStore};

use super::stored::{
    Part, SinkDocuments, SinkLimits, SinkState, StoredSink, TOGETHER, edit, remove_with, waiting,
};
use crate::loops::LoopHeartbeat;

/// Percent of a limit below which a full sink takes messages again: one that is full and not full by turns would lose
/// messages here and there, which is harder to make good than one gap.
const REFILL_PERCENT: u64 = 90;

/// How old messages are of which it is known whether their sink is there.
const SETTLED: Duration = Duration::from_secs(60);

/// Rounds of removing in a row, so that nobody else has to wait for long.
const ROUNDS: usize = 500;

/// Measures every sink, counts what was refused, and writes which are full. Answers whether anything is news.
pub(crate) async fn look(
    store: &dyn WorkStore,
    found: &SinkDocuments,
    heartbeat: Option<&LoopHeartbeat>,
) -> Result<bool, StoreError> {
    let mut news = false;
    for StoredSink { sink, limits, .. } in found.sinks() {
        if let Some(heartbeat) = heartbeat {
            heartbeat.record();
        }
        let backlog = store.outbox_backlog(&sink.name).await?;
        let before = found.state(&sink.name);
        let is_full = full(before.full_since.is_some(), limits, [backlog.documents, backlog.bytes]);
        let full_since = is_full.then(|| before.full_since.unwrap_or(backlog.now));
        let (refused, keys) = refused(store, &sink.name).await?;
        let after = SinkState {
            full_since,
            refused: before.refused.saturating_add(refused),
            refused_at: if refused > 0 { Some(backlog.now) } else { before.refused_at },
        };
        if after == before {
            continue;
        }
        if before.full_since.is_none() && is_full {
            tracing::error!(sink = %sink.name, documents = backlog.documents, bytes = backlog.bytes,
                "too much waits for a sink: what comes now is refused and counted until less does");
        }
        let state = edit(Part::State, &sink.name, found.expect(Part::State, &sink.name), Some(&after));
        // Somebody else who was faster has counted the same; the next look sees what is left.
        remove_with(store, Drawer::OutboxRefused, keys, vec![state]).await?;
        news = true;
    }
    Ok(news)
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
    let found = store.documents(waiting(Drawer::OutboxRefused, sink, TOGETHER)).await?.items;
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
}

//! The last events of the log, as this process has read them: what its streams are sent, and what a subscriber that was
//! away finds when it comes back.
//!
//! Owns the bounds of what is kept here; the numbers are those of the log. It must not know who listens: readers bring
//! the number they have seen.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use backstop::{EventLogEntry, LoggedEvent};
use serde_json::Value;

use super::frame;

/// What one event costs beside its written form: the event itself and its place.
const OVERHEAD: usize = 512;

/// An event with the bytes that every subscriber is sent.
pub(crate) struct NumberedEvent {
    /// What happened; its JSON is in the bytes.
    pub(crate) event: LoggedEvent,
    data_len: usize,
    /// As those see it who see all tenants.
    whole: Bytes,
    /// As its own tenant sees it; written when the first of them asks.
    local: OnceLock<Bytes>,
}

impl NumberedEvent {
    fn new(epoch: &str, mut event: LoggedEvent) -> Self {
        let data = std::mem::take(&mut event.data);
        let whole = frame::event(epoch, event.seq, &event.name, &data);
        Self { event, data_len: data.len(), whole, local: OnceLock::new() }
    }

    fn cost(&self) -> usize {
        self.whole.len() + OVERHEAD
    }

    /// The bytes for a subscriber; `tenant` is the one it belongs to.
    pub(crate) fn frame(&self, epoch: &str, tenant: Option<&str>) -> Bytes {
        match tenant {
            None => self.whole.clone(),
            // Only those of the event's own tenant come here, so there is one local form.
            Some(tenant) => {
                let write = || {
                    let shown: Value = serde_json::from_slice(&frame::data_of(&self.whole, self.data_len))
                        .unwrap_or_default();
                    let shown = frame::local_names(shown, tenant).to_string();
                    frame::event(epoch, self.event.seq, &self.event.name, &shown)
                };
                self.local.get_or_init(write).clone()
            }
        }
    }
}

/// One place of the ring.
enum Place {
    Told(Arc<NumberedEvent>),
    /// So many events before the next place were lost before they came here.
    Lost {
        seq: u64,
        count: u64,
    },
}

/// What a reader finds behind a number.
pub(crate) enum RingRead {
    /// Nothing yet.
    Nothing,
    /// An event.
    Told(Arc<NumberedEvent>),
    /// The numbers up to `through` are not to be had any more.
    Gone {
        /// The last one.
        through: u64,
    },
}

/// The ring. Numbers count from 1.
pub(crate) struct EventRing {
    /// Names the log: the numbers of another mean nothing here.
    pub(crate) epoch: Arc<str>,
    places: VecDeque<Place>,
    bytes: usize,
    /// Events and bytes at most.
    most: (usize, usize),
    last: u64,
    /// The log has nothing that is older than this number, or it would not fit.
    floor: u64,
}

impl EventRing {
    /// An empty ring behind a number of the log, for so many events and bytes of them.
    pub(crate) fn new(epoch: Arc<str>, last: u64, events: usize, bytes: usize) -> Self {
        Self { epoch, places: VecDeque::new(), bytes: 0, most: (events, bytes), last, floor: 0 }
    }

    /// An empty ring with the same bounds.
    pub(crate) fn anew(&self, epoch: Arc<str>, last: u64) -> Self {
        Self::new(epoch, last, self.most.0, self.most.1)
    }

    /// The latest number.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// The number before the oldest that is still to be had here.
    pub(crate) fn before_first(&self) -> u64 {
        self.places.front().map_or(self.last, |place| place.seq() - 1)
    }

    /// Adds an event, behind the latest number.
    pub(crate) fn push(&mut self, event: LoggedEvent) {
        self.last = event.seq;
        self.put_back(Place::Told(Arc::new(NumberedEvent::new(&self.epoch, event))));
    }

    /// Says that the next numbers, up to this one, are not to be had.
    pub(crate) fn lose(&mut self, through: u64) {
        let count = through.saturating_sub(self.last);
        if count > 0 {
            self.last = through;
            self.put_back(Place::Lost { seq: through, count });
        }
    }

    fn put_back(&mut self, place: Place) {
        self.bytes += place.cost();
        self.places.push_back(place);
        while self.places.len() > self.most.0 || self.bytes > self.most.1 {
            let Some(gone) = self.places.pop_front() else { return };
            self.bytes -= gone.cost();
        }
    }

    /// Behind which number, and until which one, the log is to be read for somebody who has seen everything up to
    /// `seen`; none when there is no more to be had than what is here.
    pub(crate) fn wanted(&self, seen: u64) -> Option<(u64, u64)> {
        let before = self.before_first();
        // The last eighth is left to what comes next.
        let is_full = self.bytes > self.most.1 / 8 * 7;
        let room = if is_full { 0 } else { self.most.0.saturating_sub(self.places.len()) };
        let from = seen.max(before.saturating_sub(u64::try_from(room).unwrap_or(u64::MAX)));
        (from < before && before > self.floor).then_some((from, before))
    }

    /// Puts what the log has between these numbers in front of the oldest event here, as far as there is room. What was
    /// wanted and is not there is not asked for again.
    pub(crate) fn put_front(&mut self, (from, before): (u64, u64), entries: Vec<EventLogEntry>) {
        if self.before_first() != before {
            // Somebody else was faster, or the oldest have gone meanwhile.
            return;
        }
        let of_range = entries.into_iter().filter(|entry| entry.last() > from && entry.last() <= before);
        for entry in of_range.rev() {
            let (first, last) = (entry.first(), entry.last());
            let place = match entry {
                EventLogEntry::Told(event) => Place::Told(Arc::new(NumberedEvent::new(&self.epoch, event))),
                EventLogEntry::Lost { .. } => Place::Lost { seq: last, count: last + 1 - first },
            };
            let fits = self.places.len() < self.most.0 && self.bytes + place.cost() <= self.most.1;
            if !fits || last != self.before_first() {
                break;
            }
            self.bytes += place.cost();
            self.places.push_front(place);
        }
        if self.before_first() > from {
            self.floor = self.before_first();
        }
    }

    /// What comes after `seen`, and the number that is seen then.
    pub(crate) fn after(&self, seen: u64) -> RingRead {
        if seen >= self.last {
            return RingRead::Nothing;
        }
        let before = self.before_first();
        if seen < before {
            return RingRead::Gone { through: before };
        }
        match self.places.get(self.at(seen)) {
            Some(Place::Told(told)) => RingRead::Told(told.clone()),
            Some(Place::Lost { seq, .. }) => RingRead::Gone { through: *seq },
            None => RingRead::Nothing,
        }
    }

    /// The place that follows `seen`. Losses make numbers run ahead of places, so it is searched for.
    fn at(&self, seen: u64) -> usize {
        self.places.partition_point(|place| place.seq() + place.width() - 1 <= seen)
    }
}

impl Place {
    /// Its first number.
    fn seq(&self) -> u64 {
        match self {
            Self::Told(told) => told.event.seq,
            Self::Lost { seq, count } => seq - (count - 1),
        }
    }

    fn cost(&self) -> usize {
        match self {
            Self::Told(told) => told.cost(),
            Self::Lost { .. } => OVERHEAD,
        }
    }

    /// How many numbers it stands for.
    const fn width(&self) -> u64 {
        match self {
            Self::Told(_) => 1,
            Self::Lost { count, .. } => *count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64) -> LoggedEvent {
        LoggedEvent {
            seq,
            name: "paused".to_owned(),
            job: None,
            kind: None,
            queue: None,
            workflow: None,
            data: r#"{"event":"paused"}"#.to_owned(),
        }
    }

    fn ring(events: usize, bytes: usize) -> EventRing {
        EventRing::new("e".into(), 0, events, bytes)
    }

    fn push(ring: &mut EventRing, count: usize) {
        (0..count).for_each(|_| ring.push(event(ring.last() + 1)));
    }

    /// What a reader that has seen `seen` gets until there is nothing more: numbers, and `-n` for a gap up to n.
    fn read(ring: &EventRing, mut seen: u64) -> Vec<i64> {
        let mut got = Vec::new();
        loop {
            match ring.after(seen) {
                RingRead::Nothing => return got,
                RingRead::Told(told) => {
                    seen = told.event.seq;
                    got.push(i64::try_from(seen).unwrap());
                }
                RingRead::Gone { through } => {
                    seen = through;
                    got.push(-i64::try_from(seen).unwrap());
                }
            }
        }
    }

    #[test]
    fn a_reader_goes_on_where_it_stopped_and_is_told_of_what_is_gone() {
        // V2
        let mut ring = ring(4, usize::MAX);
        assert_eq!(read(&ring, 0), [] as [i64; 0]);
        push(&mut ring, 3);
        assert_eq!(read(&ring, 0), [1, 2, 3]);
        assert_eq!(read(&ring, 2), [3]);
        assert_eq!(read(&ring, 3), [] as [i64; 0]);
        push(&mut ring, 3);
        assert_eq!(read(&ring, 0), [-2, 3, 4, 5, 6], "the oldest two are gone, and it is said");
        assert_eq!(read(&ring, 2), [3, 4, 5, 6], "nothing was missed: nothing is said");
        ring.lose(16);
        push(&mut ring, 1);
        assert_eq!(read(&ring, 5), [6, -16, 17]);
        assert_eq!(read(&ring, 9), [-16, 17]);
        assert_eq!(read(&ring, 16), [17]);
        push(&mut ring, 4);
        assert_eq!(read(&ring, 6), [-17, 18, 19, 20, 21]);
    }

    #[test]
    fn it_is_bounded_by_bytes_too() {
        // V2
        let mut ring = ring(usize::MAX, 10 * (OVERHEAD + 100));
        push(&mut ring, 1_000);
        assert!(ring.places.len() <= 12 && ring.places.len() >= 5, "{}", ring.places.len());
        assert!(ring.bytes <= ring.most.1);
    }

    #[test]
    fn what_the_log_still_has_is_put_in_front_as_far_as_there_is_room() {
        // V2
        let told = |numbers: std::ops::RangeInclusive<u64>| numbers.map(event).map(EventLogEntry::Told);
        let mut ring = EventRing::new("e".into(), 20, 8, 100_000);
        assert_eq!(ring.wanted(20), None);
        assert_eq!(ring.wanted(14), Some((14, 20)));
        let lost = EventLogEntry::Lost { last: 17, count: 2 };
        let entries = told(15..=15).chain([lost]).chain(told(18..=22)).collect();
        ring.put_front((14, 20), entries);
        push(&mut ring, 1);
        assert_eq!(read(&ring, 14), [15, -17, 18, 19, 20, 21]);
        assert_eq!(ring.wanted(3), Some((12, 14)), "no more than there is room for");
        ring.put_front((12, 14), told(13..=14).collect());
        assert_eq!(read(&ring, 3), [-12, 13, 14, 15, -17, 18, 19, 20, 21]);
        assert_eq!(ring.wanted(3), None, "it is full");
        let mut short = EventRing::new("e".into(), 20, 8, 100_000);
        assert_eq!(short.wanted(10), Some((12, 20)));
        short.put_front((12, 20), told(18..=20).collect());
        assert_eq!(read(&short, 10), [-17, 18, 19, 20], "the log has no more");
        assert_eq!(short.wanted(10), None, "and is not asked again");
    }
}

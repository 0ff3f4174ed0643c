//! The last events of this process, numbered, so that a subscriber that was away can go on where it stopped.
//!
//! Owns the numbers and the bounds. It must not know who listens: readers bring the number they have seen.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use backstop::Event;

use super::frame;

/// What one event costs beside its written form: the event itself and its place.
const OVERHEAD: usize = 512;

/// An event with its number and the bytes that every subscriber is sent.
pub(crate) struct NumberedEvent {
    /// Its number.
    pub(crate) seq: u64,
    /// What happened.
    pub(crate) event: Arc<Event>,
    /// As those see it who see all tenants.
    whole: Bytes,
    /// As its own tenant sees it; written when the first of them asks.
    local: OnceLock<Bytes>,
}

impl NumberedEvent {
    /// The bytes for a subscriber; `tenant` is the one it belongs to.
    pub(crate) fn frame(&self, epoch: &str, tenant: Option<&str>) -> Bytes {
        match tenant {
            None => self.whole.clone(),
            // Only those of the event's own tenant come here, so there is one local form.
            Some(tenant) => {
                let write = || {
                    let shown = frame::of_tenant(&self.event, tenant);
                    frame::event(epoch, self.seq, self.event.what.name(), &shown)
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
    /// Names this ring: the numbers of another mean nothing here.
    pub(crate) epoch: Arc<str>,
    places: VecDeque<Place>,
    bytes: usize,
    /// Events and bytes at most.
    most: (usize, usize),
    last: u64,
}

impl EventRing {
    /// An empty ring for so many events and bytes of them.
    pub(crate) fn new(epoch: &str, events: usize, bytes: usize) -> Self {
        Self { epoch: epoch.into(), places: VecDeque::new(), bytes: 0, most: (events, bytes), last: 0 }
    }

    /// An empty ring with the same bounds.
    pub(crate) fn anew(&self, epoch: &str) -> Self {
        Self::new(epoch, self.most.0, self.most.1)
    }

    /// The latest number.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// The number before the oldest that is still to be had.
    pub(crate) fn before_first(&self) -> u64 {
        self.places.front().map_or(self.last, |place| place.seq() - 1)
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.last += 1;
        let whole = frame::event(&self.epoch, self.last, event.what.name(), &*event);
        self.bytes += whole.len() + OVERHEAD;
        let told = NumberedEvent { seq: self.last, event, whole, local: OnceLock::new() };
        self.places.push_back(Place::Told(Arc::new(told)));
        self.trim();
    }

    /// Says that so many events were lost before the next one.
    pub(crate) fn lose(&mut self, count: u64) {
        self.last += count;
        self.bytes += OVERHEAD;
        self.places.push_back(Place::Lost { seq: self.last, count });
        self.trim();
    }

    fn trim(&mut self) {
        while self.places.len() > self.most.0 || self.bytes > self.most.1 {
            let Some(gone) = self.places.pop_front() else { return };
            self.bytes -= OVERHEAD
                + match gone {
                    Place::Told(told) => told.whole.len(),
                    Place::Lost { .. } => 0,
                };
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
            Self::Told(told) => told.seq,
            Self::Lost { seq, count } => seq - (count - 1),
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
    use backstop::{Event, EventKind, Timestamp};

    use super::*;

    fn event() -> Arc<Event> {
        Arc::new(Event { at: Timestamp::from_micros(0), node: None, job: None, what: EventKind::Paused })
    }

    /// What a reader that has seen `seen` gets until there is nothing more: numbers, and `-n` for a gap up to n.
    fn read(ring: &EventRing, mut seen: u64) -> Vec<i64> {
        let mut got = Vec::new();
        loop {
            match ring.after(seen) {
                RingRead::Nothing => return got,
                RingRead::Told(told) => {
                    seen = told.seq;
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
        let mut ring = EventRing::new("e", 4, usize::MAX);
        assert_eq!(read(&ring, 0), [] as [i64; 0]);
        (0..3).for_each(|_| ring.push(event()));
        assert_eq!(read(&ring, 0), [1, 2, 3]);
        assert_eq!(read(&ring, 2), [3]);
        assert_eq!(read(&ring, 3), [] as [i64; 0]);
        (0..3).for_each(|_| ring.push(event()));
        assert_eq!(read(&ring, 0), [-2, 3, 4, 5, 6], "the oldest two are gone, and it is said");
        assert_eq!(read(&ring, 2), [3, 4, 5, 6], "nothing was missed: nothing is said");
        ring.lose(10);
        ring.push(event());
        assert_eq!(read(&ring, 5), [6, -16, 17]);
        assert_eq!(read(&ring, 9), [-16, 17]);
        assert_eq!(read(&ring, 16), [17]);
        (0..4).for_each(|_| ring.push(event()));
        assert_eq!(read(&ring, 6), [-17, 18, 19, 20, 21]);
    }

    #[test]
    fn it_is_bounded_by_bytes_too() {
        // V2
        let mut ring = EventRing::new("e", usize::MAX, 10 * (OVERHEAD + 100));
        (0..1_000).for_each(|_| ring.push(event()));
        assert!(ring.places.len() <= 12 && ring.places.len() >= 5, "{}", ring.places.len());
        assert!(ring.bytes <= ring.most.1);
    }
}

//! Events to subscribers over HTTP (V2).
//!
//! One task of each process reads the event log, in which every process of the store tells what it does, and writes
//! each event once, into a ring that all subscribers read. It starts with the first subscriber and stops soon after the
//! last: who does not look pays nothing, and fifty streams ask the store for no more than one. Subscribers that ask for
//! the same form an audience, and only one that has something to read is woken. Nothing here ever waits for a
//! subscriber.

mod audience;
mod filter;
mod frame;
mod ring;
mod subscriber;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use axum::body::Bytes;
use backstop::{Backstop, EventLog, EventLogEntry, EventLogPosition, LoopHeartbeat, Loops};
use backstop_store::Error as StoreError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access::Caller;
use audience::Audiences;
pub(crate) use filter::EventFilter;
use frame::GapReason;
pub(crate) use frame::local_names;
use ring::EventRing;
pub(crate) use subscriber::Subscriber;
use subscriber::SubscriberPosition;

/// How long the log is read when nobody listens any more: most who leave come back at once.
const LINGER: Duration = Duration::from_secs(30);

/// How often the log is read, and how long the task that does may be silent (H11).
const LOOK: Duration = Duration::from_millis(100);
const SILENT: Duration = Duration::from_secs(20);

/// How often this process says that somebody listens, and how long it waits for a store that is away.
const RENEW: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(1);

/// The shortest time between two rounds of waking subscribers, for each that is woken: with five thousand a round
/// follows a round after a tenth of a second, which keeps their share of a processor small however fast events come.
const PAUSE_PER_SUBSCRIBER: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Bytes of events that are read at once for somebody who comes back.
const MOST_FOUND: usize = 64 * 1024 * 1024;

/// The ring and those who read it.
pub(crate) struct EventHub {
    ring: RwLock<EventRing>,
    /// Locked after the ring, where both are.
    audiences: Mutex<Audiences>,
    count: Arc<AtomicUsize>,
    closed: AtomicBool,
    reading: Mutex<LogReading>,
    /// Held by those who bring into the ring what a new subscriber wants: what one has read, the next one finds.
    opening: tokio::sync::Mutex<()>,
    loops: Arc<Loops>,
}

/// Whether the log is read, and since when nobody wants it.
#[derive(Debug, Default)]
struct LogReading {
    running: bool,
    idle_since: Option<Instant>,
}

/// Counts a subscriber until it leaves. How many there may be is the door's to say.
pub(crate) struct CountedSubscriber(Arc<AtomicUsize>);

impl Drop for CountedSubscriber {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where a subscriber wants to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    /// Here: it has seen nothing before.
    Now,
    /// Behind this id.
    Id(String),
}

impl std::fmt::Debug for EventHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventHub").field("subscribers", &self.subscribers()).finish_non_exhaustive()
    }
}

impl EventHub {
    /// A hub that keeps so many events and bytes of them.
    pub(crate) fn new(events: usize, bytes: usize, loops: Arc<Loops>) -> Arc<Self> {
        Arc::new(Self {
            ring: RwLock::new(EventRing::new("".into(), 0, events, bytes)),
            audiences: Mutex::default(),
            count: Arc::new(AtomicUsize::new(0)),
            closed: AtomicBool::new(false),
            reading: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            loops,
        })
    }

    /// How many subscribers there are.
    pub(crate) fn subscribers(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Ends every stream, now and for good.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake(true);
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Wakes those who have something to read, or everybody.
    fn wake(&self, everybody: bool) {
        let bells = self.audiences().bells(everybody);
        bells.iter().for_each(|bell| bell.notify_waiters());
    }

    fn audiences(&self) -> MutexGuard<'_, Audiences> {
        self.audiences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self) -> RwLockReadGuard<'_, EventRing> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, EventRing> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn reading(&self) -> MutexGuard<'_, LogReading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> CountedSubscriber {
        self.count.fetch_add(1, Ordering::AcqRel);
        CountedSubscriber(self.count.clone())
    }

    /// A new subscriber.
    ///
    /// # Errors
    /// When the store is away, and nothing is known of the log.
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        engine: &Backstop,
        caller: Caller,
        filter: EventFilter,
        after: &ResumePoint,
    ) -> Result<Subscriber, StoreError> {
        let counted = self.count();
        self.reach(&engine.event_log(), after).await?;
        // Before the ring is read: from its last number on, the audience knows what is for it.
        let audience = self.audiences().join(caller.clone(), filter);
        let ring = self.read();
        let (seen, first) = begin(&ring, after);
        let (epoch, known_from) = (ring.epoch.clone(), ring.last());
        drop(ring);
        let position = SubscriberPosition { epoch, seq: seen, known_from };
        Ok(Subscriber::new(self.clone(), counted, &caller, audience, position, first))
    }

    /// Sees to it that the log is read, and that the ring has what this subscriber has not seen yet, if the log has it.
    async fn reach(self: &Arc<Self>, log: &EventLog, after: &ResumePoint) -> Result<(), StoreError> {
        if *after == ResumePoint::Now && self.is_read() {
            return Ok(());
        }
        let _one = self.opening.lock().await;
        if !self.is_read() {
            let position = log.listen().await?;
            self.start(log, position);
        }
        let ResumePoint::Id(id) = after else { return Ok(()) };
        let Some((epoch, seq)) = parse(id) else { return Ok(()) };
        if !self.is_of(epoch) {
            // It may come from a process that knows better.
            self.follow(log.listen().await?);
        }
        if !self.is_of(epoch) {
            return Ok(());
        }
        if self.is_ahead(seq) {
            // Another process may have told it of more than this one has read: then that is in the log by now. A number
            // that nobody was told is not waited for.
            let position = log.listen().await?;
            let is_known = *position.epoch == *epoch && seq <= position.last;
            while is_known && self.is_ahead(seq) && self.look(log).await? {}
        }
        let Some(wanted) = self.read().wanted(seq) else { return Ok(()) };
        let mut found = FoundEvents::default();
        let mut behind = wanted.0;
        while behind < wanted.1 {
            let page = log.after(epoch, behind).await?;
            let Some(last) = page.entries.last().map(EventLogEntry::last) else { break };
            behind = last;
            found.add(page.entries);
        }
        self.write().put_front(wanted, found.entries.into());
        Ok(())
    }

    /// True when the ring is one of the log of this name.
    fn is_of(&self, epoch: &str) -> bool {
        *self.read().epoch == *epoch
    }

    fn is_ahead(&self, seq: u64) -> bool {
        seq > self.read().last()
    }

    /// True while a task reads the log; then it goes on for as long as somebody is there.
    fn is_read(&self) -> bool {
        let mut reading = self.reading();
        reading.idle_since = None;
        reading.running
    }

    /// Starts reading the log behind a position.
    fn start(self: &Arc<Self>, log: &EventLog, position: EventLogPosition) {
        let mut ring = self.write();
        *ring = ring.anew(position.epoch, position.last);
        drop(ring);
        self.reading().running = true;
        let (hub, log, stop) = (Arc::downgrade(self), log.clone(), CancellationToken::new());
        let over = stop.clone();
        // The task of a supervisor goes on by itself.
        drop(self.loops.supervise("streams", SILENT, stop, move |heartbeat| {
            let (hub, log, over) = (hub.clone(), log.clone(), over.clone());
            async move {
                run(&hub, &log, &heartbeat).await;
                over.cancel();
            }
        }));
    }

    /// True when nobody has listened for so long that reading is a waste; then whoever reads must stop.
    fn is_deserted(&self) -> bool {
        let mut reading = self.reading();
        if self.subscribers() > 0 {
            reading.idle_since = None;
            return false;
        }
        let since = *reading.idle_since.get_or_insert_with(Instant::now);
        let deserted = since.elapsed() >= LINGER;
        if deserted {
            reading.running = false;
        }
        deserted
    }

    /// Begins anew when the log is another one than before: it was off in between.
    fn follow(&self, position: EventLogPosition) {
        let mut ring = self.write();
        if *ring.epoch == *position.epoch {
            return;
        }
        *ring = ring.anew(position.epoch, 0);
        drop(ring);
        self.wake(true);
    }

    /// Moves what waits into the log, and a page of what is new there into the ring. True when there may be more.
    async fn look(&self, log: &EventLog) -> Result<bool, StoreError> {
        let waits = log.relay().await?;
        let (epoch, last) = {
            let ring = self.read();
            (ring.epoch.clone(), ring.last())
        };
        let page = log.after(&epoch, last).await?;
        self.put(&epoch, page.entries);
        Ok(waits || page.more)
    }

    /// Puts into the ring what is new of a page of the log.
    fn put(&self, epoch: &str, entries: Vec<EventLogEntry>) {
        let mut ring = self.write();
        if *ring.epoch != *epoch {
            return;
        }
        let audiences = self.audiences();
        for entry in entries.into_iter().filter(|entry| entry.last() > 0) {
            if entry.last() <= ring.last() {
                // Whoever has come in between has read it already.
                continue;
            }
            let lost = match &entry {
                // What is no longer kept, if anything.
                EventLogEntry::Told(event) => event.seq - 1,
                EventLogEntry::Lost { last, .. } => *last,
            };
            if lost > ring.last() {
                ring.lose(lost);
                audiences.tell_all(lost);
            }
            if let EventLogEntry::Told(event) = entry {
                audiences.reporting(&event);
                ring.push(event);
            }
        }
    }
}

/// Events of the log that are to be put in front of the ring.
#[derive(Default)]
struct FoundEvents {
    entries: VecDeque<EventLogEntry>,
    bytes: usize,
}

impl FoundEvents {
    /// Adds later ones. What is certainly too much is let go: the earliest.
    fn add(&mut self, later: Vec<EventLogEntry>) {
        for entry in later {
            self.bytes += bytes_of(&entry);
            self.entries.push_back(entry);
        }
        while self.bytes > MOST_FOUND {
            let Some(gone) = self.entries.pop_front() else { break };
            self.bytes -= bytes_of(&gone);
        }
    }
}

fn bytes_of(entry: &EventLogEntry) -> usize {
    match entry {
        EventLogEntry::Told(event) => event.data.len(),
        EventLogEntry::Lost { .. } => 0,
    }
}

/// What a subscriber has seen when it begins, and what it is told first.
fn begin(ring: &EventRing, after: &ResumePoint) -> (u64, Vec<Bytes>) {
    let ResumePoint::Id(id) = after else {
        return (ring.last(), vec![frame::opening(&ring.epoch, ring.last())]);
    };
    let oldest = ring.before_first();
    let (why, through, missed) = match parse(id) {
        Some((epoch, seq)) if *epoch == *ring.epoch => match seq {
            seq if seq > ring.last() => (GapReason::UnknownId, ring.last(), None),
            seq if seq < oldest => (GapReason::TooOld, oldest, Some(oldest - seq)),
            seq => return (seq, vec![frame::opening(&ring.epoch, seq)]),
        },
        Some(_) => (GapReason::OtherEpoch, oldest, None),
        None => (GapReason::UnknownId, oldest, None),
    };
    // What is repeated of a stranger's id is short and has no line in it.
    let shown: String = id.chars().filter(|c| !c.is_control()).take(80).collect();
    let gap = frame::gap(&ring.epoch, through, why, Some(&shown), missed);
    (through, vec![frame::opening(&ring.epoch, through), gap])
}

fn parse(id: &str) -> Option<(&str, u64)> {
    let (epoch, seq) = id.split_once('-')?;
    Some((epoch, seq.parse().ok()?))
}

/// Reads the log until the hub is gone, or nobody has listened for long.
async fn run(hub: &Weak<EventHub>, log: &EventLog, heartbeat: &LoopHeartbeat) {
    // Whoever started this has just said that somebody listens.
    let (mut renew_at, mut woken) = (Instant::now() + RENEW, Instant::now());
    loop {
        heartbeat.record();
        let Some(hub) = hub.upgrade().filter(|hub| !hub.is_deserted()) else { return };
        let looked = look(&hub, log, &mut renew_at).await;
        let stirred = u32::try_from(hub.audiences().stirred()).unwrap_or(u32::MAX);
        let more = matches!(looked, Ok(true));
        // In a burst they are told now and then, and not of each page.
        let pause = PAUSE_PER_SUBSCRIBER.saturating_mul(stirred).min(PAUSE_MAX);
        if stirred > 0 && (!more || woken.elapsed() >= pause) {
            hub.wake(false);
            woken = Instant::now();
        }
        drop(hub);
        match looked {
            // A burst must not keep this task from letting others run.
            Ok(true) => tokio::task::yield_now().await,
            Ok(false) => tokio::time::sleep(LOOK).await,
            Err(error) => {
                heartbeat.warn(&error, || tracing::warn!(%error, "streams wait for the store"));
                renew_at = Instant::now();
                heartbeat.rest(RETRY).await;
            }
        }
    }
}

async fn look(hub: &EventHub, log: &EventLog, renew_at: &mut Instant) -> Result<bool, StoreError> {
    if hub.subscribers() > 0 && Instant::now() >= *renew_at {
        hub.follow(log.listen().await?);
        *renew_at = Instant::now() + RENEW;
    }
    hub.look(log).await
}

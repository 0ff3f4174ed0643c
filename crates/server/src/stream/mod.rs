//! Events to subscribers over HTTP (V2).
//!
//! One task takes the engine's events, numbers them and writes each of them once, into a ring that all subscribers
//! read. It starts with the first subscriber and stops some minutes after the last: who does not look pays nothing.
//! Subscribers that ask for the same form an audience, and only one that has something to read is woken. Nothing here
//! ever waits for a subscriber.

mod audience;
mod filter;
mod frame;
mod ring;
mod subscriber;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use axum::body::Bytes;
use backstop::{Backstop, Event, Events, LoopHeartbeat, Loops};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::access::Caller;
use audience::Audiences;
pub(crate) use filter::{EventFilter, about, is_on};
use frame::GapReason;
pub(crate) use frame::of_tenant;
use ring::EventRing;
pub(crate) use subscriber::Subscriber;
use subscriber::SubscriberPosition;

/// How long events are kept for subscribers that come back, when none is there.
const LINGER: Duration = Duration::from_secs(300);

/// How often the task that takes events says that it is alive, and how long it may be silent (H11).
const BEAT: Duration = Duration::from_secs(5);
const SILENT: Duration = Duration::from_secs(20);

/// Events that are put into the ring together.
const BATCH: usize = 512;

/// The shortest time between two rounds of waking subscribers, for each that is woken: with five thousand a round
/// follows a round after a tenth of a second, which keeps their share of a processor small however fast events come.
const PAUSE_PER_SUBSCRIBER: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The ring and those who read it.
pub(crate) struct EventHub {
    ring: RwLock<EventRing>,
    /// Locked after the ring, where both are.
    audiences: Mutex<Audiences>,
    count: Arc<AtomicUsize>,
    closed: AtomicBool,
    pump: Mutex<Pump>,
    loops: Arc<Loops>,
}

/// Whether somebody takes events off the engine, and since when nobody reads them.
#[derive(Debug, Default)]
struct Pump {
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
            ring: RwLock::new(EventRing::new(&new_epoch(), events, bytes)),
            audiences: Mutex::default(),
            count: Arc::new(AtomicUsize::new(0)),
            closed: AtomicBool::new(false),
            pump: Mutex::new(Pump::default()),
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

    fn count(&self) -> CountedSubscriber {
        self.count.fetch_add(1, Ordering::AcqRel);
        CountedSubscriber(self.count.clone())
    }

    /// A new subscriber.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        engine: &Backstop,
        caller: Caller,
        filter: EventFilter,
        after: &ResumePoint,
    ) -> Subscriber {
        let counted = self.count();
        self.start(engine);
        // Before the ring is read: from its last number on, the audience knows what is for it.
        let audience = self.audiences().join(caller.clone(), filter);
        let ring = self.read();
        let (seen, first) = begin(&ring, after);
        let (epoch, known_from) = (ring.epoch.clone(), ring.last());
        drop(ring);
        let position = SubscriberPosition { epoch, seq: seen, known_from };
        Subscriber::new(self.clone(), counted, &caller, audience, position, first)
    }

    /// Starts taking events, unless that is done already.
    fn start(self: &Arc<Self>, engine: &Backstop) {
        let mut pump = self.pump.lock().unwrap_or_else(PoisonError::into_inner);
        pump.idle_since = None;
        if pump.running {
            return;
        }
        pump.running = true;
        // What happened while nobody took events is unknown: the numbers begin again under another name.
        self.begin_anew();
        let (hub, engine, stop) = (Arc::downgrade(self), engine.clone(), CancellationToken::new());
        let (first, over) = (Mutex::new(Some(engine.events())), stop.clone());
        // The task of a supervisor goes on by itself.
        drop(self.loops.supervise("streams", SILENT, stop, move |heartbeat| {
            let (hub, over) = (hub.clone(), over.clone());
            let events = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let events = events.unwrap_or_else(|| {
                // Whoever was started again has missed something.
                hub.upgrade().iter().for_each(|hub| hub.begin_anew());
                engine.events()
            });
            async move {
                run(hub, events, &heartbeat).await;
                over.cancel();
            }
        }));
    }

    /// True when nobody has listened for so long that taking events is a waste; then whoever takes them must stop.
    fn is_deserted(&self) -> bool {
        let mut pump = self.pump.lock().unwrap_or_else(PoisonError::into_inner);
        if self.subscribers() > 0 {
            pump.idle_since = None;
            return false;
        }
        let since = *pump.idle_since.get_or_insert_with(Instant::now);
        let deserted = since.elapsed() >= LINGER;
        if deserted {
            pump.running = false;
            self.begin_anew();
        }
        deserted
    }

    fn begin_anew(&self) {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        *ring = ring.anew(&new_epoch());
    }

    /// Puts events into the ring, each with how many were lost just before it. Answers how many subscribers have
    /// something to read now.
    fn put(&self, batch: Vec<(u64, Arc<Event>)>) -> usize {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        let audiences = self.audiences();
        for (lost, event) in batch {
            if lost > 0 {
                ring.lose(lost);
                audiences.tell_all(ring.last());
            }
            ring.push(event.clone());
            audiences.reporting(&event, ring.last());
        }
        audiences.stirred()
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

/// A name that no other ring has.
fn new_epoch() -> String {
    let text = backstop::worker_id().to_string().replace('-', "");
    // The end of the id is its random part.
    text.get(text.len().saturating_sub(16)..).unwrap_or(&text).to_owned()
}

/// Takes events off the engine until it is gone, the hub is gone, or nobody has listened for long.
async fn run(hub: Weak<EventHub>, mut events: Events, heartbeat: &LoopHeartbeat) {
    let mut missed = 0;
    // When the subscribers may be woken next; none when they know everything.
    let mut due: Option<Instant> = None;
    let mut woken = Instant::now();
    loop {
        heartbeat.record();
        let event = tokio::select! {
            event = events.next() => event,
            () = tokio::time::sleep(BEAT) => {
                if hub.upgrade().is_none_or(|hub| hub.is_deserted()) {
                    return;
                }
                continue;
            }
            () = at(due) => {
                let Some(hub) = hub.upgrade() else { return };
                hub.wake(false);
                (due, woken) = (None, Instant::now());
                continue;
            }
        };
        let (Some(first), Some(hub)) = (event, hub.upgrade()) else { return };
        let readers = u32::try_from(hub.put(batch(first, &mut events, &mut missed))).unwrap_or(u32::MAX);
        if readers > 0 {
            due.get_or_insert(woken + PAUSE_PER_SUBSCRIBER.saturating_mul(readers).min(PAUSE_MAX));
        }
        if hub.is_deserted() {
            return;
        }
        // A burst must not keep this task from letting others run.
        tokio::task::yield_now().await;
    }
}

/// An event with those that wait behind it, each with how many were lost just before it.
fn batch(first: Arc<Event>, events: &mut Events, missed: &mut u64) -> Vec<(u64, Arc<Event>)> {
    let mut batch = Vec::new();
    let mut next = Some(first);
    while let Some(event) = next {
        batch.push((events.missed() - std::mem::replace(missed, events.missed()), event));
        next = (batch.len() < BATCH).then(|| events.try_next()).flatten();
    }
    batch
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

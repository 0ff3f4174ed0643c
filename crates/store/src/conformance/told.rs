//! An observer that writes down what it is told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use backstop_core::JobId;
use backstop_core::event::Event;
use backstop_core::outbox::{Sink, Sinks};

use crate::Observer;

/// All that a store has told since it was last asked.
#[derive(Debug, Default)]
pub(super) struct ObservedEvents {
    deaf: AtomicBool,
    events: Mutex<Vec<Event>>,
    hints: AtomicUsize,
    sinks: Mutex<Sinks>,
}

impl ObservedEvents {
    /// An observer that wants no events.
    pub(super) fn deaf() -> Self {
        Self { deaf: AtomicBool::new(true), ..Self::default() }
    }

    /// Takes messages from now on, whether it wants events or not (B2).
    pub(super) fn take_messages(&self, sinks: impl IntoIterator<Item = Sink>) {
        let mut known = self.sinks.lock().expect("nobody panics while writing sinks down");
        *known = known.with(sinks.into_iter().collect::<Vec<_>>());
    }

    /// Wants no events from now on.
    pub(super) fn stop_listening(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }

    /// Takes the events so far, in the order they came.
    pub(super) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().expect("nobody panics while writing events down"))
    }

    /// Takes the events so far and answers the names of those about one job.
    pub(super) fn names(&self, job: JobId) -> Vec<&'static str> {
        let about = |event: &Event| event.job.as_ref().is_some_and(|header| header.id == job);
        self.take().iter().filter(|event| about(event)).map(|event| event.what.name()).collect()
    }

    /// How often work was said to have arrived since the last call.
    pub(super) fn hints(&self) -> usize {
        self.hints.swap(0, Ordering::SeqCst)
    }
}

impl Observer for ObservedEvents {
    fn wants_events(&self) -> bool {
        !self.deaf.load(Ordering::SeqCst)
    }

    fn wants_alerts(&self) -> bool {
        self.wants_events()
    }

    fn sinks(&self) -> Sinks {
        self.sinks.lock().expect("nobody panics while writing sinks down").clone()
    }

    fn committed(&self, events: Vec<Event>) {
        self.events.lock().expect("nobody panics while writing events down").extend(events);
    }

    fn work_arrived(&self) {
        self.hints.fetch_add(1, Ordering::SeqCst);
    }
}

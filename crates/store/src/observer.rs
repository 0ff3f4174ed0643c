//! Who hears of commits and of work that arrived.

use backstop_core::event::Event;
use backstop_core::outbox::Sinks;

/// Hears of what a store has committed. Called from the store's own threads: it must be quick and never block.
pub trait Observer: Send + Sync + 'static {
    /// False when nobody listens, so that the store need not build events. Jobs that expired are told of all the same:
    /// no run of theirs has ended, so this is how their process learns which they were (F12).
    fn wants_events(&self) -> bool;

    /// True when somebody delivers alerts: then each one that is raised is put into [`crate::Drawer::Alerts`] by the
    /// transaction of the death (D3).
    fn wants_alerts(&self) -> bool {
        false
    }

    /// Who takes messages: what they take is put into [`crate::Drawer::Outbox`] by the transaction of the transition
    /// (B2). Asked by every transaction, so it must not be more than a look.
    fn sinks(&self) -> Sinks {
        Sinks::default()
    }

    /// Events of one commit, after it, in order.
    fn committed(&self, events: Vec<Event>);

    /// Work may have become claimable: a hint, given at once for this process, later or never for others (L13).
    fn work_arrived(&self);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn wants_events(&self) -> bool {
        false
    }

    fn committed(&self, _events: Vec<Event>) {}

    fn work_arrived(&self) {}
}

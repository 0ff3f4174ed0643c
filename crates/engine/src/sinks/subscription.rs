//! Subscriptions to events that are kept in the store (V2): they resume where they stopped, also after a restart and in
//! another process, and have the events of every process.
//!
//! A subscription is a sink whose publisher is the application. What becomes of an event is the application's: nothing
//! here delivers to anybody.

use std::time::Duration;

use backstop_core::outbox::{Sink, SinkError, SinkTopic};
use backstop_store::Error as StoreError;
use tokio::time::Instant;

use super::{OutboxPage, OutboxPublisher, OutboxSinks, SinkLimits, SinkProblem};

/// What the names of the sinks of subscriptions begin with. No bridge with a sink can be called like this.
pub const SUBSCRIPTION_PREFIX: &str = "events.";

/// How long a subscriber may be silent before another one of its name gets the events.
const LEASE: Duration = Duration::from_secs(15);

/// How often it looks for events while there are none.
const LOOK: Duration = Duration::from_millis(250);

/// Documents of the outbox that are read at once.
const PAGE: usize = 100;

/// The events of jobs, in every process of the store, from the oldest that nobody is done with: made by
/// [`OutboxSinks::subscribe`].
///
/// Read a page, do something with its events, say that you are done. Whoever dies before that gets the same again,
/// under the same ids, and so does whoever goes on under the same name. Several may read under one name: one of them
/// gets events, and another one goes on 15 seconds after that was last heard of. Events of one job are in the order of
/// its commits.
///
/// It never holds up a job. What waits is bounded as with every sink (see [`SinkLimits`]): above that the newest events
/// are refused and counted.
///
/// ```
/// # use backstop::prelude::*;
/// use backstop::sinks::{EventSubscription, MessageBody};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> JobResult {
/// let engine = Backstop::open("memory:").await?;
/// let mut events: EventSubscription = engine.sinks().subscribe("audit", &["report"]).await?;
/// engine.enqueue_raw("report", "{}").submit().await?;
/// let page = events.next().await?;
/// for message in &page.messages {
///     if let MessageBody::Event { data } = &message.body {
///         println!("{} {}", message.id, data["event"]);
///     }
/// }
/// assert!(events.done(page).await?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct EventSubscription {
    publisher: OutboxPublisher,
    lease: Duration,
    /// When the lease was last renewed; none without one.
    held: Option<Instant>,
}

impl OutboxSinks<'_> {
    /// Subscribes to the events of jobs of these kinds, or of all when there are none. What happens from now on waits
    /// for whoever reads it under this name: at once in this process, and within five seconds in every other one. A
    /// subscription that exists goes on where it stopped.
    ///
    /// It stays until [`OutboxSinks::unsubscribe`], whether anybody reads it or not.
    ///
    /// # Errors
    /// When no subscription can be called like this, there are too many sinks, or the store is away.
    pub async fn subscribe(self, name: &str, kinds: &[&str]) -> Result<EventSubscription, SinkProblem> {
        if name.is_empty() {
            return Err(SinkError::Name(String::new()).into());
        }
        let sink =
            kinds.iter().fold(Sink::new(sink_of(name), [SinkTopic::Events]), |sink, kind| sink.kind(*kind));
        self.set(&sink, SinkLimits::default()).await?;
        let publisher = self.publisher(&sink.name).lease(LEASE);
        Ok(EventSubscription { publisher, lease: LEASE, held: None })
    }

    /// Ends a subscription, with all that waits for it. Answers how many events that were; none when there is no such
    /// subscription.
    ///
    /// # Errors
    /// When the store is away; then do it again.
    pub async fn unsubscribe(self, name: &str) -> Result<Option<u64>, StoreError> {
        self.remove(&sink_of(name)).await
    }
}

/// The sink in which the outbox keeps the events of a subscription.
fn sink_of(name: &str) -> String {
    format!("{SUBSCRIPTION_PREFIX}{name}")
}

impl EventSubscription {
    /// How long it may be silent before another one of its name gets the events: 15 seconds unless told.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.publisher = self.publisher.lease(lease);
        self.lease = lease;
        self
    }

    /// The oldest events that nobody is done with. Waits until there are some, and for as long as another one of this
    /// name reads them, a person paused the sink, or somebody has ended the subscription.
    ///
    /// # Errors
    /// When the store is away; then ask again.
    pub async fn next(&mut self) -> Result<OutboxPage, StoreError> {
        loop {
            if self.holds().await? {
                let page = self.publisher.next(PAGE).await?;
                if !page.is_empty() {
                    return Ok(page);
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Removes events that something was done with. False when another one of this name has them by now: it gets them
    /// again.
    ///
    /// # Errors
    /// When the store is away; then the events come again.
    pub async fn done(&mut self, page: OutboxPage) -> Result<bool, StoreError> {
        self.held = None;
        let removed = self.publisher.published(page).await?;
        self.held = removed.then(Instant::now);
        Ok(removed)
    }

    /// Says that it is still there, for whoever takes longer with a page than the lease. False when another one of this
    /// name reads by now.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn renew(&mut self) -> Result<bool, StoreError> {
        self.held = None;
        let holds = self.publisher.hold().await?;
        self.held = holds.then(Instant::now);
        Ok(holds)
    }

    /// Lets another one of this name read, at once.
    ///
    /// # Errors
    /// When the store is away; then the lease runs out.
    pub async fn release(&mut self) -> Result<(), StoreError> {
        self.held = None;
        self.publisher.release().await
    }

    /// Holds the lease, which is renewed long before it runs out.
    async fn holds(&mut self) -> Result<bool, StoreError> {
        if self.held.is_some_and(|at| at.elapsed() < self.lease / 5) {
            return Ok(true);
        }
        self.renew().await
    }
}

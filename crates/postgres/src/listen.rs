//! Wake-ups between processes (L13): only hints, because every worker polls as well.
//!
//! A notice is sent outside the transaction that brought the work, because NOTIFY makes all commits of a database wait
//! for each other, and at most once per queue within [`SPACING`]. The listener has a connection of its own; it sends
//! itself a notice from time to time, and one that does not come back means that the connection is dead, or that a
//! pooler stands in between.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use backstop_sql::access::Class;
use backstop_sql::connection::Mode;
use backstop_sql::{Call, Query, Shared, SqlFailure, Value};
use futures_util::future::poll_fn;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_postgres::AsyncMessage;

use crate::error::of_driver;
use crate::open::Place;
use crate::sql;
use crate::state::{ServerState, StoreHandle};
use crate::tls;

/// Notices about one queue are this far apart at least.
const SPACING: Duration = Duration::from_millis(5);
/// How often connections are closed that nobody has used for a while.
const CLOSE_IDLE_EVERY: Duration = Duration::from_secs(1);
/// How long its own notice may take, and a new connection.
const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// How often it logs that no notices arrive: callers of the store report an unavailable server by themselves.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Pauses between connections.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A store that these tasks do not keep open.
#[derive(Clone)]
pub(crate) struct WeakStoreHandle {
    shared: Weak<Shared>,
    state: Weak<ServerState>,
}

impl WeakStoreHandle {
    pub(crate) fn of(handle: &StoreHandle) -> Self {
        Self { shared: Arc::downgrade(&handle.shared), state: Arc::downgrade(&handle.state) }
    }

    fn upgrade(&self) -> Option<StoreHandle> {
        Some(StoreHandle { shared: self.shared.upgrade()?, state: self.state.upgrade()? })
    }
}

/// The channel of a schema.
fn channel(state: &ServerState) -> String {
    format!("backstop_{}", state.schema.name())
}

/// Tells other processes of work that arrived here, and closes connections that nobody uses. Ends with the store.
pub(crate) async fn notify(store: WeakStoreHandle, token: Arc<str>) {
    let mut close_idle = Instant::now() + CLOSE_IDLE_EVERY;
    loop {
        let Some(handle) = store.upgrade() else { return };
        if close_idle <= Instant::now() {
            handle.state.close_idle();
            close_idle = Instant::now() + CLOSE_IDLE_EVERY;
        }
        tokio::select! {
            () = handle.state.arrived.notified() => {}
            // Lets the store be dropped while nothing arrives.
            () = tokio::time::sleep_until(close_idle) => continue,
        }
        let queues = handle.state.take_arrivals();
        let payloads: Vec<String> = queues.iter().map(|queue| format!("{token} {queue}")).collect();
        if !payloads.is_empty() {
            // A hint that is lost costs a poll.
            let _ = send(&handle, payloads).await;
        }
        drop(handle);
        tokio::time::sleep(SPACING).await;
    }
}

async fn send(handle: &StoreHandle, payloads: Vec<String>) -> Result<(), backstop_store::Error> {
    let channel = channel(&handle.state);
    let payloads = Arc::new(payloads);
    let call = Call::new(Mode::WriteByKey, Class::Work);
    let told = handle.shared.transact(call, move |tx| {
        let params = vec![Value::text(&channel), Value::texts(payloads.iter())];
        Box::pin(async move { tx.one_alone(Query::new(sql::NOTIFY, params)).await.map(drop) })
    });
    told.await
}

/// Hears of work that arrived in other processes, until the store is dropped; connects again whenever that ends.
/// Every `probe` it proves that it hears.
pub(crate) async fn listen(store: WeakStoreHandle, place: Arc<Place>, token: Arc<str>, probe: Duration) {
    let mut pause = FIRST_PAUSE;
    let mut said: Option<Instant> = None;
    loop {
        let began = Instant::now();
        let ended = listen_once(&store, &place, &token, probe).await;
        let Some(handle) = store.upgrade() else { return };
        handle.state.listening.store(false, Ordering::Release);
        let Err(failure) = ended else { return };
        if said.is_none_or(|moment| moment.elapsed() > SAY_EVERY) {
            said = Some(Instant::now());
            let (store, error) = (handle.shared.location(), failure.into_error(&place.location, false));
            tracing::warn!(store, %error, "no notices from other processes; polling goes on");
        }
        drop(handle);
        pause = if began.elapsed() > probe { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(pause).await;
    }
}

/// One connection, until it fails; Ok when the store is gone.
async fn listen_once(
    store: &WeakStoreHandle,
    place: &Place,
    token: &str,
    probe_every: Duration,
) -> Result<(), SqlFailure> {
    let connector = tls::connector(&place.encryption).map_err(SqlFailure::Unreachable)?;
    let slow = |_| SqlFailure::Slow("a connection to listen on");
    let (client, mut connection) =
        timeout(PROBE_LIMIT, place.config.connect(connector)).await.map_err(slow)?.map_err(of_driver)?;
    let (sender, mut notices) = mpsc::unbounded_channel();
    let driver = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notice) = message
                && sender.send(notice.payload().to_owned()).is_err()
            {
                return;
            }
        }
    });
    let heard = forward_notices(store, &client, &mut notices, token, probe_every).await;
    driver.abort();
    heard
}

async fn forward_notices(
    store: &WeakStoreHandle,
    client: &tokio_postgres::Client,
    notices: &mut mpsc::UnboundedReceiver<String>,
    token: &str,
    probe_every: Duration,
) -> Result<(), SqlFailure> {
    let Some(handle) = store.upgrade() else { return Ok(()) };
    let channel = channel(&handle.state);
    timeout(PROBE_LIMIT, client.batch_execute(&format!("LISTEN {channel}")))
        .await
        .map_err(|_| SqlFailure::Slow("the start of listening"))?
        .map_err(of_driver)?;
    drop(handle);
    let probe = format!("{token} ");
    loop {
        // Sent over the pool: behind a pooler a notice of the listening connection itself would come back at once, with
        // the answer to its own statement, and prove nothing.
        let Some(handle) = store.upgrade() else { return Ok(()) };
        let asked = timeout(PROBE_LIMIT, send(&handle, vec![probe.clone()])).await;
        drop(handle);
        asked.map_err(|_| SqlFailure::Slow("a notice to itself"))?.map_err(SqlFailure::Refused)?;
        let limit = Instant::now() + PROBE_LIMIT;
        loop {
            let notice = tokio::time::timeout_at(limit, notices.recv()).await;
            match notice
                .map_err(|_| SqlFailure::Slow("a notice to itself, which a pooler may have swallowed,"))?
            {
                Some(payload) if payload == probe => break,
                Some(payload) => pass_on(store, &payload, token),
                None => return Err(SqlFailure::Lost("the listening connection ended".to_owned())),
            }
        }
        let Some(handle) = store.upgrade() else { return Ok(()) };
        if !handle.state.listening.swap(true, Ordering::AcqRel) {
            // Notices sent before this moment were missed.
            handle.shared.observer().work_arrived();
        }
        drop(handle);
        let next = Instant::now() + probe_every;
        loop {
            let Some(handle) = store.upgrade() else { return Ok(()) };
            let rest = handle.state.notices.due();
            drop(handle);
            match tokio::time::timeout_at(rest.map_or(next, |rest| rest.min(next)), notices.recv()).await {
                Ok(Some(payload)) => pass_on(store, &payload, token),
                Ok(None) => return Err(SqlFailure::Lost("the listening connection ended".to_owned())),
                Err(_) => {}
            }
            let now = Instant::now();
            if let Some(handle) = store.upgrade().filter(|handle| handle.state.notices.wake(now)) {
                handle.shared.observer().work_arrived();
            }
            if now >= next {
                break;
            }
        }
    }
}

/// Wakes the workers of this process, if the notice is from another one and about a queue they serve, unless they rest.
fn pass_on(store: &WeakStoreHandle, payload: &str, token: &str) {
    let Some((sender, queue)) = payload.split_once(' ') else { return };
    if sender != token
        && let Some(handle) = store.upgrade()
        && handle.state.serves(queue)
        && handle.state.notices.hear(Instant::now())
    {
        handle.shared.observer().work_arrived();
    }
}

/// What tells this process from others in its notices.
pub(crate) fn token() -> Arc<str> {
    uuid::Uuid::now_v7().simple().to_string().into()
}

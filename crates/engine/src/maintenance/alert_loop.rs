//! The loop that delivers alerts (D3), beside the other duties: a channel that hangs holds up none of them.

use std::sync::Arc;
use std::time::Duration;

use backstop_store::Error as StoreError;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::alert::{self, Lead};
use super::state::MaintenanceState;
use crate::alerts::stored::{self, NamedChannel};
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;

/// How often the node that leads looks for new alerts.
const LOOK: Duration = Duration::from_secs(1);

/// Delivers until it is told to stop, while it leads. It asks for the leadership by itself: only nodes that have
/// somebody to tell take part.
pub(super) async fn run(parts: Arc<EngineParts>, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let quit = &state.stop;
    let mut round = Round::new(parts);
    while !quit.is_cancelled() {
        heartbeat.record();
        let span = state.term_span();
        let over = Instant::now() + span / 3;
        match Lead::ask(&*round.parts.store, state.node, span).await {
            Ok(Some(lead)) => round.serve(lead, over, heartbeat, quit).await,
            Ok(None) => pause(over, quit).await,
            Err(error) => {
                log_error(heartbeat, &error);
                pause(over, quit).await;
            }
        }
    }
}

async fn pause(until: Instant, quit: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep_until(until) => {}
        () = quit.cancelled() => {}
    }
}

fn log_error(heartbeat: &LoopHeartbeat, error: &StoreError) {
    // Another node has taken over: its work, not ours.
    if !matches!(error, StoreError::Deposed { .. }) {
        heartbeat.warn(error, || tracing::warn!(%error, "alerts wait for the store"));
    }
}

type Delivered = (usize, Result<Option<Duration>, StoreError>);

/// The channels, each busy or waiting for its moment. Deliveries end with the loop.
struct Round {
    parts: Arc<EngineParts>,
    channels: Vec<Channel>,
    deliveries: JoinSet<Delivered>,
}

struct Channel {
    named: NamedChannel,
    busy: Option<AbortHandle>,
    /// When it has something to do; none when nothing waits.
    wakes: Option<Instant>,
}

impl Round {
    fn new(parts: Arc<EngineParts>) -> Self {
        let named_channels = stored::named_channels(&parts.config.alerts).into_iter();
        let channels = named_channels.map(|named| Channel { named, busy: None, wakes: None }).collect();
        Self { parts, channels, deliveries: JoinSet::new() }
    }

    /// Leads until `over`.
    async fn serve(
        &mut self,
        mut lead: Lead,
        over: Instant,
        heartbeat: &LoopHeartbeat,
        quit: &CancellationToken,
    ) {
        // What an earlier leader, or this node before a restart, left open is not known yet.
        self.wake_all();
        while !quit.is_cancelled() && Instant::now() < over {
            heartbeat.record();
            match alert::gather(&*self.parts.store, &self.parts.config, &mut lead).await {
                Ok(true) => self.wake_all(),
                Ok(false) => {}
                Err(error) => {
                    log_error(heartbeat, &error);
                    return pause(over, quit).await;
                }
            }
            self.start_deliveries(lead);
            let look = over.min(Instant::now() + LOOK);
            self.watch(look, heartbeat, quit).await;
        }
    }

    fn wake_all(&mut self) {
        let now = Instant::now();
        self.channels.iter_mut().for_each(|channel| channel.wakes = Some(now));
    }

    fn start_deliveries(&mut self, lead: Lead) {
        let now = Instant::now();
        for (at, channel) in self.channels.iter_mut().enumerate() {
            let busy = channel.busy.as_ref().is_some_and(|task| !task.is_finished());
            if busy || channel.wakes.is_none_or(|moment| moment > now) {
                continue;
            }
            channel.wakes = None;
            let (parts, named) = (self.parts.clone(), channel.named.clone());
            let delivery = async move { (at, alert::deliver(parts, lead, named).await) };
            channel.busy = Some(self.deliveries.spawn(delivery));
        }
    }

    /// Waits for the next look, and hears of deliveries that end before it.
    async fn watch(&mut self, until: Instant, heartbeat: &LoopHeartbeat, quit: &CancellationToken) {
        loop {
            tokio::select! {
                () = pause(until, quit) => return,
                Some(done) = self.deliveries.join_next(), if !self.deliveries.is_empty() => {
                    let Ok((at, answer)) = done else { continue };
                    let wait = answer.unwrap_or_else(|error| {
                        log_error(heartbeat, &error);
                        Some(LOOK)
                    });
                    let wakes = wait.map(|wait| Instant::now() + wait);
                    // Something may have been gathered for it while it was busy.
                    let channel = &mut self.channels[at];
                    channel.wakes = [channel.wakes, wakes].into_iter().flatten().min();
                }
            }
        }
    }
}

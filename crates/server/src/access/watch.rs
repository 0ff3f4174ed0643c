//! Who keeps something open after its token was looked at: streams and long polls.
//!
//! A request is checked when it comes, and most are over before anything can change. For those that stay, one task
//! looks at the tokens again while there are any, and cuts off the holders of those that are worth nothing any more:
//! within two seconds, on whichever node a token was revoked. When nobody stays, it costs nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use backstop::{LoopHeartbeat, Loops};
use tokio_util::sync::CancellationToken;

use super::tokens::{TokenCache, Tokens};

/// How often the tokens are looked at. What is known of them may be a second old, so a revocation elsewhere is noticed
/// after one and a half.
const LOOK: Duration = Duration::from_millis(500);

/// How long the task may be silent (H11): as long as a store that is slow may take to answer.
const SILENT: Duration = Duration::from_secs(60);

/// The task, and how many stay because of whom it runs.
pub(super) struct TokenWatch {
    loops: Arc<Loops>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stay: usize,
    running: bool,
}

impl TokenWatch {
    pub(super) fn new(loops: Arc<Loops>) -> Self {
        Self { loops, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when nobody stays: then the task must stop, and the next who comes starts it again.
    fn is_over(&self) -> bool {
        let mut state = self.state();
        state.running = state.stay > 0;
        !state.running
    }
}

/// Keeps the tokens watched until it is dropped.
pub(crate) struct TokenWatchGuard(Arc<TokenCache>);

impl Drop for TokenWatchGuard {
    fn drop(&mut self) {
        self.0.watching.state().stay -= 1;
    }
}

impl Tokens {
    /// Watches the tokens for somebody who stays: [`Caller::ended`](super::Caller::ended) tells it when to go.
    pub(crate) fn watch(&self) -> TokenWatchGuard {
        let mut state = self.inner.watching.state();
        state.stay += 1;
        let starts = !std::mem::replace(&mut state.running, true);
        drop(state);
        if starts {
            let (inner, stop) = (Arc::downgrade(&self.inner), CancellationToken::new());
            let over = stop.clone();
            // The task of a supervisor goes on by itself.
            drop(self.inner.watching.loops.supervise("tokens", SILENT, stop, move |heartbeat| {
                let (inner, over) = (inner.clone(), over.clone());
                async move {
                    look_after(&inner, &heartbeat).await;
                    over.cancel();
                }
            }));
        }
        TokenWatchGuard(self.inner.clone())
    }
}

/// Looks at the tokens until nobody stays.
async fn look_after(inner: &Weak<TokenCache>, heartbeat: &LoopHeartbeat) {
    loop {
        heartbeat.record();
        tokio::time::sleep(LOOK).await;
        let Some(inner) = inner.upgrade() else { return };
        if inner.watching.is_over() {
            return;
        }
        // A store that is unavailable cuts nobody off: it says nothing of any token.
        if let Err(error) = (Tokens { inner }).look().await {
            tracing::debug!(%error, "the tokens of open streams could not be looked at");
        }
    }
}

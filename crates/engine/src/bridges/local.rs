//! Bridges that run in this process: whoever asks for a test here is answered at once.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::stored::BridgeTest;

/// What a test is answered with: a boxed future, so that the trait stays object-safe.
pub type BridgeTestAnswer<'a> = Pin<Box<dyn Future<Output = Option<BridgeTest>> + Send + 'a>>;

/// Who can test the bridges of this process.
pub trait BridgeTester: Send + Sync {
    /// Reaches the broker of a bridge and looks for its queues, without taking or sending a message; none when it is
    /// not one of its bridges.
    fn test<'a>(&'a self, bridge: &'a str) -> BridgeTestAnswer<'a>;
}

/// See the module.
#[derive(Default)]
pub(crate) struct LocalBridges(Mutex<Vec<Weak<dyn BridgeTester>>>);

impl fmt::Debug for LocalBridges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBridges").finish_non_exhaustive()
    }
}

impl LocalBridges {
    pub(super) fn add(&self, tester: &Arc<dyn BridgeTester>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(tester));
    }

    /// Those that are still there.
    fn all(&self) -> Vec<Arc<dyn BridgeTester>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|tester| tester.strong_count() > 0);
        known.iter().filter_map(Weak::upgrade).collect()
    }

    pub(super) async fn test(&self, bridge: &str) -> Option<BridgeTest> {
        for tester in self.all() {
            if let Some(test) = tester.test(bridge).await {
                return Some(test);
            }
        }
        None
    }
}

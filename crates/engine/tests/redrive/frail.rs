//! A store in whose calls a test can put a hand: each call is counted, and one of them can be lost or overtaken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backstop_core::JobId;
use backstop_core::job::JobSummary;
use backstop_store::{Answer, DocumentRange, Documents, Drawer, Error, Layer, Store};

/// Something that happens before a call, such as another node being faster.
pub(crate) type Before = Box<dyn Fn() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What happens to the chosen call.
pub(crate) enum Trouble {
    /// It is not made, and the process loses the store for good.
    DieBefore,
    /// It is made, its answer is lost, and the process loses the store for good.
    DieAfter,
    /// It is made, and its answer is lost.
    Forgotten,
    /// Something else happens first, then it is made.
    Overtaken(Before),
}

/// A store that gives trouble at one call, counted from 1.
pub(crate) struct Frail {
    inner: Arc<dyn Store>,
    call: usize,
    trouble: Trouble,
    calls: AtomicUsize,
    looks: AtomicUsize,
    plans: AtomicUsize,
}

impl Frail {
    pub(crate) fn new(inner: Arc<dyn Store>, call: usize, trouble: Trouble) -> Arc<Self> {
        let [calls, looks, plans] = [0; 3].map(AtomicUsize::new);
        Arc::new(Self { inner, call, trouble, calls, looks, plans })
    }

    /// True when the trouble has come.
    pub(crate) fn has_struck(&self) -> bool {
        self.calls.load(Ordering::SeqCst) >= self.call
    }

    /// How many jobs were looked at for what became of them, each time counted.
    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }

    /// How many plans were read, each time counted.
    pub(crate) fn plans(&self) -> usize {
        self.plans.load(Ordering::SeqCst)
    }
}

impl Layer for Frail {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        _: &'static str,
        verb: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        let verb = verb(&*self.inner);
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let location = "frail".to_owned();
        let lost = Error::Unavailable { location: location.clone(), problem: "dead".into(), source: None };
        match &self.trouble {
            Trouble::DieBefore if call >= self.call => Box::pin(std::future::ready(Err(lost))),
            Trouble::DieAfter if call > self.call => Box::pin(std::future::ready(Err(lost))),
            Trouble::DieAfter | Trouble::Forgotten if call == self.call => Box::pin(async move {
                verb.await?;
                Err(Error::Unknown { location, source: None })
            }),
            Trouble::Overtaken(before) if call == self.call => Box::pin(async move {
                before().await;
                verb.await
            }),
            _ => verb,
        }
    }

    fn job_summaries(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobSummary>>> {
        self.looks.fetch_add(ids.len(), Ordering::SeqCst);
        self.around("job_summaries", |store| store.job_summaries(ids))
    }

    fn documents(&self, range: DocumentRange) -> Answer<'_, Documents> {
        let drawer = range.drawer;
        let verb = self.around("documents", |store| store.documents(range));
        Box::pin(async move {
            let found = verb.await?;
            let plans = if drawer == Drawer::Plans { found.items.len() } else { 0 };
            self.plans.fetch_add(plans, Ordering::SeqCst);
            Ok(found)
        })
    }
}

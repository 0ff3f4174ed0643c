//! Retry budgets (F19): before endings are written, their retries get places in the calendar of their kind, which all
//! nodes share through the store.
//!
//! A place that is booked and then not used, because the ending turned out stale, is lost: the budget is a bound, and a
//! bound may be kept with room to spare. A store that is away books nothing and holds nothing up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::failure::{BudgetSettings, RetryBudget, Verdict};
use backstop_core::{Timestamp, failure::Cause};
use backstop_store::{
    Amend, Amended, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Finish, WorkStore,
};
use tokio::time::Instant;

use crate::config::Config;

/// How often first runs are told to the store when no retry tells them on its way.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// How often a booking is tried when other nodes book at the same moment.
const TRIES: usize = 8;

/// First runs that this process has ended and not told yet, by kind.
#[derive(Debug)]
pub(crate) struct Budgets {
    untold: Mutex<BTreeMap<Arc<str>, u64>>,
    told: Mutex<Instant>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { untold: Mutex::default(), told: Mutex::new(Instant::now()) }
    }
}

impl Budgets {
    /// Counts a first run that has ended.
    pub(crate) fn note_first_run(&self, kind: &Arc<str>) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        *untold.entry(kind.clone()).or_default() += 1;
    }

    fn take(&self, kind: &str) -> u64 {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).remove(kind).unwrap_or(0)
    }

    fn give_back(&self, kind: &Arc<str>, count: u64) {
        if count > 0 {
            let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
            *untold.entry(kind.clone()).or_default() += count;
        }
    }

    /// Moves retries that their kind has no room for to a later moment, and notes it in their decisions.
    pub(crate) async fn smear(&self, store: &dyn WorkStore, config: &Config, endings: &mut [Finish]) {
        let mut kinds: BTreeMap<Arc<str>, Vec<&mut Finish>> = BTreeMap::new();
        for finish in endings.iter_mut().filter(|finish| is_retry(finish)) {
            kinds.entry(finish.ending.job.kind.clone()).or_default().push(finish);
        }
        for (kind, mut retries) in kinds {
            let Some(settings) = config.budget(&kind) else { continue };
            if let Err(error) = self.book(store, &kind, settings, &mut retries).await {
                tracing::debug!(%kind, %error, "cannot book retries; they keep their time");
            }
        }
    }

    /// Tells the store of first runs, when that is due: other nodes' retries are a share of them too.
    pub(crate) async fn tell(&self, store: &dyn WorkStore, config: &Config) {
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.elapsed() < TELL_EVERY {
                return;
            }
            *told = Instant::now();
        }
        let kinds: Vec<Arc<str>> =
            self.untold.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
        for kind in kinds {
            let booked = match config.budget(&kind) {
                Some(settings) => self.book(store, &kind, settings, &mut []).await,
                None => {
                    self.take(&kind);
                    Ok(())
                }
            };
            if let Err(error) = booked {
                tracing::debug!(%kind, %error, "cannot report first runs; trying again later");
                return;
            }
        }
    }

    async fn book(
        &self,
        store: &dyn WorkStore,
        kind: &Arc<str>,
        settings: BudgetSettings,
        retries: &mut [&mut Finish],
    ) -> Result<(), StoreError> {
        let first_runs = self.take(kind);
        for _ in 0..TRIES {
            let booked = self.try_book(store, kind, settings, first_runs, retries).await;
            match booked {
                Ok(None) => {}
                Ok(Some(places)) => {
                    for (finish, wait) in retries.iter_mut().zip(places) {
                        apply(finish, wait);
                    }
                    return Ok(());
                }
                Err(error) => {
                    self.give_back(kind, first_runs);
                    return Err(error);
                }
            }
        }
        self.give_back(kind, first_runs);
        Ok(())
    }

    /// Books once: the wait of each retry, or none when another node was quicker.
    async fn try_book(
        &self,
        store: &dyn WorkStore,
        kind: &str,
        settings: BudgetSettings,
        first_runs: u64,
        retries: &[&mut Finish],
    ) -> Result<Option<Vec<Duration>>, StoreError> {
        let range = DocumentRange::first(Drawer::Budgets, 1).under(kind);
        let found = store.documents(range).await?;
        let now = found.now;
        let document = found.items.into_iter().next().filter(|document| document.key == kind);
        let expect = document.as_ref().map_or(Expect::Absent, |document| Expect::Revision(document.revision));
        // One that cannot be read is of another time; a new one loses nothing but a few bookings.
        let mut budget: RetryBudget =
            document.and_then(|document| serde_json::from_str(&document.body).ok()).unwrap_or_default();
        budget.note_first_runs(now, first_runs);
        let places = retries.iter().map(|finish| place(&mut budget, finish, &settings, now)).collect();
        let body = serde_json::to_string(&budget).expect("a budget is plain data");
        let edit = Edit { drawer: Drawer::Budgets, key: kind.to_owned(), expect, body: Some(body.into()) };
        match store.amend(Amend { edits: vec![edit], ..Amend::default() }).await? {
            Amended::Done { .. } => Ok(Some(places)),
            Amended::Conflict { .. } | Amended::Refused { .. } => Ok(None),
        }
    }
}

fn is_retry(finish: &Finish) -> bool {
    matches!(finish.ending.decision.verdict, Verdict::Retry { .. }) && finish.ending.cause != Cause::Succeeded
}

fn place(budget: &mut RetryBudget, finish: &Finish, settings: &BudgetSettings, now: Timestamp) -> Duration {
    let Verdict::Retry { delay } = finish.ending.decision.verdict else { return Duration::ZERO };
    now.until(budget.admit(now, now.after(delay), settings))
}

fn apply(finish: &mut Finish, wait: Duration) {
    if let Verdict::Retry { delay } = finish.ending.decision.verdict
        && wait > delay
    {
        finish.ending.decision.smear(wait, "this kind has used its retries for now");
    }
}

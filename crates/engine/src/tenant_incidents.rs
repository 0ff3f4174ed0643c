//! The limit on the incidents of a tenant (E13): before endings are written, failures that would open more of them are
//! counted for one incident of their kind.
//!
//! A failed run is always recorded, so nothing is refused here, and a store that is away holds nothing up. Jobs of no
//! tenant cost nothing. The number is asked for now and then: several nodes together may pass the limit by a few.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use backstop_core::failure::Fingerprint;
use backstop_core::failure::fingerprint::gathered;
use backstop_core::tenant::{self, TenantRoom};
use backstop_store::{Error as StoreError, Finish, Store};
use tokio::time::Instant;

use crate::config::Config;

/// What is known of the incidents of tenants.
#[derive(Debug, Default)]
pub(crate) struct TenantIncidents(Mutex<HashMap<String, Known>>);

#[derive(Debug)]
struct Known {
    /// Incidents that are there.
    seen: HashSet<Fingerprint>,
    incidents: usize,
    since: Instant,
}

impl Known {
    fn is_old(&self, most: usize) -> bool {
        let is_full = tenant::room(false, self.incidents, most) == TenantRoom::Full;
        self.since.elapsed() >= if is_full { tenant::FULL_FOR } else { tenant::KNOWN_FOR }
    }
}

impl TenantIncidents {
    /// Gathers the failures of tenants that have as many incidents as they may.
    pub(crate) async fn gather(&self, store: &dyn Store, config: &Config, endings: &mut [Finish]) {
        let mut tenants: BTreeMap<String, Vec<&mut Finish>> = BTreeMap::new();
        for finish in endings.iter_mut().filter(|finish| finish.ending.incident().is_some()) {
            if let Some(tenant) = tenant::of_queue(&finish.ending.job.queue) {
                tenants.entry(tenant.to_owned()).or_default().push(finish);
            }
        }
        let most = config.limits.incidents_per_tenant;
        for (tenant, failures) in tenants {
            if let Err(error) = self.gather_of(store, &tenant, most, failures).await {
                tracing::debug!(tenant, %error, "cannot count the incidents of a tenant");
            }
        }
    }

    async fn gather_of(
        &self,
        store: &dyn Store,
        tenant: &str,
        most: usize,
        failures: Vec<&mut Finish>,
    ) -> Result<(), StoreError> {
        let wanted: HashSet<Fingerprint> = failures.iter().filter_map(|finish| fingerprint(finish)).collect();
        let mut further = self.unknown(tenant, most, wanted);
        if further.is_empty() {
            return Ok(());
        }
        // By no means all of them are new: this process may have just been started.
        further.sort_unstable();
        let found = store.incidents_of(further.clone()).await?;
        let there: Vec<Fingerprint> =
            found.into_iter().flatten().map(|incident| incident.fingerprint).collect();
        let incidents = store.holdings(tenant.to_owned(), most).await?.incidents;
        let over = self.learn(tenant, most, incidents, there, further);
        if over.is_empty() {
            return Ok(());
        }
        tracing::warn!(
            tenant,
            limit = most,
            "the tenant is at its limit of incidents: further failures are counted for one incident of their kind"
        );
        for finish in failures {
            let kind = tenant::incident_kind(&finish.ending.job.queue, &finish.ending.job.kind).into_owned();
            if let Some(failure) = finish.ending.failure.as_mut().filter(|it| over.contains(&it.fingerprint))
            {
                failure.fingerprint = gathered(&kind);
            }
        }
        Ok(())
    }

    /// Those of these that the store has to be asked for. Where there is room for all, none has.
    fn unknown(&self, tenant: &str, most: usize, wanted: HashSet<Fingerprint>) -> Vec<Fingerprint> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.get_mut(tenant).filter(|known| !known.is_old(most)) else {
            return wanted.into_iter().collect();
        };
        let further: Vec<Fingerprint> =
            wanted.into_iter().filter(|print| !known.seen.contains(print)).collect();
        // The last of them has to fit too.
        let before_last = known.incidents + further.len().saturating_sub(1);
        if tenant::room(false, before_last, most) == TenantRoom::Full {
            return further;
        }
        known.incidents += further.len();
        known.seen.extend(further);
        Vec::new()
    }

    /// Takes over what the store says, and answers those that there is no room for.
    fn learn(
        &self,
        tenant: &str,
        most: usize,
        incidents: usize,
        there: Vec<Fingerprint>,
        further: Vec<Fingerprint>,
    ) -> HashSet<Fingerprint> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(tenant.to_owned()).or_insert_with(|| Known {
            seen: HashSet::new(),
            incidents: 0,
            since: Instant::now(),
        });
        if known.is_old(most) {
            known.seen.clear();
            known.since = Instant::now();
        }
        known.incidents = incidents;
        known.seen.extend(there);
        let mut over = HashSet::new();
        for print in further {
            match tenant::room(known.seen.contains(&print), known.incidents, most) {
                TenantRoom::Known => {}
                TenantRoom::Free => {
                    known.incidents += 1;
                    known.seen.insert(print);
                }
                TenantRoom::Full => {
                    over.insert(print);
                }
            }
        }
        over
    }
}

fn fingerprint(finish: &Finish) -> Option<Fingerprint> {
    finish.ending.failure.as_ref().map(|failure| failure.fingerprint.clone())
}

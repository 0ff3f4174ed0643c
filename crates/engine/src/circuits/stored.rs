//! Circuits as documents: one for each dependency.

use std::time::Duration;

use backstop_core::circuit::{Circuit, CircuitAlert, CircuitNotice, CircuitProbe};
use backstop_core::{JobId, Timestamp};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, WorkStore,
};

use crate::alerts::Alerts;
use crate::alerts::stored::{named_channels, removals};

/// Documents that are read at once.
const PAGE: usize = 500;

/// Times that a change is tried while others change the same circuit.
pub(super) const TRIES: usize = 50;

/// How long a circuit stays that is closed and not called.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(86_400);

/// A circuit as it was read; a revision of 0 says that there is none yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredCircuit {
    pub(crate) key: String,
    pub(crate) revision: i64,
    pub(crate) circuit: Circuit,
}

fn read(document: Document) -> StoredCircuit {
    let circuit = serde_json::from_str(&document.body).unwrap_or_else(|error| {
        tracing::error!(key = document.key, %error, "a stored circuit cannot be read and begins again");
        Circuit::default()
    });
    StoredCircuit { key: document.key, revision: document.revision, circuit }
}

/// Every circuit, by key, with the store's clock.
pub(super) async fn all(store: &dyn WorkStore) -> Result<(Timestamp, Vec<StoredCircuit>), StoreError> {
    let (mut circuits, mut range) = (Vec::new(), DocumentRange::first(Drawer::Circuits, PAGE));
    loop {
        let found = store.documents(range).await?;
        circuits.extend(found.items.into_iter().map(read));
        let Some(last) = circuits.last().filter(|_| found.more) else { return Ok((found.now, circuits)) };
        range = DocumentRange::first(Drawer::Circuits, PAGE).after(last.key.clone());
    }
}

/// The circuit of one dependency, with the store's clock.
pub(super) async fn one(store: &dyn WorkStore, key: &str) -> Result<(Timestamp, StoredCircuit), StoreError> {
    // The key itself comes before all that begin with it.
    let found = store.documents(DocumentRange::first(Drawer::Circuits, 1).under(key)).await?;
    let document = found.items.into_iter().next().filter(|document| document.key == key);
    let none = || StoredCircuit { key: key.to_owned(), revision: 0, circuit: Circuit::default() };
    Ok((found.now, document.map_or_else(none, read)))
}

/// Writes a circuit unless somebody else has since it was read, with the alert about it; answers its new revision.
pub(super) async fn write(
    store: &dyn WorkStore,
    circuit: &StoredCircuit,
    notice: Option<&CircuitNotice>,
) -> Result<Option<i64>, StoreError> {
    let expect = if circuit.revision == 0 { Expect::Absent } else { Expect::Revision(circuit.revision) };
    let body = serde_json::to_string(&circuit.circuit).unwrap_or_default();
    let edit = Edit { drawer: Drawer::Circuits, key: circuit.key.clone(), expect, body: Some(body.into()) };
    let notice = notice.map(|notice| {
        let body = serde_json::to_string(notice).unwrap_or_default();
        let (drawer, expect) = (Drawer::Alerts, Expect::Absent);
        Edit { drawer, key: notice.outbox_key(), expect, body: Some(body.into()) }
    });
    let edits = [Some(edit), notice].into_iter().flatten().collect();
    let amended = store.amend(Amend { edits, ..Amend::default() }).await?;
    Ok(matches!(amended, Amended::Done { .. }).then_some(circuit.revision + 1))
}

/// Tries of runs that others end, by circuit. They are read before others may have the jobs: a later try of one of them
/// is not the dead one's.
pub(crate) struct DeadTries(Vec<StoredTries>);

struct StoredTries {
    key: String,
    generation: u64,
    probes: Vec<CircuitProbe>,
}

impl DeadTries {
    /// Those of runs of these jobs.
    pub(crate) async fn of(store: &dyn WorkStore, jobs: &[JobId]) -> Result<Self, StoreError> {
        let (_, circuits) = all(store).await?;
        let tries = circuits.into_iter().map(|StoredCircuit { key, circuit, .. }| StoredTries {
            key,
            generation: circuit.generation,
            probes: circuit.probes_of(jobs),
        });
        Ok(Self(tries.filter(|tries| !tries.probes.is_empty()).collect()))
    }

    /// Takes those of runs back that were ended, so that others try in their place at once.
    pub(crate) async fn take_back(
        mut self,
        store: &dyn WorkStore,
        ended: &[JobId],
    ) -> Result<(), StoreError> {
        for StoredTries { key, probes, .. } in &mut self.0 {
            probes.retain(|probe| ended.contains(&probe.job));
            let tries = if probes.is_empty() { 0 } else { TRIES };
            for _ in 0..tries {
                let (_, mut stored) = one(store, key).await?;
                if !stored.circuit.take_back(probes) || write(store, &stored, None).await?.is_some() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Those of runs that were ended: the circuit, its generation, and the job.
    pub(super) fn of_ended(&self, ended: &[JobId]) -> impl Iterator<Item = (&str, u64, JobId)> {
        self.0.iter().flat_map(|StoredTries { key, generation, probes }| {
            let probes = probes.iter().filter(|probe| ended.contains(&probe.job));
            probes.map(|probe| (key.as_str(), *generation, probe.job))
        })
    }
}

/// Removes circuits that nobody has called for a day, with what alert channels were told of them: keys come with jobs,
/// and there may be any number of them.
pub(crate) async fn sweep(store: &dyn WorkStore, alerts: &Alerts) -> Result<(), StoreError> {
    let (now, circuits) = all(store).await?;
    for circuit in circuits.into_iter().filter(|one| one.circuit.is_idle(FORGOTTEN_AFTER, now)) {
        let (about, expect) = (CircuitAlert::about(&circuit.key), Expect::Revision(circuit.revision));
        let mut edits = vec![Edit { drawer: Drawer::Circuits, key: circuit.key, expect, body: None }];
        for named in named_channels(alerts) {
            edits.extend(removals(&named.name, &about));
        }
        // One that somebody has changed meanwhile stays.
        store.amend(Amend { edits, ..Amend::default() }).await?;
    }
    Ok(())
}

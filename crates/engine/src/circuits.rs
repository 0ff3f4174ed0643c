//! Circuits (H3, H4): a dependency that fails is left alone for a while, by all workers of a store.

pub use backstop_core::circuit::{
    CallCounts, CallResult, Circuit, CircuitAdmission, CircuitAlert, CircuitChange, CircuitSettings,
    CircuitState,
};

pub(crate) mod breakers;
pub(crate) mod own;
mod own_needs;
pub(crate) mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::scale::LimitedJobs;
use backstop_core::{Refusal, Timestamp, circuit};
use backstop_store::Error as StoreError;

use self::own_needs::OwnNeeds;
use self::stored::StoredCircuit;
use crate::engine::Backstop;
use crate::limits::{ASKED_AT_ONCE, pending_of};
use crate::parts::EngineParts;

/// Why a circuit was not changed.
#[derive(Debug, thiserror::Error)]
pub enum CircuitProblem {
    /// The name or the time cannot be meant.
    #[error(transparent)]
    Invalid(#[from] Refusal),
    /// Nothing is known of it.
    #[error("nothing is known of a circuit `{0}`: it is closed, or its name has a mistake")]
    Unknown(String),
    /// There are too many.
    #[error("there are {MOST} circuits already; use one of them")]
    TooMany,
    /// Others change it all the time.
    #[error("circuit `{0}` was changed by others again and again; nothing was changed, try once more")]
    Changing(String),
    /// The store is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A circuit as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitView {
    /// The dependency.
    pub key: String,
    /// What it lets through, and since when.
    pub circuit: Circuit,
    /// Calls of the last time.
    pub counts: CallCounts,
    /// Jobs that wait for it while it is not closed: pending ones, due or not, of kinds that settings say need it, and
    /// those that name it themselves or by their payload. Of a kind whose jobs do that, the newest 1,000 are looked at.
    pub waiting: u64,
    /// The moment of this view.
    pub now: Timestamp,
}

/// The circuits of a store: see [`Backstop::circuits`].
#[derive(Debug, Clone, Copy)]
pub struct Circuits<'a> {
    parts: &'a Arc<EngineParts>,
}

/// Circuits that a store holds at most by the hands of people. Those of dependencies are as many as there are.
const MOST: usize = 1_000;

/// The longest time that a circuit can be opened for by hand.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

impl Backstop {
    /// The circuits of dependencies, shared by all workers of the store (H3). Each is made by the first run that calls
    /// its dependency and fails, or by hand.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::circuits::{CircuitProblem, CircuitState, CircuitView, Circuits};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let circuits: Circuits<'_> = engine.circuits();
    /// let opened: CircuitView = circuits.open("payments", "ann", Some(Duration::from_secs(600))).await?;
    /// assert_eq!(opened.circuit.state, CircuitState::Open);
    /// assert_eq!(circuits.list().await?[0].key, "payments");
    /// circuits.close("payments", "ann").await?;
    /// let never = circuits.open("payments", "ann", Some(Duration::ZERO)).await;
    /// assert!(matches!(never, Err(CircuitProblem::Invalid(_))));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn circuits(&self) -> Circuits<'_> {
        Circuits { parts: &self.parts }
    }
}

impl<'a> Circuits<'a> {
    pub(crate) const fn of(parts: &'a Arc<EngineParts>) -> Self {
        Self { parts }
    }

    /// Every circuit that was ever needed, by key.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<CircuitView>, StoreError> {
        let (now, found) = stored::all(&*self.parts.store).await?;
        let own = self.own_needs(&found).await?;
        let mut views = Vec::with_capacity(found.len());
        for found in found {
            views.push(self.view(found, now, &own).await?);
        }
        Ok(views)
    }

    /// The circuit of a dependency; none when nothing is known of it.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(self, key: &str) -> Result<Option<CircuitView>, StoreError> {
        let (now, found) = stored::one(&*self.parts.store, key).await?;
        if found.revision == 0 { Ok(None) } else { self.one_view(found, now).await.map(Some) }
    }

    /// What jobs need that say it themselves, if that matters to any of these circuits.
    async fn own_needs(self, circuits: &[StoredCircuit]) -> Result<OwnNeeds, StoreError> {
        if circuits.iter().all(|found| found.circuit.state == CircuitState::Closed) {
            return Ok(OwnNeeds::default());
        }
        OwnNeeds::read(self.parts).await
    }

    async fn one_view(self, found: StoredCircuit, now: Timestamp) -> Result<CircuitView, StoreError> {
        let own = self.own_needs(std::slice::from_ref(&found)).await?;
        self.view(found, now, &own).await
    }

    async fn view(
        self,
        found: StoredCircuit,
        now: Timestamp,
        own: &OwnNeeds,
    ) -> Result<CircuitView, StoreError> {
        let StoredCircuit { key, circuit, .. } = found;
        let EngineParts { config, store, .. } = &**self.parts;
        let counts = circuit.counts(&config.circuit(&key), now);
        let mut waiting = 0;
        if circuit.state != CircuitState::Closed {
            let kinds: Vec<&str> = self.needing(&key).collect();
            let counted = store.run_limits(kinds.iter().map(|kind| pending_of(kind, None)).collect()).await?;
            let pending = counted.iter().map(|counted| counted.pending);
            waiting = own.waiting_for(&key, &kinds.into_iter().zip(pending).collect::<Vec<_>>());
        }
        Ok(CircuitView { key, circuit, counts, waiting, now })
    }

    /// Kinds whose jobs need a dependency, as settings say, whatever their payload is.
    fn needing(self, key: &str) -> impl Iterator<Item = &'a str> {
        let EngineParts { config, .. } = &**self.parts;
        let all = config.kind_dependencies.iter();
        let needing = all.filter(move |(kind, needed)| {
            needed.as_str() == key && !config.dependency_fields.contains_key(*kind)
        });
        needing.map(|(kind, _)| kind.as_str())
    }

    /// The pending jobs of these queues that circuits hold back for now, of kinds that are left out of claims with
    /// them: no worker could start them, however many there were. Of those of a circuit that may be tried, as many as
    /// may try it have room.
    pub(crate) async fn limited(
        self,
        queues: &[&str],
    ) -> Result<BTreeMap<String, Vec<LimitedJobs>>, StoreError> {
        let EngineParts { config, store, circuits, .. } = &**self.parts;
        let (now, found) = stored::all(&**store).await?;
        if found.iter().any(|found| found.circuit.state != CircuitState::Closed) {
            circuits.own.keep_up(&**store).await?;
        }
        let mut limited: BTreeMap<String, Vec<LimitedJobs>> = BTreeMap::new();
        for StoredCircuit { key, circuit, .. } in found {
            let settings = config.circuit(&key);
            let tries = if circuit.is_shut(&settings, now) { 0 } else { settings.probes };
            let kinds: Vec<&str> = self.needing(&key).filter(|kind| !circuits.own.has(kind)).collect();
            if circuit.state == CircuitState::Closed || kinds.is_empty() {
                continue;
            }
            for some in queues.chunks((ASKED_AT_ONCE / kinds.len()).max(1)) {
                let asked =
                    some.iter().flat_map(|queue| kinds.iter().map(|kind| pending_of(kind, Some(queue))));
                let counted = store.run_limits(asked.collect()).await?;
                for (queue, counted) in some.iter().zip(counted.chunks(kinds.len())) {
                    let (mut tries, held) = (tries, limited.entry((*queue).to_owned()).or_default());
                    for (kind, counted) in kinds.iter().zip(counted) {
                        let (pending, room) = (counted.pending, counted.pending.min(tries));
                        tries -= room;
                        held.push(LimitedJobs { kind: Some(Arc::from(*kind)), pending, room });
                    }
                }
            }
        }
        Ok(limited)
    }

    /// Opens a circuit by hand, for a time or for as long as its settings say: its jobs wait, and nobody is charged.
    ///
    /// # Errors
    /// When the name or the time cannot be meant, or the store is away.
    pub async fn open(
        self,
        key: &str,
        by: &str,
        span: Option<Duration>,
    ) -> Result<CircuitView, CircuitProblem> {
        if span.is_some_and(|span| span.is_zero() || span > LONGEST) {
            return Err(Refusal::invalid("for_ms", "it is between 1 ms and 30 days").into());
        }
        circuit::check_key(key, &self.parts.config.limits)?;
        let span = span.unwrap_or(self.parts.config.circuit(key).open);
        let (_, known) = stored::all(&*self.parts.store).await?;
        if known.len() >= MOST && known.iter().all(|known| known.key != key) {
            return Err(CircuitProblem::TooMany);
        }
        self.by_hand(key, |circuit, now| circuit.open_by_hand(by, span, now)).await
    }

    /// Closes a circuit by hand: its jobs run at once.
    ///
    /// # Errors
    /// When the name cannot be meant, or the store is away.
    pub async fn close(self, key: &str, by: &str) -> Result<CircuitView, CircuitProblem> {
        circuit::check_key(key, &self.parts.config.limits)?;
        if stored::one(&*self.parts.store, key).await?.1.revision == 0 {
            return Err(CircuitProblem::Unknown(key.to_owned()));
        }
        self.by_hand(key, |circuit, now| circuit.close_by_hand(by, now)).await
    }

    async fn by_hand(
        self,
        key: &str,
        what: impl Fn(&mut Circuit, Timestamp) -> CircuitChange,
    ) -> Result<CircuitView, CircuitProblem> {
        let place = (&**self.parts).into();
        let changed =
            self.parts.circuits.change(&place, key, |circuit, now| Some(what(circuit, now))).await?;
        match changed {
            Some((found, now)) => Ok(self.one_view(found, now).await?),
            None => Err(CircuitProblem::Changing(key.to_owned())),
        }
    }
}

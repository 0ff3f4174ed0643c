//! Handing work out: at once when there is some, otherwise when it arrives or becomes due (L13).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{JobView, Spec};
use backstop_core::{Timestamp, WorkerId};
use backstop_store::{
    Claim, ClaimQueue, Claimed, ClaimedJob, Error as StoreError, Finish, KnownKind, NewWorker,
};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::Remote;
use super::finish::RemoteEnding;
use super::signals;
use super::suspect::SuspectTurn;
use super::taken::Taken;
use super::work::{Grant, Handed, WorkRequest};
use crate::outcome::{Failed, Reply};
use crate::parts::EngineParts;
use crate::poll_interval::PollInterval;
use crate::run::before::{Runner, before_run};
use crate::run_checks::patience_elsewhere;
use crate::sealing;
use crate::workflows::inputs::{self, Inputs};

/// How often somebody who waits looks for work when no wake-up comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many wake-ups by the work of others are followed at once, and the pause before each one after that.
const FEW: u32 = 3;
const BREATH: Duration = Duration::from_millis(5);

/// What a run is given.
struct GivenData {
    payload: Arc<str>,
    inputs: Inputs,
    steps: Vec<(String, serde_json::Value)>,
}

impl Remote {
    /// Hands out jobs, and waits for them when there are none; an empty answer says that the wait is over.
    ///
    /// It can be dropped at any moment: jobs that were taken for an answer that nobody reads go back without blame.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn claim(&self, request: WorkRequest) -> Result<Vec<Handed>, StoreError> {
        let request = Arc::new(request);
        let until = Instant::now() + request.wait;
        let mut arrivals = self.parts.events.arrivals();
        let mut interval = PollInterval::new(LOOK_EVERY);
        let (mut told, mut fruitless) = (None, 0_u32);
        loop {
            arrivals.mark_unchanged();
            // Two workers that go by one name take turns with its row; nobody's turn may wake the other at once.
            if told.is_none_or(|at: Instant| at.elapsed() >= LOOK_EVERY) {
                self.present(&request).await?;
                told = Some(Instant::now());
            }
            let suspect = self.suspect_turn(&request.worker, request.lease).await?;
            let room = self.failure_room(&request.worker).await?.unwrap_or(request.limit).min(request.limit);
            let kinds = self.claimable(&request).await?;
            let look = self.ask(&request, &kinds, NOBODY, &request.queues, request.limit);
            let peek = self.parts.store.peek(&look).await?;
            self.parts.limits.follow(&*self.parts.store, &self.parts.config, &peek).await?;
            let waits = room == 0 || matches!(suspect, SuspectTurn::Wait);
            if !waits && (peek.has_work() || matches!(suspect, SuspectTurn::Ready(..))) {
                let request = Arc::new(WorkRequest { limit: room, ..(*request).clone() });
                let taken = self.take(&request, kinds, suspect).await?;
                if !taken.jobs.is_empty() {
                    self.busy(&request.worker, request.lease).await;
                    return Ok(taken.keep());
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Vec::new());
            }
            // Work that others were quicker to take looks due until they have it: that is no reason to spin.
            let due = peek.next_due.filter(|_| !waits && !peek.has_work()).map(|due| peek.now.until(due));
            let look = interval.pause();
            let woken = rest(&mut arrivals, due.unwrap_or(look).min(look).min(left)).await;
            fruitless = if woken { fruitless.saturating_add(1) } else { 0 };
            if fruitless > FEW {
                tokio::time::sleep(BREATH.min(left)).await;
            }
        }
    }

    /// Takes what there is, in a task of its own: a claim that is under way is always seen to its end.
    async fn take(
        &self,
        request: &Arc<WorkRequest>,
        kinds: Arc<[KnownKind]>,
        suspect: SuspectTurn,
    ) -> Result<Taken, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let (remote, request) = (self.clone(), request.clone());
        let batch = crate::ids::batch_id(request.worker.id());
        let nothing = Taken::new(self.parts.clone(), batch);
        tokio::spawn(async move {
            let taken = match suspect {
                SuspectTurn::Ready(suspect, batch) => remote.take_suspect(&request, *suspect, batch).await,
                SuspectTurn::None | SuspectTurn::Wait => remote.take_batch(&request, &kinds, batch).await,
            };
            // When nobody listens any more, what was taken is dropped here, and so handed back.
            let _ = sender.send(taken);
        });
        receiver.await.unwrap_or(Ok(nothing))
    }

    /// Hands out the suspect that waited for its worker to be alone.
    async fn take_suspect(
        &self,
        request: &WorkRequest,
        suspect: ClaimedJob,
        batch: u32,
    ) -> Result<Taken, StoreError> {
        let mut taken = Taken::new(self.parts.clone(), suspect.lease.worker);
        // The lease runs from here on: it has waited for a while.
        let renewed = self.parts.store.renew(suspect.lease.worker, request.lease, Vec::new()).await;
        match renewed {
            Ok(_) => self.start_alone(request, suspect, batch, &mut taken).await?,
            Err(StoreError::NotEnlisted { .. }) => {}
            Err(error) => return Err(error),
        }
        self.add_failures(&mut taken.jobs).await;
        Ok(taken)
    }

    async fn take_batch(
        &self,
        request: &WorkRequest,
        kinds: &Arc<[KnownKind]>,
        batch: WorkerId,
    ) -> Result<Taken, StoreError> {
        let store = &self.parts.store;
        let since = Instant::now();
        store.enlist(introduction(request, batch)).await?;
        let mut taken = Taken::new(self.parts.clone(), batch);
        let (mut refused, mut alone) = (Vec::new(), Vec::new());
        for queue in &request.queues {
            let room = request.limit.saturating_sub(taken.jobs.len());
            if room == 0 || !alone.is_empty() {
                break;
            }
            match self.take_from(request, kinds, batch, queue, room).await {
                Ok(claimed) => {
                    let claimed = self.part_suspects(claimed, &mut alone).await;
                    let left = request.lease.saturating_sub(since.elapsed());
                    self.sort(request, claimed, left, &mut taken, &mut refused).await;
                }
                // The store was slower than the lease: nothing of this batch is held, and the next look starts anew.
                Err(StoreError::NotEnlisted { .. }) => break,
                // What was taken before is there to be handed out all the same.
                Err(_) if !taken.jobs.is_empty() => break,
                Err(error) => {
                    let _ = store.retire(batch).await;
                    return Err(error);
                }
            }
        }
        self.close(refused).await;
        let held = self.keep_suspect(request, alone, &mut taken).await;
        let size = u32::try_from(taken.jobs.len() + usize::from(held)).unwrap_or(u32::MAX);
        taken.jobs.iter_mut().for_each(|handed| handed.grant.batch = size);
        if size == 0 {
            let _ = store.retire(batch).await;
        }
        self.add_failures(&mut taken.jobs).await;
        Ok(taken)
    }

    /// Starts those suspects that may run beside others, and leaves those that may not in `alone` (C3).
    async fn part_suspects(&self, claimed: Claimed, alone: &mut Vec<ClaimedJob>) -> Claimed {
        let EngineParts { store, cleared_suspects, .. } = &*self.parts;
        let (mut started, suspects): (Vec<ClaimedJob>, Vec<ClaimedJob>) =
            claimed.jobs.into_iter().partition(ClaimedJob::is_started);
        let mut released = Vec::new();
        for suspect in suspects {
            let found = cleared_suspects.look_into(&**store, &suspect.job, &suspect.record).await;
            // What cannot be looked into is never wrong alone.
            let beside_others = found.is_ok_and(|found| !found.alone);
            if beside_others { released.push(suspect) } else { alone.push(suspect) }
        }
        if !released.is_empty() {
            let leases = released.iter().map(|suspect| suspect.lease).collect();
            let mut answers = store.start(leases).await.unwrap_or_default().into_iter();
            for mut suspect in released {
                let has_begun = answers.next() == Some(Ok(())) && suspect.note_started();
                if has_begun { started.push(suspect) } else { alone.push(suspect) }
            }
        }
        Claimed { jobs: started, ..claimed }
    }

    /// Keeps one suspect for the worker, and hands the others back. It starts at once if the worker has nothing else;
    /// otherwise it waits, and this answers true.
    async fn keep_suspect(
        &self,
        request: &WorkRequest,
        mut alone: Vec<ClaimedJob>,
        taken: &mut Taken,
    ) -> bool {
        if alone.is_empty() {
            return false;
        }
        let others = alone.split_off(1);
        self.hand_back(&others, Duration::ZERO).await;
        let Some(suspect) = alone.pop() else { return false };
        let batch = u32::try_from(taken.jobs.len() + 1).unwrap_or(u32::MAX);
        let kept = async {
            let claimed_at = suspect.record.hold.map_or(Timestamp::MIN, |hold| hold.claimed_at);
            self.note_suspect(&request.worker, suspect.lease, batch, claimed_at).await?;
            Ok(taken.jobs.is_empty() && !self.has_others(&request.worker, suspect.lease).await?)
        };
        let back = std::slice::from_ref(&suspect);
        match kept.await {
            Ok(false) => true,
            Ok(true) => {
                let started = self.start_alone(request, suspect, batch, taken).await;
                if let Err(error) = &started {
                    tracing::warn!(%error, "a suspect is requeued when its lease expires");
                }
                // It may have been started: without the row of its batch it would count as crashed at once.
                started.is_err()
            }
            Err(StoreError::NotEnlisted { .. }) => false,
            Err(error) => {
                tracing::warn!(%error, job = %suspect.lease.job, "a suspect could not be kept for its worker");
                self.hand_back(back, Duration::ZERO).await;
                false
            }
        }
    }

    /// Counts the start of a suspect, and hands it out.
    async fn start_alone(
        &self,
        request: &WorkRequest,
        mut suspect: ClaimedJob,
        batch: u32,
        taken: &mut Taken,
    ) -> Result<(), StoreError> {
        let started = self.parts.store.start(vec![suspect.lease]).await?;
        if started != [Ok(())] || !suspect.note_started() {
            return Ok(());
        }
        let mut refused = Vec::new();
        let claimed = Claimed { jobs: vec![suspect], ..Claimed::nothing(self.parts.store.now().await?) };
        self.sort(request, claimed, request.lease, taken, &mut refused).await;
        taken.jobs.iter_mut().for_each(|handed| handed.grant.batch = batch);
        self.close(refused).await;
        Ok(())
    }

    async fn take_from(
        &self,
        request: &WorkRequest,
        kinds: &Arc<[KnownKind]>,
        batch: WorkerId,
        queue: &Arc<str>,
        room: usize,
    ) -> Result<Claimed, StoreError> {
        let store = &self.parts.store;
        let mut claim = self.ask(request, kinds, batch, std::slice::from_ref(queue), room);
        // One of several queues may well be empty, and a look costs less than a claim.
        if request.queues.len() > 1 {
            let peek = store.peek(&claim).await?;
            if !peek.has_work() {
                return Ok(Claimed::nothing(peek.now));
            }
        }
        self.parts.limit(&mut claim).await?;
        store.claim(claim).await
    }

    /// Parts what may be run from what is refused before any handler sees it.
    async fn sort(
        &self,
        request: &WorkRequest,
        claimed: Claimed,
        left: Duration,
        taken: &mut Taken,
        refused: &mut Vec<RemoteEnding>,
    ) {
        let EngineParts { store, config, run_checks, .. } = &*self.parts;
        let specs: Vec<&Spec> = claimed.jobs.iter().map(|one| &one.job.spec).collect();
        let inputs = inputs::of_all(&self.parts, &specs).await;
        let jobs: Vec<_> = claimed.jobs.iter().map(|one| one.job.clone()).collect();
        // All queues of one request together: what was claimed first must not wait for long.
        let spent = request.lease.saturating_sub(left);
        let patience = patience_elsewhere(request.lease).saturating_sub(spent);
        let asked = run_checks.ask_all(&jobs, patience).await;
        drop(jobs);
        for ((one, inputs), asked) in claimed.jobs.into_iter().zip(inputs).zip(asked) {
            let spec = &one.job.spec;
            let knows = request.kinds.iter().any(|known| known.covers(&spec.kind, spec.version));
            let runner = Runner { code_version: request.code_version.as_deref(), knows };
            let checked = before_run(&**store, config, &one.job, &one.record, &runner).await.and(asked);
            // A worker elsewhere has no keys: what is sealed in the store is opened for it here (E12).
            let opened = checked.and_then(|()| sealing::payload(config, spec).map_err(Failed::plain));
            let given = match opened {
                Ok(payload) => self.given(&one, payload, inputs).await,
                Err(failed) => Err(failed),
            };
            let admitted = match given {
                Ok(given) => {
                    let needs = self.needs_of(request, spec).await;
                    let admitted = self.parts.admit(spec.id, &needs).await;
                    admitted.map(|call| (given, call.map(|call| call.pass())))
                }
                Err(failed) => Err(failed),
            };
            match admitted {
                Ok((given, circuit)) => {
                    self.waited(&spec.queue, claimed.now.since(one.record.run_at), claimed.now);
                    let mut handed = handed(request, one, claimed.now.after(left), claimed.now);
                    handed.grant.circuit = circuit;
                    handed.view.job.spec.payload = given.payload;
                    (handed.steps, handed.signals) = signals::parted(given.steps);
                    handed.inputs = given.inputs;
                    taken.jobs.push(handed);
                }
                Err(failed) => refused.push(self.refuse(request, one, failed).await),
            }
        }
    }

    /// What a run is given: its payload, what the steps before it returned (W1), and results of its own durable steps
    /// (W7). What follows from the end of a step is for this process to look after.
    async fn given(
        &self,
        claimed: &ClaimedJob,
        payload: Arc<str>,
        inputs: Result<Inputs, Box<Failed>>,
    ) -> Result<GivenData, Box<Failed>> {
        let spec = &claimed.job.spec;
        let steps = self.steps_of(claimed).await?;
        if let Some(part) = spec.part_of() {
            self.parts.workflows.runs(spec.id, part);
        }
        let inputs = inputs?;
        Ok(GivenData { payload: inputs::payload(spec, &inputs).unwrap_or(payload), inputs, steps })
    }

    async fn refuse(&self, request: &WorkRequest, claimed: ClaimedJob, failed: Box<Failed>) -> RemoteEnding {
        let ClaimedJob { job, record, lease } = claimed;
        let first = record.runs == 1;
        let ending = self.end(job, record, Reply(Err(failed)), None, request.code_version.clone()).await;
        RemoteEnding { finish: Finish { lease, ending }, first, suspect: None }
    }

    /// Writes the ends of runs that were refused. What cannot be written is found by the lease.
    async fn close(&self, refused: Vec<RemoteEnding>) {
        let jobs = refused.len();
        if let Err(error) = self.write(refused).await {
            tracing::warn!(%error, jobs, "refused jobs are requeued when their lease expires");
        }
    }

    /// A claim leaves out what earlier runs said; workers may want to know why a job comes again.
    async fn add_failures(&self, jobs: &mut [Handed]) {
        let again = jobs.iter_mut().filter(|handed| handed.view.record.last_failed_run.is_some());
        let mut again: Vec<_> = again.collect();
        if again.is_empty() {
            return;
        }
        let ids = again.iter().map(|handed| handed.grant.lease.job).collect();
        // It is a courtesy: without it the job is handed out as it is.
        let Ok(details) = self.parts.store.jobs(ids).await else { return };
        for (handed, detail) in again.iter_mut().zip(details) {
            handed.view.last_failure = detail.and_then(|detail| detail.view.last_failure);
        }
    }

    /// A claim of these of the worker's kinds.
    fn ask(
        &self,
        request: &WorkRequest,
        kinds: &Arc<[KnownKind]>,
        worker: WorkerId,
        queues: &[Arc<str>],
        limit: usize,
    ) -> Claim {
        let config = &self.parts.config;
        // A kind that is left out for now is known all the same.
        let all_kinds = kinds.len() == request.kinds.len();
        let queues = queues.iter().map(|queue| ClaimQueue {
            queue: queue.clone(),
            limit,
            start: limit,
            any_kind: all_kinds && config.queues.get(&**queue).is_some_and(|queue| queue.fail_unknown_kind),
        });
        Claim {
            worker,
            queues: queues.collect(),
            kinds: kinds.clone(),
            aging: config.aging,
            limits: Arc::default(),
        }
    }
}

/// Looking needs no worker.
const NOBODY: WorkerId = WorkerId::from_u128(0);

/// A batch serves no queue: that is said by the row of its worker's name, once.
fn introduction(request: &WorkRequest, batch: WorkerId) -> NewWorker {
    NewWorker {
        id: batch,
        name: request.worker.name.clone(),
        code_version: request.code_version.as_deref().map(str::to_owned),
        queues: Vec::new(),
        kinds: Arc::new([]),
        lease: request.lease,
    }
}

fn handed(
    request: &WorkRequest,
    claimed: ClaimedJob,
    expires_at: backstop_core::Timestamp,
    now: backstop_core::Timestamp,
) -> Handed {
    let ClaimedJob { job, record, lease } = claimed;
    let grant = Grant {
        lease,
        queue: job.spec.queue.clone(),
        claimed_at: now,
        term: request.lease,
        batch: 1,
        code_version: request.code_version.clone(),
        circuit: None,
    };
    let view = JobView {
        job: Arc::unwrap_or_clone(job),
        started_at: record.hold.and_then(|hold| hold.started_at),
        record,
        waits_for_code: false,
        held_by: None,
        last_failure: None,
        result: None,
        warning: None,
    };
    Handed { view, grant, expires_at, inputs: BTreeMap::new(), steps: Vec::new(), signals: BTreeMap::new() }
}

/// Waits for a wake-up, and says whether one came.
async fn rest(arrivals: &mut watch::Receiver<u64>, longest: Duration) -> bool {
    tokio::select! {
        _ = arrivals.changed() => true,
        () = tokio::time::sleep(longest) => false,
    }
}

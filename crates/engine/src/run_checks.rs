//! What parts of a program beside the engine know of a job right before its run, wherever its handler is.
//!
//! Owns who is asked and for how long. Must not know what they ask, or whom.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use backstop_core::JobId;
use backstop_core::job::{Spec, StoredJob};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::outcome::{BoxError, Failed, Outcome, classify};

/// How long a check may take. It is longer than one question to a server.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long a worker elsewhere is kept waiting for checks: it holds other jobs by then, and nobody renews its lease.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// How long a job waits that was not kept waiting for its check.
const ASKED_MEANWHILE: Duration = Duration::from_secs(2);

/// How long an answer counts that came when nobody waited for it any more, and how many are kept at most.
const LATE: Duration = Duration::from_secs(60);
const MOST_LATE: usize = 1_000;

/// The type of an error that a check gives and that has none of its own.
const RUN_CHECK: &str = "RunCheck";

/// What a check answers: a boxed future, so that the trait stays object-safe.
pub type RunCheckAnswer<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// Asked right before a run, whether its handler is in this process or takes its jobs from it over HTTP: see
/// [`Backstop::check_runs`](crate::Backstop::check_runs). What an application does around its own handlers is a
/// [`Hook`](crate::Hook).
///
/// An error ends the run, and the handler is not called. It is read as a handler's would be: `Outcome::cancel` calls
/// the job off, `Outcome::snooze` lets it wait, and both cost it nothing. A check that panics or takes longer than
/// eight seconds has nothing against the run. A worker elsewhere waits for a second at most: a job whose check takes
/// longer goes back, which costs it nothing, and the answer counts when it is claimed again.
pub trait RunCheck: Send + Sync + 'static {
    /// Whether there is something to ask about this job. It is called before every run, and has to be quick.
    fn is_for(&self, job: &Spec) -> bool;

    /// Asks about it.
    fn check<'a>(&'a self, job: &'a StoredJob) -> RunCheckAnswer<'a>;
}

/// What came of the checks of one job.
type CheckedRun = Result<(), Box<Failed>>;

/// The checks of this process.
#[derive(Default)]
pub(crate) struct RunChecks {
    checks: RwLock<Vec<Weak<dyn RunCheck>>>,
    late: LateAnswers,
}

/// What is asked about jobs that did not wait for the answer.
#[derive(Clone, Default)]
struct LateAnswers(Arc<Mutex<HashMap<JobId, LateAnswer>>>);

struct LateAnswer {
    since: Instant,
    /// None while there is none.
    answer: Option<CheckedRun>,
}

impl fmt::Debug for RunChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunChecks").finish_non_exhaustive()
    }
}

/// How long a worker elsewhere is kept waiting that asks for jobs with such a lease.
pub(crate) fn patience_elsewhere(lease: Duration) -> Duration {
    ELSEWHERE.min(lease / 3)
}

impl RunChecks {
    /// Asks this one too, for as long as it is there.
    pub(crate) fn add(&self, check: &Arc<dyn RunCheck>) {
        let mut known = self.checks.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|one| one.strong_count() > 0);
        known.push(Arc::downgrade(check));
    }

    /// Those that have something to ask about a job.
    fn of(&self, job: &Spec) -> Vec<Arc<dyn RunCheck>> {
        let known = self.checks.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(Weak::upgrade).filter(|check| check.is_for(job)).collect()
    }

    /// Asks about one job, however long that takes.
    pub(crate) async fn ask(&self, job: &Arc<StoredJob>) -> CheckedRun {
        if self.of(&job.spec).is_empty() {
            return Ok(());
        }
        self.ask_all(std::slice::from_ref(job), PATIENCE * 2).await.pop().unwrap_or(Ok(()))
    }

    /// Asks about several at once; the answers are in their order. A job whose answer takes longer than that goes back,
    /// and is not asked about again when it comes with the next claim.
    pub(crate) async fn ask_all(&self, jobs: &[Arc<StoredJob>], within: Duration) -> Vec<CheckedRun> {
        let until = Instant::now() + within;
        // All are asked before the first answer is waited for.
        let asked: Vec<_> = jobs.iter().map(|job| self.begin(job)).collect();
        let mut answers = Vec::with_capacity(jobs.len());
        for (job, asked) in jobs.iter().zip(asked) {
            answers.push(match asked {
                Ok(answer) => self.answer_until(until, job.spec.id, answer).await,
                Err(known) => known,
            });
        }
        answers
    }

    /// Begins to ask about a job, unless there is nothing to ask or the answer is known.
    fn begin(&self, job: &Arc<StoredJob>) -> Result<oneshot::Receiver<CheckedRun>, CheckedRun> {
        let checks = self.of(&job.spec);
        if checks.is_empty() {
            return Err(Ok(()));
        }
        if let Some(known) = self.late.take(job.spec.id) {
            return Err(known);
        }
        let (tell, answer) = oneshot::channel();
        let (job, late) = (job.clone(), self.late.clone());
        tokio::spawn(async move {
            let id = job.spec.id;
            if let Err(answer) = tell.send(ask_each(checks, job).await) {
                late.keep(id, Some(answer));
            }
        });
        Ok(answer)
    }

    async fn answer_until(
        &self,
        until: Instant,
        job: JobId,
        mut answer: oneshot::Receiver<CheckedRun>,
    ) -> CheckedRun {
        if let Ok(told) = timeout_at(until, &mut answer).await {
            // Whoever asks does not panic: checks have tasks of their own.
            return told.unwrap_or(Ok(()));
        }
        // What comes from here on is kept.
        answer.close();
        answer.try_recv().unwrap_or_else(|_| {
            self.late.keep(job, None);
            not_yet()
        })
    }
}

impl LateAnswers {
    /// What is known of a job: its answer, which is used once, or that there is none yet.
    fn take(&self, job: JobId) -> Option<CheckedRun> {
        let mut all = self.lock();
        let found = all.remove(&job)?;
        let age = found.since.elapsed();
        match found.answer {
            Some(answer) => Some(answer).filter(|_| age < LATE),
            None if age < PATIENCE * 2 => {
                all.insert(job, found);
                Some(not_yet())
            }
            None => None,
        }
    }

    fn keep(&self, job: JobId, answer: Option<CheckedRun>) {
        let mut all = self.lock();
        if all.len() >= MOST_LATE {
            all.retain(|_, late| late.since.elapsed() < LATE);
        }
        if all.len() >= MOST_LATE {
            // It is asked about again.
            return;
        }
        let late = LateAnswer { since: Instant::now(), answer };
        let is_known = all.contains_key(&job);
        // That there is none yet may be said after it has come.
        if late.answer.is_some() || !is_known {
            all.insert(job, late);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, LateAnswer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// There is no answer yet, and nobody is to wait for it: the job comes again, and it costs it nothing.
fn not_yet() -> CheckedRun {
    let wait: BoxError = Outcome::snooze(ASKED_MEANWHILE).into();
    Err(classify(&*wait, RUN_CHECK))
}

/// Asks all checks of a job at once. Together they take no longer than one.
async fn ask_each(checks: Vec<Arc<dyn RunCheck>>, job: Arc<StoredJob>) -> CheckedRun {
    let mut asking = JoinSet::new();
    for check in checks {
        let job = job.clone();
        asking.spawn(async move { answer(&*check, &job).await });
    }
    let mut checked = Ok(());
    while let Some(asked) = asking.join_next().await {
        match asked {
            Ok(Ok(())) => {}
            Ok(Err(failed)) => checked = Err(failed),
            Err(problem) => tracing::error!(%problem, "a check before a run panicked; the run goes on"),
        }
    }
    checked
}

async fn answer(check: &dyn RunCheck, job: &StoredJob) -> CheckedRun {
    match timeout(PATIENCE, check.check(job)).await {
        Ok(answer) => answer.map_err(|error| classify(&*error, RUN_CHECK)),
        Err(_) => {
            tracing::warn!(job = %job.spec.id, "a check before a run took too long; the run goes on");
            Ok(())
        }
    }
}

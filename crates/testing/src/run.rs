//! Running jobs in a test: one by itself, all that is due, or all to their end.
//!
//! Each run is one of the engine's own inline worker; this file only chooses what to run and reads what came of it.

use std::sync::Arc;
use std::time::Duration;

use backstop::{Enqueue, InlineWorker, Job, Ran, ResultOf, WorkerBuilder};
use backstop_store::{Clock as _, ManualClock, PageRequest};

use crate::engine::TestEngine;
use crate::report::RunReport;

/// Runs that one drain does at most. A test that needs more has jobs that submit each other for ever.
const RUNS: usize = 5_000;

/// The finest difference that the clock knows.
const TICK: Duration = Duration::from_micros(1);

/// Runs one job with the default settings: [`TestEngine::run_job`] for a test that needs no engine.
///
/// ```
/// # use backstop::prelude::*;
/// #[job]
/// async fn add(a: u32, b: u32) -> JobResult<u32> {
///     Ok(a + b)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let run = backstop_testing::run_job((), Add { a: 2, b: 3 }).await;
/// assert_eq!(run.result_as::<u32>(), 5);
/// # }
/// ```
///
/// # Panics
/// When the job is refused.
pub async fn run_job<J: Job>(app: impl Into<Arc<J::Context>>, job: J) -> RunReport {
    TestEngine::new().run_job(app, job).await
}

impl TestEngine {
    /// Runs one job through the whole pipeline: encode, admit, decode, validate, run, classify, decide.
    ///
    /// It runs in a store of its own, beside the jobs of this engine and with its settings: a job that is enqueued
    /// already is not touched, and what the handler submits is all that [`assert_enqueued`](crate::assert_enqueued)
    /// sees. The context is the application's struct, or an `Arc` of it for a test that looks into it afterwards.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use backstop::prelude::*;
    /// use backstop_testing::TestEngine;
    ///
    /// #[derive(Default)]
    /// struct App {
    ///     sent: AtomicU32,
    /// }
    ///
    /// #[job]
    /// async fn send(cx: JobContext<App>, to: String) -> JobResult<usize> {
    ///     cx.app().sent.fetch_add(1, Ordering::SeqCst);
    ///     cx.log(format!("sent to {to}"));
    ///     Ok(to.len())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let app = Arc::new(App::default());
    /// let run = TestEngine::new().run_job(app.clone(), Send { to: "ada".into() }).await;
    /// assert_eq!(run.assert_succeeded().result_as::<usize>(), 3);
    /// assert_eq!(run.output, "sent to ada\n");
    /// assert_eq!(app.sent.load(Ordering::SeqCst), 1);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the job is refused.
    pub async fn run_job<J: Job>(&self, app: impl Into<Arc<J::Context>>, job: J) -> RunReport {
        self.run_job_with(app, job, |job| job).await
    }

    /// The same for a job with options. One that is due later is run at its time.
    ///
    /// ```
    /// use backstop::prelude::*;
    /// use backstop::{State, TerminalReason};
    /// use backstop_testing::TestEngine;
    ///
    /// #[job]
    /// async fn flaky() -> JobResult {
    ///     Err("not today".into())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let run = TestEngine::new().run_job_with((), Flaky {}, |job| job.max_retries(0)).await;
    /// assert_eq!((run.state, run.reason), (State::Failed, Some(TerminalReason::RetryExhausted)));
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the job is refused, or has expired before it could start.
    pub async fn run_job_with<J: Job>(
        &self,
        app: impl Into<Arc<J::Context>>,
        job: J,
        options: impl FnOnce(Enqueue<ResultOf<J>>) -> Enqueue<ResultOf<J>>,
    ) -> RunReport {
        let beside = Self::at(ManualClock::at(self.clock().now()), self.engine().config().clone());
        if let Err(refusal) = options(beside.engine().enqueue(job)).submit().await {
            panic!("the `{}` job was refused: {refusal}", J::KIND);
        }
        beside.advance_to_next().await;
        let ran = beside.round(&app.into(), &|worker| worker.register::<J>(), 1).await;
        match ran.into_iter().next() {
            Some(report) => report,
            None => panic!("the `{}` job never started: it had expired when its time came", J::KIND),
        }
    }

    /// Runs due jobs of every queue one after another until none is left, those too that they submit meanwhile.
    ///
    /// The clock stands, so a job that is to be tried again later is left for later. A kind that is not registered is
    /// left too, as a worker leaves it (H10). Jobs of a bulk kind run together, as many as one of its calls gets (W12).
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// # use backstop_testing::TestEngine;
    /// # #[job]
    /// # async fn import() {}
    /// # #[job(queue = "mail")]
    /// # async fn report() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let test = TestEngine::new();
    /// test.engine().enqueue(Import {}).submit().await.unwrap();
    /// test.engine().enqueue(Report {}).submit().await.unwrap();
    /// let ran = test.drain((), |worker| worker.register::<Import>().register::<Report>()).await;
    /// assert_eq!(ran.len(), 2);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When 5,000 runs are not enough.
    pub async fn drain<C: Send + Sync + 'static>(
        &self,
        app: impl Into<Arc<C>>,
        register: impl Fn(WorkerBuilder<C>) -> WorkerBuilder<C>,
    ) -> Vec<RunReport> {
        let mut reports = Vec::new();
        self.drain_into(&mut reports, &app.into(), &register).await;
        reports
    }

    /// Runs every job to its end: drains, moves the clock to the next one that is due, and so on until nothing waits
    /// for its time. Retries and snoozes of days pass at once. Kinds that are not registered are left.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::Cause;
    /// use backstop_testing::TestEngine;
    ///
    /// #[job]
    /// async fn third_time_lucky(cx: JobContext<()>) -> JobResult {
    ///     if cx.attempt() < 3 { Err("not yet".into()) } else { Ok(()) }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let test = TestEngine::new();
    /// test.engine().enqueue(ThirdTimeLucky {}).submit().await.unwrap();
    /// let ran = test.run_to_end((), |worker| worker.register::<ThirdTimeLucky>()).await;
    /// let causes: Vec<_> = ran.iter().map(|run| run.cause).collect();
    /// assert_eq!(causes, [Cause::Error, Cause::Error, Cause::Succeeded]);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When 5,000 runs are not enough.
    pub async fn run_to_end<C: Send + Sync + 'static>(
        &self,
        app: impl Into<Arc<C>>,
        register: impl Fn(WorkerBuilder<C>) -> WorkerBuilder<C>,
    ) -> Vec<RunReport> {
        let (app, mut reports) = (app.into(), Vec::new());
        loop {
            self.drain_into(&mut reports, &app, &register).await;
            // What is due and still there cannot be run here: only a later moment brings something new.
            let later = self.clock().now().after(TICK);
            if self.advance_to_one_due(later).await.is_none() {
                return reports;
            }
        }
    }

    async fn drain_into<C: Send + Sync + 'static>(
        &self,
        reports: &mut Vec<RunReport>,
        app: &Arc<C>,
        register: &impl Fn(WorkerBuilder<C>) -> WorkerBuilder<C>,
    ) {
        // A handler may submit to a queue that nobody knew before, so it is over when a new look finds nothing.
        loop {
            let ran = self.round(app, register, RUNS - reports.len()).await;
            if ran.is_empty() {
                return;
            }
            reports.extend(ran);
            let latest = reports.last().map(ToString::to_string).unwrap_or_default();
            assert!(reports.len() < RUNS, "{RUNS} runs were not enough; the latest:\n{latest}");
        }
    }

    /// Runs up to `limit` due jobs of the queues that exist now.
    async fn round<C: Send + Sync + 'static>(
        &self,
        app: &Arc<C>,
        register: &impl Fn(WorkerBuilder<C>) -> WorkerBuilder<C>,
        limit: usize,
    ) -> Vec<RunReport> {
        let mut reports = Vec::new();
        if let Some(worker) = self.worker(app, register).await {
            while reports.len() < limit {
                match worker.run_together(limit - reports.len()).await {
                    Ok(ran) if ran.is_empty() => break,
                    Ok(ran) => {
                        for one in ran {
                            reports.push(self.report(one).await);
                        }
                    }
                    Err(problem) => panic!("the test's store failed in a run: {problem}"),
                }
            }
        }
        reports
    }

    async fn worker<C: Send + Sync + 'static>(
        &self,
        app: &Arc<C>,
        register: &impl Fn(WorkerBuilder<C>) -> WorkerBuilder<C>,
    ) -> Option<InlineWorker> {
        let queues = self.engine().queues().list().await.unwrap_or_default();
        let worker = register(self.engine().worker_sharing(app.clone()));
        // A worker without a queue is an error, and here it means that there is nothing to run.
        queues.iter().fold(worker, |worker, queue| worker.queue(queue.name.as_str(), 1)).inline().ok()
    }

    async fn report(&self, ran: Ran) -> RunReport {
        let ledger = self.engine().attempts(ran.job, PageRequest::first(1)).await;
        let run = ledger.ok().and_then(|page| page.items.into_iter().next());
        let job = self.engine().job(ran.job).await.ok().flatten();
        match (job, run) {
            (Some(job), Some(run)) => RunReport::of(&job.view, &run, self.clock().now()),
            _ => panic!("job {} has run, but the test's store has no trace of it", ran.job),
        }
    }
}

//! 64 claimers on one queue: no job twice at once, none lost, no error of any kind.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::{JobId, State};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::work::CampaignJob;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::Ending;
use backstop_store::{Claim, ClaimQueue, Finish, KnownKind, NewWorker, Submit};

const JOBS: usize = 100_000;
const CLAIMERS: usize = 64;
/// Stores that share the claimers, as four processes would.
const STORES: usize = 4;
const BATCH: usize = 100;

/// Who has which job in hand, outside the store.
#[derive(Default)]
struct Hands {
    jobs: HashMap<JobId, (AtomicBool, AtomicUsize)>,
    done: AtomicUsize,
}

impl Hands {
    fn take(&self, job: JobId) {
        let (held, _) = self.jobs.get(&job).expect("only what was submitted is handed out");
        assert!(!held.swap(true, Ordering::SeqCst), "job {job} is held twice at once");
    }

    fn give_back(&self, job: JobId) {
        let (held, ends) = &self.jobs[&job];
        assert_eq!(ends.fetch_add(1, Ordering::SeqCst), 0, "job {job} ended twice");
        held.store(false, Ordering::SeqCst);
        self.done.fetch_add(1, Ordering::SeqCst);
    }
}

async fn submit_all(stores: &[Backstop]) -> Hands {
    let mut hands = Hands::default();
    let mut submits = tokio::task::JoinSet::new();
    for part in 0..JOBS / 1_000 {
        let engine = &stores[part % STORES];
        let new = || engine.enqueue(CampaignJob { number: 3 }).into_new_job().expect("admitted");
        let jobs: Vec<_> = (0..1_000).map(|_| new()).collect();
        hands.jobs.extend(jobs.iter().map(|job| (job.spec.id, Default::default())));
        let store = engine.store().clone();
        submits.spawn(async move { store.submit(Submit { jobs, atomic: true }).await });
        if submits.len() >= 8 {
            settled(submits.join_next().await);
        }
    }
    while let Some(answer) = submits.join_next().await {
        settled(Some(answer));
    }
    hands
}

type SubmitAnswer = Result<backstop_chaos::journal_layer::SubmitAnswers, backstop_store::Error>;

fn settled(answer: Option<Result<SubmitAnswer, tokio::task::JoinError>>) {
    let answers = answer.expect("one is under way").expect("no panic").expect("no error");
    assert!(answers.iter().all(Result::is_ok));
}

/// Claims and finishes until all jobs are done.
async fn claim_all(engine: Backstop, hands: Arc<Hands>) {
    let store = engine.store();
    let worker = backstop::worker_id();
    let kinds: Arc<[KnownKind]> = vec![KnownKind { kind: CampaignJob::KIND.into(), version: 1 }].into();
    let (name, queues) = ("claimer".to_owned(), vec!["default".into()]);
    let lease = Duration::from_secs(600);
    let enlist = NewWorker { id: worker, name, code_version: None, queues, kinds: kinds.clone(), lease };
    store.enlist(enlist).await.expect("no error");
    while hands.done.load(Ordering::SeqCst) < JOBS {
        let queue = ClaimQueue { queue: "default".into(), limit: BATCH, start: BATCH, any_kind: false };
        let claim = Claim {
            worker,
            queues: vec![queue],
            kinds: kinds.clone(),
            aging: engine.config().aging,
            limits: Default::default(),
        };
        let claimed = store.claim(claim).await.expect("no error").jobs;
        if claimed.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        claimed.iter().for_each(|job| hands.take(job.lease.job));
        let finish = claimed.iter().map(|job| Finish {
            lease: job.lease,
            ending: Ending::plain(job.job.spec.header(), Cause::Succeeded, Decision::succeeded()),
        });
        let jobs: Vec<JobId> = claimed.iter().map(|job| job.lease.job).collect();
        let answers = store.finish(finish.collect()).await.expect("no error");
        assert!(answers.iter().all(|answer| *answer == Ok(State::Succeeded)), "{answers:?}");
        jobs.into_iter().for_each(|job| hands.give_back(job));
    }
    store.retire(worker).await.expect("no error");
}

async fn crowd(kind: StoreKind) {
    let location = StoreLocation::new(kind, "crowd");
    let mut stores = Vec::new();
    for _ in 0..STORES {
        let url = location.url_with("connections=16");
        stores.push(Backstop::open(&url).await.expect("the store opens"));
    }
    let began = Instant::now();
    let hands = Arc::new(submit_all(&stores).await);
    let (submitted, began) = (began.elapsed(), Instant::now());
    let claimers: Vec<_> = (0..CLAIMERS)
        .map(|number| tokio::spawn(claim_all(stores[number % STORES].clone(), hands.clone())))
        .collect();
    for claimer in claimers {
        claimer.await.expect("no claimer fails");
    }
    let drained = began.elapsed();
    let queue = stores[0].queues().list().await.expect("readable").remove(0);
    assert_eq!((queue.succeeded, queue.pending, queue.running), (JOBS as u64, 0, 0));
    println!(
        "{kind}: {JOBS} jobs submitted in {submitted:.1?}, claimed and finished by {CLAIMERS} claimers in {drained:.1?}: \
         none twice, none lost, no error"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_claimers_on_a_hundred_thousand_jobs_on_postgres() {
    // L2, L4
    crowd(StoreKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_claimers_on_a_hundred_thousand_jobs_on_mariadb() {
    // L2, L4
    crowd(StoreKind::Mariadb).await;
}

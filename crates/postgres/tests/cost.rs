//! What a job costs the server: statements, commits and bytes of write-ahead log, each with a ceiling.
//!
//! Counted, not timed, so it says the same on every machine. A change that needs more moves a ceiling, and its commit
//! says why. The log of a server is shared by all that happens on it, so this test has one of its own.

mod place;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Ending, NewJob, Operation, Spec};
use backstop_core::outbox::{Sink, SinkTopic, Sinks};
use backstop_core::workflow::{EndNote, PartOf};
use backstop_core::{JobId, WorkerId, WorkflowId};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Amend, Amended, Claim, ClaimQueue, ClaimedJob, DocumentRange, Drawer, Duty, Finish, InspectStore,
    KnownKind, NewWorker, Observer, Submit, WorkStore,
};
use backstop_testbed::{DatabaseSettings, Folder, Postgres};
use place::InSchema;

/// Jobs of one submit, and of one claim.
const BATCH: usize = 500;

/// What something has cost.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    statements: u64,
    commits: u64,
    /// Bytes of log for each job of the batch.
    log: u64,
}

struct Bench {
    server: Postgres,
    store: PostgresStore,
    worker: WorkerId,
    kinds: Arc<[KnownKind]>,
    next: u128,
}

impl Bench {
    async fn new(folder: &Folder) -> Self {
        // Nothing but what we do writes to the log.
        let settings = DatabaseSettings::new(folder.join("server")).with("autovacuum", "off");
        let server = Postgres::start(settings.with("checkpoint_timeout", "1h")).expect("a server of its own");
        let url = format!("{}?listen=off", server.url());
        let store = PostgresStore::open(&url, Options::default()).await.expect("opened");
        let kinds: Arc<[KnownKind]> = Arc::new([KnownKind { kind: "work".into(), version: 1 }]);
        let bench = Self { server, store, worker: WorkerId::from_u128(1), kinds, next: 1 << 80 };
        bench.enlist(&bench.store).await;
        bench
    }

    async fn enlist(&self, store: &PostgresStore) {
        let enlisted = NewWorker {
            id: self.worker,
            name: "w".into(),
            code_version: None,
            queues: vec!["default".into()],
            kinds: self.kinds.clone(),
            lease: Duration::from_secs(3_600),
        };
        store.enlist(enlisted).await.expect("enlisted");
    }

    /// The bytes of log that were ever written.
    fn log(&self) -> u64 {
        let bytes = self.server.psql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint");
        bytes.expect("an answer").trim().parse().expect("a number")
    }

    async fn cost<T>(&mut self, what: impl AsyncFnOnce(&mut Self) -> T) -> (T, Cost) {
        let (log, statements, commits) = (self.log(), self.store.statements(), self.store.commits());
        let answer = what(self).await;
        let (statements, commits) = (self.store.statements() - statements, self.store.commits() - commits);
        let batch = u64::try_from(BATCH).expect("small");
        (answer, Cost { statements, commits, log: (self.log() - log) / batch })
    }

    async fn submit(&mut self) {
        self.submit_with(|_| ()).await;
    }

    async fn submit_with(&mut self, change: impl Fn(&mut Spec)) {
        // As large as a small e-mail's order, and ids that grow, as those of the engine do.
        let payload = format!(r#"{{"to":"{}"}}"#, "x".repeat(100));
        let jobs = (0..BATCH).map(|_| {
            self.next += 1;
            let mut spec = Spec::new(JobId::from_u128(self.next), "work", payload.clone());
            change(&mut spec);
            NewJob::new(spec)
        });
        let jobs = jobs.collect();
        let answers = self.store.submit(Submit { jobs, atomic: true }).await.expect("stored");
        assert!(answers.iter().all(Result::is_ok));
    }

    fn wanted(&self) -> Claim {
        let queue = ClaimQueue { queue: "default".into(), limit: BATCH, start: BATCH, any_kind: false };
        let (worker, kinds, queues) = (self.worker, self.kinds.clone(), vec![queue]);
        Claim { worker, queues, kinds, aging: Default::default(), limits: Default::default() }
    }

    async fn claim(&mut self) -> Vec<ClaimedJob> {
        let jobs = self.store.claim(self.wanted()).await.expect("claimed").jobs;
        assert_eq!(jobs.len(), BATCH);
        jobs
    }

    async fn finish(&mut self, jobs: Vec<ClaimedJob>) {
        let endings = jobs.iter().map(|claimed| Finish {
            lease: claimed.lease,
            ending: Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded()),
        });
        let answers = self.store.finish(endings.collect()).await.expect("finished");
        assert!(answers.iter().all(Result::is_ok));
    }
}

#[test]
fn a_plain_job_stays_cheap() {
    let folder = Folder::new("cost").expect("a folder");
    InSchema::block_on(async {
        let mut bench = Bench::new(&folder).await;
        // The first round makes the lane, and pages that later ones only fill.
        bench.submit().await;
        let jobs = bench.claim().await;
        bench.finish(jobs).await;

        let ((), submit) = bench.cost(Bench::submit).await;
        let (jobs, claim) = bench.cost(Bench::claim).await;
        let ((), finish) = bench.cost(async |bench: &mut Bench| bench.finish(jobs).await).await;
        let shown = format!("{submit:?} {claim:?} {finish:?}");
        // Others are told of new jobs beside the submit, and of those of the first round maybe only now.
        let (notices, costs) = (2, [&submit, &claim, &finish]);
        let sum = |count: fn(&Cost) -> u64| costs.iter().map(|cost| count(cost)).sum::<u64>();
        assert!(sum(|cost| cost.commits) <= 3 + notices, "{shown}");
        assert!(sum(|cost| cost.statements) <= 6 + notices, "{shown}");
        assert_eq!((claim.statements, finish.statements), (1, 1), "{shown}");
        assert!(submit.log <= 580 && claim.log <= 145 && finish.log <= 300, "{shown}");
    });
}

/// W1, W6: a job of a batch is claimed and ended by the statements of a plain one, and so is a step that was released:
/// its note, and its row in `record`, go the same way. They were five to end them in a transaction.
#[test]
fn a_part_of_a_workflow_is_claimed_and_ended_like_a_plain_job() {
    const FLOW: WorkflowId = WorkflowId::from_u128(7);
    let part = |follows: bool| PartOf {
        id: FLOW,
        node: follows.then(|| "step".into()),
        number: 0,
        follows,
        renewed: false,
        payload_from: None,
    };
    let folder = Folder::new("part-cost").expect("a folder");
    InSchema::block_on(async {
        let mut bench = Bench::new(&folder).await;
        // The first round makes the lane, and pages that later ones only fill.
        let mut rounds = Vec::new();
        for part in [None, None, Some(part(false)), Some(part(true))] {
            let (of, first) = (part.clone(), bench.next + 1);
            let ((), submit) = bench
                .cost(async |bench: &mut Bench| {
                    bench
                        .submit_with(|spec| {
                            if of.is_some() {
                                spec.provenance_mut().part_of.clone_from(&of);
                            }
                        })
                        .await;
                })
                .await;
            if part.is_some_and(|part| part.follows) {
                let ids = (first..=bench.next).map(JobId::from_u128);
                let operations = ids.map(|id| (id, Operation::Release)).collect();
                let released = bench.store.amend(Amend { operations, ..Amend::default() }).await;
                assert!(matches!(released, Ok(Amended::Done { .. })), "{released:?}");
            }
            let (jobs, claim) = bench.cost(Bench::claim).await;
            let ((), finish) = bench.cost(async |bench: &mut Bench| bench.finish(jobs).await).await;
            rounds.push((submit, claim, finish));
        }
        let shown = format!("{rounds:?}");
        // Others are told of new jobs beside the submit, and of those of the round before maybe only now.
        let notices = 2;
        for (submit, claim, finish) in &rounds[1..] {
            assert!(submit.statements <= 4 + notices && claim.statements <= 1 + notices, "{shown}");
            assert_eq!((finish.statements, finish.commits), (1, 1), "{shown}");
        }
        let range = DocumentRange::first(Drawer::WorkflowEnds, 100);
        let notes = bench.store.documents(range).await.expect("read").items;
        let ends: usize = notes.iter().map(|item| EndNote::read(&item.body).expect("notes").len()).sum();
        // Each end of 500 is three documents.
        assert_eq!((ends, notes.len()), (2 * BATCH, 6), "{shown}");
        let rows = bench.server.psql("SELECT count(*) FROM backstop.record").expect("an answer");
        assert_eq!(rows.trim(), "0", "nothing is left of a past that a part does not have");
        println!("{shown}");
    });
}

/// Who takes results.
struct Taking(Sinks);

impl Observer for Taking {
    fn wants_events(&self) -> bool {
        false
    }

    fn sinks(&self) -> Sinks {
        self.0.clone()
    }

    fn committed(&self, _events: Vec<Event>) {}

    fn work_arrived(&self) {}
}

/// B2: what nobody takes costs nothing; what a sink takes is one statement for a batch, and no further one for a job.
#[test]
fn a_sink_costs_one_statement_for_a_batch() {
    let folder = Folder::new("sink-cost").expect("a folder");
    InSchema::block_on(async {
        let mut bench = Bench::new(&folder).await;
        let mut finish = async |sinks: Vec<Sink>| {
            bench.store.observe(Arc::new(Taking(Sinks::new(sinks, Arc::default()))));
            bench.submit().await;
            let jobs = bench.claim().await;
            bench.cost(async |bench: &mut Bench| bench.finish(jobs).await).await.1
        };
        // The first round makes the lane, and pages that later ones only fill.
        finish(Vec::new()).await;
        let none = finish(Vec::new()).await;
        let other = finish(vec![Sink::new("mails", SinkTopic::ALL).kind("mail")]).await;
        let dead = finish(vec![Sink::new("dead", [SinkTopic::DeadLetters, SinkTopic::Rejects])]).await;
        let taken = finish(vec![Sink::new("out", [SinkTopic::Results])]).await;
        let shown = format!("{none:?} {other:?} {dead:?} {taken:?}");
        for unasked in [&other, &dead] {
            assert_eq!((unasked.statements, unasked.commits), (none.statements, none.commits), "{shown}");
            // Pages fill a little differently each time.
            assert!(unasked.log <= none.log + none.log / 10, "{shown}");
        }
        // Such runs end in the ordinary way, and one statement stores what the sink is sent.
        assert_eq!((none.statements, none.commits), (1, 1), "{shown}");
        assert_eq!((taken.statements, taken.commits), (6, none.commits), "{shown}");
        assert!(taken.log <= none.log + 250, "{shown}");
        println!("{shown}");
    });
}

/// Hears of everything.
struct AllEars;

impl Observer for AllEars {
    fn wants_events(&self) -> bool {
        true
    }

    fn committed(&self, _events: Vec<Event>) {}

    fn work_arrived(&self) {}
}

/// V1: who listens is told in the order of the commits, and no claim and no end takes a statement more for it.
#[test]
fn who_listens_costs_no_statement() {
    let folder = Folder::new("listener-cost").expect("a folder");
    InSchema::block_on(async {
        let mut bench = Bench::new(&folder).await;
        bench.store.observe(Arc::new(AllEars));
        // The first round makes the lane.
        bench.submit().await;
        let jobs = bench.claim().await;
        bench.finish(jobs).await;
        bench.submit().await;
        let (jobs, claim) = bench.cost(Bench::claim).await;
        let ((), finish) = bench.cost(async |bench: &mut Bench| bench.finish(jobs).await).await;
        let shown = format!("{claim:?} {finish:?}");
        assert_eq!((claim.statements, claim.commits), (1, 1), "{shown}");
        assert_eq!((finish.statements, finish.commits), (1, 1), "{shown}");
    });
}

/// A re-drive plan looks at hundreds of jobs at a time, in whatever state they are (D4).
#[test]
fn a_glance_at_many_jobs_is_one_question() {
    let folder = Folder::new("glance").expect("a folder");
    InSchema::block_on(async {
        let mut bench = Bench::new(&folder).await;
        bench.submit().await;
        let done = bench.claim().await;
        let ids: Vec<JobId> = done.iter().map(|claimed| claimed.job.spec.id).collect();
        bench.finish(done).await;
        bench.submit().await;
        let running = bench.claim().await;
        let ids: Vec<JobId> = ids.into_iter().chain(running.iter().map(|held| held.job.spec.id)).collect();
        let (seen, cost) = bench
            .cost(async |bench: &mut Bench| bench.store.job_summaries(ids.clone()).await.expect("a look"))
            .await;
        assert_eq!(seen.iter().flatten().filter(|glance| glance.rests.is_some()).count(), BATCH);
        assert_eq!(seen.iter().flatten().filter(|glance| glance.rests.is_none()).count(), BATCH);
        // The question, and that it is to be answered by keys; nothing else, and nothing is written.
        assert!(cost.statements <= 2 && cost.commits <= 1 && cost.log == 0, "{cost:?}");
    });
}

/// What a process with a worker does again and again while there is no work, with how often in a minute by default: it
/// leads every duty.
#[test]
fn an_idle_worker_is_quiet() {
    const LEASE: Duration = Duration::from_secs(3_600);
    const DUTIES: [Duty; 4] = [Duty::Rescue, Duty::Expire, Duty::Redrive, Duty::Count];
    let folder = Folder::new("idle").expect("a folder");
    InSchema::block_on(async {
        let mut bench = Bench::new(&folder).await;
        let terms = bench.store.lead(bench.worker, DUTIES.to_vec(), LEASE).await.expect("leads");
        assert!(terms.iter().all(Option::is_some), "nobody else leads");
        bench.store.fold(BATCH).await.expect("folded");
        let (_, look) = bench
            .cost(async |bench: &mut Bench| bench.store.peek(&bench.wanted()).await.expect("a look"))
            .await;
        let shelf = DocumentRange::first(Drawer::Plans, 1_000);
        let (_, plans) =
            bench.cost(async |bench: &mut Bench| bench.store.documents(shelf).await.expect("read")).await;
        let (_, orphans) =
            bench.cost(async |bench: &mut Bench| bench.store.orphans(BATCH).await.expect("read")).await;
        let (_, lead) = bench
            .cost(async |bench: &mut Bench| {
                bench.store.lead(bench.worker, DUTIES.to_vec(), LEASE).await.expect("leads on")
            })
            .await;
        let ((), round) = bench
            .cost(async |bench: &mut Bench| {
                assert_eq!(bench.store.overdue(None, BATCH).await.expect("told"), []);
                assert_eq!(bench.store.fold(BATCH).await.expect("folded"), 0);
                bench.store.renew(bench.worker, LEASE, Vec::new()).await.expect("lives on");
            })
            .await;
        let (_, sinks) = bench
            .cost(async |bench: &mut Bench| {
                bench.store.documents(DocumentRange::first(Drawer::Sinks, 400)).await.expect("read")
            })
            .await;
        // By default: a look for work a second, plans every three, orphans every one and a half, terms and sinks every
        // five, the rest every ten.
        let a_minute = 60 * look.statements
            + 20 * plans.statements
            + 40 * orphans.statements
            + 12 * (lead.statements + sinks.statements)
            + 6 * round.statements;
        assert!(a_minute <= 165, "{look:?} {plans:?} {orphans:?} {lead:?} {round:?}: {a_minute} a minute");
    });
}

/// A node asks every five seconds whether it may lead; while another one does, that locks and writes nothing.
#[test]
fn a_node_that_does_not_lead_writes_nothing() {
    const TERM: Duration = Duration::from_secs(3_600);
    let folder = Folder::new("follows").expect("a folder");
    InSchema::block_on(async {
        let mut bench = Bench::new(&folder).await;
        let lead = async |bench: &mut Bench, node, duties: &[Duty]| {
            bench.store.lead(WorkerId::from_u128(node), duties.to_vec(), TERM).await.expect("asked")
        };
        assert!(lead(&mut bench, 1, &[Duty::Rescue, Duty::Count]).await.iter().all(Option::is_some));
        let before = bench.log();
        let (terms, cost) =
            bench.cost(async |bench: &mut Bench| lead(bench, 2, &[Duty::Rescue, Duty::Count]).await).await;
        // A server that tidies a page as it reads it notes that in a few bytes; a write is four times as many.
        assert_eq!((terms, (bench.log() - before) / 100), (vec![None, None], 0), "{cost:?}");
        assert!(cost.statements <= 2 && cost.commits <= 2, "{cost:?}");
        let terms = lead(&mut bench, 2, &[Duty::Rescue, Duty::Expire]).await;
        assert!(terms[0].is_none() && terms[1].is_some(), "what nobody leads is free: {terms:?}");
    });
}

/// What commits leave beside the counts of lanes is added as fast as it came, however much it is.
#[test]
fn what_piles_up_beside_the_counts_is_added_in_bounded_batches() {
    const PILE: usize = 50_000;
    let folder = Folder::new("pile").expect("a folder");
    InSchema::block_on(async {
        let mut bench = Bench::new(&folder).await;
        bench.submit().await;
        let shown = async || bench.store.queues().await.expect("read").remove(0).pending;
        let before = shown().await;
        let rows = || -> usize {
            let count = bench.server.psql("SELECT count(*) FROM backstop.tally").expect("an answer");
            count.trim().parse().expect("a number")
        };
        let more = format!(
            "INSERT INTO backstop.tally (lane, pending, running, succeeded, failed, paused, canceled, waiting) \
             SELECT l.id, 1, 0, 0, 0, 0, 0, 0 FROM backstop.lane l, generate_series(1, {PILE})"
        );
        bench.server.psql(&more).expect("written");
        let pile = rows();
        assert!(pile >= PILE, "{pile}");
        let mut folds = Vec::new();
        while folds.last().is_none_or(|folded| *folded == 20_000) {
            folds.push(bench.store.fold(20_000).await.expect("folded"));
        }
        assert_eq!((folds.len(), folds.iter().sum::<usize>(), rows()), (3, pile, 0));
        assert_eq!(shown().await, before + u64::try_from(PILE).expect("small"), "nothing of it is lost");
    });
}

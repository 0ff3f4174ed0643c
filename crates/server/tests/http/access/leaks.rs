//! A store that fails and says too much: nothing of it reaches a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use backstop::core::explain::Surroundings;
use backstop::core::failure::Fingerprint;
use backstop::core::incident::Statement;
use backstop::core::job::{Attempt, Glance, JobDetail, JobView, Operated, Operation, Retention, Stale};
use backstop::core::{JobId, Lease, Refusal, Timestamp, WorkerId};
use backstop::store::*;
use backstop::{Backstop, Config, State};
use backstop_server::{Caller, Grant, Settings, Token, table};

use super::stage::{Reply, Stage};

/// What only the operator may see.
const DSN: &str = "postgres://joe:hunter2@db.internal:5432/jobs";

/// A store whose every call fails, with an address and a password in the error.
struct Babbling {
    model: Arc<dyn Store>,
    calls: AtomicUsize,
    /// It does not even fail.
    silent: bool,
}

impl Babbling {
    fn error(&self) -> Error {
        let (location, problem) = (DSN.to_owned(), format!("connect {DSN}: password of hunter2 refused"));
        let source = Some(Box::<dyn std::error::Error + Send + Sync>::from(problem.clone()));
        match self.calls.fetch_add(1, Ordering::SeqCst) % 6 {
            0 => Error::Unavailable { location, problem, source },
            1 => Error::Backend { location, problem, source },
            2 => Error::Corrupt { location, problem },
            3 => Error::Unusable { location, problem, hint: DSN.to_owned() },
            4 => Error::Unknown { location, source },
            _ => Error::DiskFull { location, source },
        }
    }
}

macro_rules! failing {
    ($($verb:ident($($taken:ty),*) -> $answered:ty;)*) => {
        $(fn $verb(&self, $(_: $taken),*) -> Answer<'_, $answered> {
            let (error, silent) = (self.error(), self.silent);
            Box::pin(async move {
                if silent {
                    std::future::pending::<()>().await;
                }
                Err(error)
            })
        })*
    };
}

impl Store for Babbling {
    fn info(&self) -> StoreInfo {
        self.model.info()
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.model.observe(observer);
    }

    failing! {
        now() -> Timestamp;
        submit(Submit) -> Vec<Result<Submitted, Refusal>>;
        claim(Claim) -> Claimed;
        peek(&Claim) -> Peek;
        start(Vec<Lease>) -> Vec<Result<(), Stale>>;
        finish(Vec<Finish>) -> Vec<Result<State, Stale>>;
        annotate(Vec<Note>) -> Vec<Result<(), Stale>>;
        enlist(NewWorker) -> ();
        renew(WorkerId, Duration, Vec<Lease>) -> Renewed;
        retire(WorkerId) -> ();
        lead(WorkerId, Vec<Duty>, Duration) -> Vec<Option<Term>>;
        terms() -> Terms;
        fold(usize) -> usize;
        orphans(usize) -> Vec<Orphan>;
        handed_out() -> Vec<HandedRun>;
        rescue(Term, Vec<Finish>) -> Vec<Result<State, Stale>>;
        expire(Term, usize) -> usize;
        archive(Term, Retention, usize) -> usize;
        operate(Vec<JobId>, Operation) -> Vec<Result<Operated, Refusal>>;
        pause_queue(&str, bool, Option<&str>) -> bool;
        jobs(Vec<JobId>) -> Vec<Option<JobDetail>>;
        glance(Vec<JobId>) -> Vec<Option<Glance>>;
        archived(Vec<JobId>) -> Vec<Option<Archived>>;
        list(JobFilter, PageRequest<JobId>) -> Page<JobView, JobId>;
        attempts(JobId, PageRequest<u32>) -> Page<Attempt, u32>;
        surroundings(JobId) -> Option<(JobView, Surroundings)>;
        queues() -> Vec<QueueView>;
        workers() -> Vec<WorkerView>;
        incidents_like(IncidentFilter, usize) -> Vec<Incident>;
        incidents_of(Vec<Fingerprint>) -> Vec<Option<Incident>>;
        say(Vec<Fingerprint>, Statement) -> Vec<Option<Incident>>;
        survey(JobFilter, usize) -> Survey;
        documents(Shelf) -> Documents;
        amend(Amend) -> Amended;
        purge(Vec<JobId>, Option<State>) -> Vec<Result<State, Refusal>>;
        prune(Term, Duration, usize) -> usize;
        prunable(Duration, usize) -> usize;
        archive_page(PageRequest<JobId>) -> Page<(JobId, Archived), JobId>;
        held_lanes() -> Vec<HeldLane>;
        check() -> Vec<Finding>;
    }
}

/// An API on such a store, with a token that needs no store.
async fn babbling(silent: bool) -> (Stage, String) {
    let model = Backstop::open("memory:").await.expect("a store in memory").store().clone();
    let token = Token::generate().unwrap();
    let scopes = "[\"submit\",\"read\",\"logs\",\"operate\",\"admin\",\"work\"]";
    let grant = format!("{{\"name\":\"all\",\"hash\":\"{}\",\"scopes\":{scopes}}}", token.hash());
    let mut settings = Settings::default();
    settings.access.tokens = vec![serde_json::from_str::<Grant>(&grant).unwrap()];
    let store = Arc::new(Babbling { model, calls: AtomicUsize::new(0), silent });
    (Stage::on(Backstop::on(store, Config::default()), settings), token.reveal().to_owned())
}

fn says_nothing(what: &str, reply: &Reply) {
    let all = format!("{:?} {}", reply.headers, reply.text);
    for word in ["hunter2", "joe", "db.internal", "5432", "postgres", "password", "connect "] {
        assert!(!all.contains(word), "{what} tells {word}: {reply:?}");
    }
    if !reply.status.is_success() {
        reply.code();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_store_says_of_itself_is_in_no_answer() {
    let (stage, token) = babbling(false).await;
    let id = backstop::job_id().to_string();
    let mut failed = 0;
    for route in table() {
        let path = route.path.replace("{id}", &id).replace("{name}", "mail").replace(['{', '}'], "");
        let what = format!("{} {path}", route.method);
        // Every kind of error at every place that asks the store.
        for _ in 0..12 {
            let reply = stage.call(&route.method, &path, Some(&token)).await;
            failed += usize::from(reply.status.is_server_error());
            says_nothing(&what, &reply);
            // By somebody whose token would have to be looked up.
            says_nothing(&what, &stage.call(&route.method, &path, Some("bks_other")).await);
            // By the program itself, past the door.
            let mut request = Request::builder().method(route.method.as_str()).uri(&path);
            request = request.header("content-type", "application/json").extension(Caller::local("program"));
            let reply = stage.send(request.body(Body::from("{}")).unwrap()).await;
            says_nothing(&what, &reply);
        }
    }
    assert!(failed >= 30, "the store was hardly asked: {failed}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_lets_nobody_in_and_says_so() {
    let (stage, token) = babbling(false).await;
    assert_eq!(stage.call("GET", "/health/live", None).await.status, 200);
    for _ in 0..6 {
        let reply = stage.call("GET", "/api/v1/queues", Some("bks_other")).await;
        assert!(reply.status.is_server_error(), "{reply:?}");
        assert!(stage.call("GET", "/api/v1/queues", Some(&token)).await.status.is_server_error());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_does_not_make_the_process_look_dead() {
    // H2
    let (stage, _) = babbling(true).await;
    let live =
        tokio::time::timeout(Duration::from_secs(1), stage.call("GET", "/health/live", Some("bks_any")))
            .await;
    assert_eq!(live.expect("it answers").status, 200);
}

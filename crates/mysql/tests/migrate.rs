//! Tables that a program of an earlier version made, and the jobs in them, in the hands of this one.

mod place;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::fingerprint::fingerprint;
use backstop_core::failure::{Cause, Decision, TerminalReason, Verdict};
use backstop_core::job::{Aging, Ending, FailureRecord, NewJob, Operation, Retention, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_mysql::mysql_async::prelude::Queryable;
use backstop_mysql::mysql_async::{Conn, Opts};
use backstop_mysql::{MysqlStore, Options, Prefix};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Claim, ClaimQueue, ClaimedJob, Duty, Finish, InspectStore, KnownKind, NewWorker, Submit, Term, WorkStore,
};
use place::InDatabase;

const WORKER: WorkerId = WorkerId::from_u128(7);
const DAY: Duration = Duration::from_secs(86_400);

async fn open(place: &InDatabase, prefix: &str) -> MysqlStore {
    let url = format!("{}?prefix={prefix}", place.url());
    MysqlStore::open(&url, Options::default()).await.expect("opened")
}

fn id(number: u128) -> JobId {
    JobId::from_u128(number)
}

async fn submit(store: &MysqlStore, number: u128, key: Option<&str>) -> (JobId, State, bool) {
    let mut job = NewJob::new(Spec::new(id(number), "work", "{}"));
    job.spec.idempotency_key = key.map(ToOwned::to_owned);
    let mut answers = store.submit(Submit { jobs: vec![job], atomic: true }).await.expect("stored");
    let answer = answers.remove(0).expect("not refused");
    (answer.id, answer.state, answer.deduplicated)
}

async fn claim(store: &MysqlStore) -> ClaimedJob {
    let kinds: Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
    let worker = NewWorker {
        id: WORKER,
        name: "w".into(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: kinds.clone(),
        lease: DAY,
    };
    store.enlist(worker).await.expect("enlisted");
    let room = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
    let claim = Claim {
        worker: WORKER,
        queues: vec![room],
        kinds,
        aging: Aging::default(),
        limits: Default::default(),
    };
    store.claim(claim).await.expect("claimed").jobs.remove(0)
}

fn success(claimed: &ClaimedJob) -> Ending {
    Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded())
}

fn death(claimed: &ClaimedJob) -> Ending {
    let decision = Decision::plain(Verdict::Dead { reason: TerminalReason::NonRetryable });
    let mut ending = Ending::plain(claimed.job.spec.header(), Cause::Permanent, decision);
    let print = fingerprint("work", "Broken", "it broke");
    ending.failure =
        Some(FailureRecord { error_type: "Broken".into(), message: "it broke".into(), fingerprint: print });
    ending
}

/// Claims the one job that waits, and ends it.
async fn run(store: &MysqlStore, end: fn(&ClaimedJob) -> Ending) {
    let claimed = claim(store).await;
    let finish = Finish { lease: claimed.lease, ending: end(&claimed) };
    store.finish(vec![finish]).await.expect("finished")[0].expect("held");
}

async fn lead(store: &MysqlStore, duty: Duty) -> Term {
    store.lead(WORKER, vec![duty], DAY).await.expect("asked")[0].expect("nobody else leads")
}

/// Two archived jobs, of which the first ran; a dead letter; and one that waits.
async fn fill(store: &MysqlStore) {
    submit(store, 1, Some("first")).await;
    run(store, success).await;
    submit(store, 2, None).await;
    let cancel = Operation::Cancel { reason: "no".into() };
    store.operate(vec![id(2)], cancel).await.expect("operated")[0].as_ref().expect("pending");
    let term = lead(store, Duty::Archive).await;
    let at_once = Retention::forever().succeeded(Some(Duration::ZERO)).canceled(Some(Duration::ZERO));
    assert_eq!(store.archive(term, at_once, 10).await.expect("archived"), 2);
    submit(store, 3, None).await;
    run(store, death).await;
    submit(store, 4, None).await;
}

/// Makes the tables of the first version, and copies everything into them that they have columns for.
async fn as_first_version(place: &InDatabase, from: &str, to: &str) {
    let mut conn = Conn::new(Opts::from_url(&place.url()).expect("a good URL")).await.expect("a server");
    for statement in MysqlStore::migrations(&Prefix::named(to).expect("a plain name")) {
        conn.query_drop(&statement).await.expect("good SQL");
        if statement.starts_with("INSERT INTO") {
            break;
        }
    }
    let names: Vec<(String, String)> = conn
        .query(format!(
            "SELECT table_name, GROUP_CONCAT(column_name) FROM information_schema.columns WHERE \
             table_schema = DATABASE() AND table_name LIKE '{to}%' AND table_name <> '{to}meta' GROUP BY table_name"
        ))
        .await
        .expect("asked");
    assert!(names.iter().all(|(table, columns)| !table.contains("document") && !columns.contains("marks")));
    for (table, columns) in names {
        let source = table.replace(to, from);
        conn.query_drop(format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {source}"))
            .await
            .expect("copied");
    }
}

#[test]
fn the_first_version_is_migrated_with_all_its_jobs() {
    // E10, L16, L10
    let place = InDatabase::fresh();
    InDatabase::block_on(async {
        let source = open(&place, "backstop_").await;
        fill(&source).await;
        as_first_version(&place, "backstop_", "old_").await;
        let store = open(&place, "old_").await;
        assert_eq!(store.found_version(), Some(1));
        let ids: Vec<JobId> = (1..=4).map(id).collect();
        let mut hot = source.jobs(ids.clone()).await.expect("read");
        let dead = hot[2].as_mut().expect("a dead letter");
        assert!(dead.view.record.marks.take().is_some(), "this version marks it");
        assert_eq!(store.jobs(ids.clone()).await.expect("read"), hot, "all else is kept");
        let archived = store.archived(ids.clone()).await.expect("read");
        assert_eq!(archived, source.archived(ids).await.expect("read"));
        let ran: Vec<Option<bool>> =
            archived.iter().map(|found| found.as_ref().map(|found| found.ran)).collect();
        assert_eq!(ran, [Some(true), Some(false), None, None]);
        let incident = store.incidents(10).await.expect("read").remove(0);
        assert_eq!(
            (incident.failures, incident.dead, incident.open),
            (1, 1, 0),
            "its dead letter bears no mark"
        );
        store.operate(vec![id(3)], Operation::Retry).await.expect("operated")[0].as_ref().expect("dead");
        assert_eq!(store.incidents(10).await.expect("read")[0].open, 0);
        // Only the one that ran is removed by age, and its key still answers.
        assert_eq!(store.prunable(Duration::ZERO, 10).await.expect("counted"), 1);
        let term = lead(&store, Duty::Prune).await;
        assert_eq!(store.prune(term, Duration::ZERO, 10).await.expect("pruned"), 1);
        assert_eq!(store.prune(term, Duration::ZERO, 10).await.expect("pruned"), 0);
        assert!(store.archived(vec![id(1)]).await.expect("read")[0].is_none());
        assert!(store.archived(vec![id(2)]).await.expect("read")[0].is_some());
        assert_eq!(submit(&store, 9, Some("first")).await, (id(1), State::Succeeded, true));
    });
}

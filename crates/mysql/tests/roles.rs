//! Each role may do its work and nothing else.

mod place;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, OnConflict, Operation, Retention, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_mysql::{MysqlStore, Options};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Amend, Amended, Claim, ClaimQueue, DocumentRange, Drawer, Duty, Edit, Error, Expect, Finish,
    InspectStore, JobFilter, KnownKind, NewWorker, PageRequest, Submit, WorkStore,
};
use backstop_testbed::shared;
use place::InDatabase;

/// A store of a user that has one role and nothing else.
async fn open_as(place: &InDatabase, prefix: &str, role: &str) -> MysqlStore {
    let user = format!("u_{}_{role}", place.name());
    for text in [
        format!("CREATE USER {user}@'%'"),
        format!("GRANT {prefix}{role} TO {user}@'%'"),
        format!("SET DEFAULT ROLE {prefix}{role} FOR {user}@'%'"),
    ] {
        place::sql(shared::mariadb(), &text).await;
    }
    let url = place.url();
    let (_, host) = url.split_once('@').expect("it names a user");
    let mut options = Options::default();
    options.migrate = false;
    let url = format!("mysql://{user}@{host}?prefix={prefix}");
    MysqlStore::open(&url, options).await.expect("every role may look")
}

fn keyed(number: u128) -> NewJob {
    let mut job = NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"));
    job.spec.tags = vec!["red".into()];
    job.spec.idempotency_key = Some(format!("key-{number}"));
    job.spec.business_key = Some("order".into());
    job.on_conflict = OnConflict::Skip;
    job
}

async fn submit(store: &MysqlStore, job: NewJob) -> Result<bool, Error> {
    let answers = store.submit(Submit { jobs: vec![job], atomic: true }).await?;
    Ok(answers[0].as_ref().is_ok_and(|answer| answer.deduplicated))
}

/// A whole run: enlist, claim, finish, and the duties of maintenance.
async fn work(store: &MysqlStore) -> Result<State, Error> {
    let worker = WorkerId::from_u128(7);
    let kinds: Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
    let new = NewWorker {
        id: worker,
        name: "w".into(),
        code_version: None,
        queues: vec!["default".into()],
        kinds: kinds.clone(),
        lease: Duration::from_secs(60),
    };
    store.enlist(new).await?;
    let room = ClaimQueue { queue: "default".into(), limit: 1, start: 1, any_kind: false };
    let claimed = store
        .claim(Claim {
            worker,
            queues: vec![room],
            kinds,
            aging: Aging::default(),
            limits: Default::default(),
        })
        .await?;
    let job = &claimed.jobs[0];
    let ending = Ending::plain(job.job.spec.header(), Cause::Succeeded, Decision::succeeded());
    let answers = store.finish(vec![Finish { lease: job.lease, ending }]).await?;
    let terms = store.lead(worker, vec![Duty::Expire, Duty::Archive], Duration::from_secs(60)).await?;
    let (expire, archive) = (terms[0].expect("free"), terms[1].expect("free"));
    let overdue = store.overdue(None, 10).await?;
    store.expire(expire, overdue).await?;
    let at_once = Retention::default().succeeded(Some(Duration::ZERO));
    assert_eq!(store.archive(archive, at_once, 10).await?, 1);
    let prune = store.lead(worker, vec![Duty::Prune], Duration::from_secs(60)).await?[0].expect("free");
    assert_eq!(store.prune(prune, Duration::ZERO, 10).await?, 1);
    store.retire(worker).await?;
    Ok(answers[0].expect("held"))
}

fn rule() -> Amend {
    let edit = Edit { drawer: Drawer::Rules, key: "r".into(), expect: Expect::Any, body: Some("{}".into()) };
    Amend { edits: vec![edit], ..Amend::default() }
}

fn is_right(error: &Error) -> bool {
    error.to_string().contains("lacks a permission")
}

#[test]
fn each_role_may_do_its_work_and_nothing_else() {
    let place = InDatabase::fresh();
    let prefix = format!("{}_", place.name());
    InDatabase::block_on(async {
        let url = format!("{}?prefix={prefix}", place.url());
        let owner = MysqlStore::open(&url, Options::default()).await.expect("fresh");
        for _ in 0..2 {
            // Once more changes nothing.
            for statement in backstop_mysql::roles(&url).expect("a good URL") {
                place::sql(shared::mariadb(), &statement).await;
            }
        }
        let enqueuer = open_as(&place, &prefix, "enqueuer").await;
        assert!(!submit(&enqueuer, keyed(1)).await.expect("it may submit"));
        assert!(submit(&enqueuer, keyed(1)).await.expect("and be told of what is there"));
        assert!(submit(&enqueuer, keyed(2)).await.expect("also by business key"));
        let cancel = Operation::Cancel { reason: "no".into() };
        let refused = enqueuer.operate(vec![JobId::from_u128(1)], cancel.clone()).await;
        assert!(is_right(&refused.expect_err("it may not cancel")));
        assert!(is_right(&work(&enqueuer).await.expect_err("nor work")));
        assert!(is_right(&enqueuer.amend(rule()).await.expect_err("nor write documents")));
        let reader = open_as(&place, &prefix, "reader").await;
        let page = reader.list(JobFilter::default(), PageRequest::first(10)).await.expect("it may look");
        assert_eq!(page.items.len(), 1);
        reader.queues().await.expect("at queues too");
        reader.documents(DocumentRange::first(Drawer::Rules, 1)).await.expect("and at documents");
        assert!(is_right(&reader.amend(rule()).await.expect_err("which it may not write")));
        let plain = NewJob::new(Spec::new(JobId::from_u128(3), "work", "{}"));
        assert!(is_right(&submit(&reader, plain).await.expect_err("it may not submit")));
        let worker = open_as(&place, &prefix, "worker").await;
        assert!(worker.pause_queue("default", true, None).await.expect("a failure rule may"));
        assert!(worker.pause_queue("default", false, None).await.expect("and so may people"));
        assert_eq!(work(&worker).await.expect("it may work"), State::Succeeded);
        assert!(
            matches!(worker.amend(rule()).await, Ok(Amended::Done { .. })),
            "plans are stepped by workers"
        );
        assert!(submit(&enqueuer, keyed(1)).await.expect("the key of a purged job answers"));
        let server = open_as(&place, &prefix, "server").await;
        assert!(server.pause_queue("default", true, None).await.expect("it may pause"));
        assert!(!submit(&server, keyed(4)).await.expect("and submit"));
        assert!(server.operate(vec![JobId::from_u128(4)], cancel).await.expect("and cancel")[0].is_ok());
        for store in [enqueuer, reader, worker, server, owner] {
            drop(store);
        }
        for role in ["enqueuer", "reader", "worker", "server"] {
            place::sql(shared::mariadb(), &format!("DROP USER u_{}_{role}@'%'", place.name())).await;
        }
        for role in ["migrator", "enqueuer", "reader", "worker", "server"] {
            place::sql(shared::mariadb(), &format!("DROP ROLE {prefix}{role}")).await;
        }
    });
}

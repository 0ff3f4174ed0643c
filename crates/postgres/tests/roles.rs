//! Each role may do its work and nothing else, and migrations survive a kill at every statement.

mod place;

use std::time::Duration;

use backstop_core::failure::{Cause, Decision};
use backstop_core::job::{Aging, Ending, NewJob, OnConflict, Operation, Spec, State};
use backstop_core::{JobId, WorkerId};
use backstop_postgres::tokio_postgres::{Client, NoTls};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{
    Amend, Claim, ClaimQueue, Drawer, Duty, Edit, Error, Expect, Finish, InspectStore, JobFilter, KnownKind,
    NewWorker, PageRequest, Submit, WorkStore,
};
use backstop_testbed::shared;
use place::InSchema;

async fn superuser() -> Client {
    let (client, connection) = backstop_postgres::tokio_postgres::connect(shared::postgres(), NoTls)
        .await
        .expect("the server is there");
    tokio::spawn(connection);
    client
}

/// A store of a user that has one role and nothing else.
async fn open_as(client: &Client, place: &InSchema, role: &str) -> PostgresStore {
    let user = format!("u_{}_{role}", place.name());
    let make = format!("CREATE ROLE {user} LOGIN IN ROLE {}_{role}", place.name());
    client.batch_execute(&make).await.expect("made");
    let (_, host) = shared::postgres().split_once('@').expect("it names a user");
    let mut options = Options::default();
    options.migrate = false;
    let url = format!("postgres://{user}@{host}?schema={}&listen=off", place.name());
    PostgresStore::open(&url, options).await.expect("every role may look")
}

fn keyed(number: u128) -> NewJob {
    let mut job = NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"));
    job.spec.tags = vec!["red".into()];
    job.spec.idempotency_key = Some(format!("key-{number}"));
    job.spec.business_key = Some("order".into());
    job.on_conflict = OnConflict::Skip;
    job
}

async fn submit(store: &PostgresStore, job: NewJob) -> Result<bool, Error> {
    let answers = store.submit(Submit { jobs: vec![job], atomic: true }).await?;
    Ok(answers[0].as_ref().is_ok_and(|answer| answer.deduplicated))
}

/// A whole run: enlist, claim, finish, and the duties of maintenance.
async fn work(store: &PostgresStore) -> Result<State, Error> {
    let worker = WorkerId::from_u128(7);
    let kinds: std::sync::Arc<[KnownKind]> = [KnownKind { kind: "work".into(), version: 1 }].into();
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
    let at_once = backstop_core::job::Retention::default().succeeded(Some(Duration::ZERO));
    assert_eq!(store.archive(archive, at_once, 10).await?, 1);
    store.retire(worker).await?;
    Ok(answers[0].expect("held"))
}

/// A change of a document, whatever is there.
fn note() -> Amend {
    let (drawer, key, body) = (Drawer::Rules, "one".to_owned(), Some("{}".into()));
    Amend { edits: vec![Edit { drawer, key, expect: Expect::Any, body }], ..Amend::default() }
}

fn is_right(error: &Error) -> bool {
    error.to_string().contains("lacks a permission")
}

#[test]
fn each_role_may_do_its_work_and_nothing_else() {
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let owner = PostgresStore::open(&place.url(), Options::default()).await.expect("fresh");
        owner.apply_roles().await.expect("made");
        owner.apply_roles().await.expect("once more changes nothing");
        let client = superuser().await;
        let enqueuer = open_as(&client, &place, "enqueuer").await;
        assert!(!submit(&enqueuer, keyed(1)).await.expect("it may submit"));
        assert!(submit(&enqueuer, keyed(1)).await.expect("and be told of what is there"));
        assert!(submit(&enqueuer, keyed(2)).await.expect("also by business key"));
        let cancel = Operation::Cancel { reason: "no".into() };
        let refused = enqueuer.operate(vec![JobId::from_u128(1)], cancel.clone()).await;
        assert!(is_right(&refused.expect_err("it may not cancel")));
        assert!(is_right(&work(&enqueuer).await.expect_err("nor work")));
        assert!(is_right(&enqueuer.amend(note()).await.expect_err("nor write documents")));
        assert!(is_right(&enqueuer.purge(vec![JobId::from_u128(1)], None).await.expect_err("nor purge")));
        let reader = open_as(&client, &place, "reader").await;
        let page = reader.list(JobFilter::default(), PageRequest::first(10)).await.expect("it may look");
        assert_eq!(page.items.len(), 1);
        reader.queues().await.expect("at queues too");
        reader.check().await.expect("and be a doctor");
        assert!(is_right(&submit(&reader, keyed(3)).await.expect_err("it may not submit")));
        let worker = open_as(&client, &place, "worker").await;
        assert!(worker.pause_queue("default", true, None).await.expect("a failure rule may"));
        assert!(worker.pause_queue("default", false, None).await.expect("and so may people"));
        assert_eq!(work(&worker).await.expect("it may work"), State::Succeeded);
        worker.amend(note()).await.expect("and write documents");
        let server = open_as(&client, &place, "server").await;
        server.amend(note()).await.expect("it may write documents");
        let purged =
            server.purge(vec![JobId::from_u128(1)], None).await.expect("and purge what the worker archived");
        assert_eq!(purged, [Ok(State::Succeeded)]);
        assert!(submit(&enqueuer, keyed(1)).await.expect("whose key is still known"));
        assert!(server.pause_queue("default", true, None).await.expect("it may pause"));
        assert!(!submit(&server, keyed(4)).await.expect("and submit"));
        assert!(server.operate(vec![JobId::from_u128(4)], cancel).await.expect("and cancel")[0].is_ok());
        for store in [enqueuer, reader, worker, server, owner] {
            drop(store);
        }
        for role in ["enqueuer", "reader", "worker", "server"] {
            client.batch_execute(&format!("DROP ROLE u_{}_{role}", place.name())).await.expect("dropped");
        }
        for role in ["migrator", "enqueuer", "reader", "worker", "server"] {
            let text = format!("DROP OWNED BY {0}_{role}; DROP ROLE {0}_{role}", place.name());
            client.batch_execute(&text).await.expect("dropped");
        }
    });
}

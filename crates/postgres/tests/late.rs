//! A claim that takes longer than the lease of its worker: what was written is told.

mod place;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{Aging, NewJob, Spec};
use backstop_core::{JobId, WorkerId};
use backstop_postgres::tokio_postgres::{self, NoTls};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{Claim, ClaimQueue, Error, KnownKind, NewWorker, Submit, WorkStore};
use backstop_testbed::shared;
use place::InSchema;

const WORKER: WorkerId = WorkerId::from_u128(7);

/// Whoever takes a job waits until every lease has run out.
fn slow_takes(schema: &str) -> String {
    format!(
        "CREATE FUNCTION {schema}.wait() RETURNS trigger LANGUAGE plpgsql AS $wait$ BEGIN
            PERFORM pg_sleep(greatest(0, (SELECT max(w.expires_at) FROM {schema}.worker w) / 1000000.0
                - extract(epoch FROM clock_timestamp()) + 0.001));
            RETURN OLD;
        END $wait$;
        CREATE TRIGGER wait BEFORE DELETE ON {schema}.ready FOR EACH ROW EXECUTE FUNCTION {schema}.wait()"
    )
}

async fn claim(store: &PostgresStore, kinds: &Arc<[KnownKind]>) -> Result<Vec<JobId>, Error> {
    let queue = ClaimQueue { queue: "default".into(), limit: 4, start: 4, any_kind: false };
    let (queues, kinds, limits) = (vec![queue], kinds.clone(), Arc::default());
    let claimed =
        store.claim(Claim { worker: WORKER, queues, kinds, aging: Aging::default(), limits }).await?;
    Ok(claimed.jobs.iter().map(|claimed| claimed.job.spec.id).collect())
}

#[test]
fn what_was_claimed_is_told_although_the_lease_ran_out_meanwhile() {
    // L2, L15, C5: runs that were counted and that nobody was told of would be crashes of jobs that never ran.
    InSchema::block_on(async {
        let place = InSchema::fresh();
        let store = PostgresStore::open(&place.url(), Options::default()).await.expect("it opens");
        let (client, connection) =
            tokio_postgres::connect(shared::postgres(), NoTls).await.expect("the server is there");
        tokio::spawn(connection);
        client.batch_execute(&slow_takes(place.name())).await.expect("made");
        let kinds: Arc<[KnownKind]> = Arc::new([KnownKind { kind: "work".into(), version: 1 }]);
        let job = NewJob::new(Spec::new(JobId::from_u128(1), "work", "{}"));
        store.submit(Submit { jobs: vec![job], atomic: true }).await.expect("stored");
        let worker = NewWorker {
            id: WORKER,
            name: "late".to_owned(),
            code_version: None,
            queues: vec!["default".into()],
            kinds: kinds.clone(),
            lease: Duration::from_secs(2),
        };
        // On a busy machine the lease may have run out before the claim began: then nothing was taken.
        let claimed = loop {
            store.enlist(worker.clone()).await.expect("enlisted");
            match claim(&store, &kinds).await {
                Err(Error::NotEnlisted { .. }) => {
                    assert!(store.orphans(1).await.expect("readable").is_empty(), "nobody holds anything");
                }
                claimed => break claimed.expect("claimed"),
            }
        };
        assert_eq!(claimed, [JobId::from_u128(1)]);
        assert_eq!(claim(&store, &kinds).await.expect_err("its lease is over").code(), "worker_not_enlisted");
    });
}

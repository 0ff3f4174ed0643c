//! Jobs inside a transaction of the driver `sqlx` (L14).

#![cfg(feature = "sqlx")]

mod place;

#[allow(dead_code, reason = "the tests over the other driver use more of it")]
#[path = "transaction/world.rs"]
mod world;

use backstop_core::job::{NewJob, Operation, State};
use backstop_core::{JobId, Refusal};
use backstop_mysql::sqlx::{Connection as _, Executor as _, MySqlConnection};
use backstop_mysql::{InSqlx, Prefix, finish_in, submit_in};
use backstop_store::conformance::StorePlace as _;
use backstop_store::{InspectStore, Submit, WorkStore};

use place::InDatabase;
use world::{World, full_job, job, keyed, success};

async fn connect(world: &World) -> MySqlConnection {
    MySqlConnection::connect(&world.address()).await.expect("a server")
}

const OWN_ROW: &str = "INSERT INTO account VALUES ('ada')";

async fn store_one(world: &World, new: NewJob) {
    world.store.submit(Submit { jobs: vec![new], atomic: true }).await.expect("stored");
}

#[test]
fn commit_makes_the_job_and_rollback_leaves_none() {
    // L14, L20
    InDatabase::block_on(async {
        let world = World::new().await;
        let mut conn = connect(&world).await;
        for (number, commit) in [(1, true), (2, false)] {
            let mut tx = conn.begin().await.expect("begun");
            tx.execute(OWN_ROW).await.expect("written");
            let mut new = full_job(number);
            new.spec.idempotency_key = None;
            new.spec.business_key = None;
            let mut session = InSqlx::new(&mut tx, Prefix::default());
            assert!(submit_in(&mut session, &[new.clone()]).await.expect("answered")[0].is_ok());
            if commit {
                tx.commit().await.expect("committed");
                assert_eq!(world.detail(number).await.expect("stored").view.job.spec, new.spec);
            } else {
                tx.rollback().await.expect("rolled back");
            }
        }
        assert_eq!((world.state(2).await, world.own_rows().await, world.pending().await), (None, 1, 1));
    });
}

#[test]
fn a_refused_job_leaves_the_transaction_usable() {
    // L11, L14
    InDatabase::block_on(async {
        let world = World::new().await;
        let mut conn = connect(&world).await;
        let mut tx = conn.begin().await.expect("begun");
        let mut session = InSqlx::new(&mut tx, Prefix::default());
        let answers = submit_in(&mut session, &[keyed(1, "k"), keyed(2, "k")]).await.expect("answered");
        assert!(matches!(answers[1], Err(Refusal::BusinessKeyConflict { .. })), "{answers:?}");
        submit_in(&mut session, &[job(3)]).await.expect("usable");
        tx.execute(OWN_ROW).await.expect("usable");
        tx.commit().await.expect("committed");
        assert_eq!((world.state(2).await, world.state(3).await), (None, Some(State::Pending)));
        assert_eq!((world.own_rows().await, world.pending().await), (1, 2));
    });
}

#[test]
fn the_completion_commits_with_what_the_handler_wrote() {
    // L5, L14
    InDatabase::block_on(async {
        let world = World::new().await;
        store_one(&world, job(1)).await;
        let finish = success(&world.claim_one().await);
        let mut conn = connect(&world).await;
        for commit in [false, true] {
            let mut tx = conn.begin().await.expect("begun");
            tx.execute(OWN_ROW).await.expect("written");
            let mut session = InSqlx::new(&mut tx, Prefix::default());
            let answers = finish_in(&mut session, std::slice::from_ref(&finish)).await.expect("answered");
            assert_eq!(answers, [Ok(State::Succeeded)]);
            if commit {
                tx.commit().await.expect("committed");
            } else {
                tx.rollback().await.expect("rolled back");
            }
            let expected = if commit { State::Succeeded } else { State::Running };
            assert_eq!((world.state(1).await, world.own_rows().await), (Some(expected), i64::from(commit)));
        }
        assert_eq!(world.store.finish(vec![finish]).await.expect("answered"), [Ok(State::Succeeded)]);
    });
}

#[test]
fn a_completion_of_a_canceled_job_is_stale() {
    // L5, L7, L14
    InDatabase::block_on(async {
        let world = World::new().await;
        store_one(&world, job(1)).await;
        let finish = success(&world.claim_one().await);
        let cancel = Operation::Cancel { reason: "changed my mind".into() };
        world.store.operate(vec![JobId::from_u128(1)], cancel).await.expect("answered");
        let mut conn = connect(&world).await;
        let mut tx = conn.begin().await.expect("begun");
        let mut session = InSqlx::new(&mut tx, Prefix::default());
        assert!(finish_in(&mut session, &[finish]).await.expect("answered")[0].is_err());
        tx.rollback().await.expect("rolled back");
        assert_eq!(world.state(1).await, Some(State::Canceled));
    });
}

#[test]
fn a_key_is_waited_for_and_then_found() {
    // L10, L14
    InDatabase::block_on(async {
        let world = World::new().await;
        let with_key = |number| {
            let mut new = job(number);
            new.spec.idempotency_key = Some("order-17".into());
            new
        };
        let mut conn = connect(&world).await;
        let mut tx = conn.begin().await.expect("begun");
        let mut session = InSqlx::new(&mut tx, Prefix::default());
        submit_in(&mut session, &[with_key(1)]).await.expect("stored");
        let store = world.store.clone();
        let other = tokio::spawn(async move {
            store.submit(Submit { jobs: vec![with_key(2)], atomic: true }).await.expect("answered").remove(0)
        });
        world.until_another_waits().await;
        tx.commit().await.expect("committed");
        let answer = other.await.expect("no panic").expect("known");
        assert_eq!((answer.id, answer.deduplicated), (JobId::from_u128(1), true));
    });
}

#[test]
fn a_call_without_a_transaction_is_refused() {
    // L14
    InDatabase::block_on(async {
        let world = World::new().await;
        let mut conn = connect(&world).await;
        let mut session = InSqlx::new(&mut conn, Prefix::default());
        let error = submit_in(&mut session, &[job(1)]).await.expect_err("no transaction").to_string();
        assert!(error.contains("no transaction is open"), "{error}");
        assert_eq!(world.state(1).await, None);
    });
}

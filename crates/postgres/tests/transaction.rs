//! Jobs inside the caller's own transaction (L14): the same tests over every driver that can carry one.

mod place;

#[path = "transaction/drivers.rs"]
mod drivers;
#[path = "transaction/function.rs"]
mod function;
#[path = "transaction/world.rs"]
mod world;

use backstop_core::incident::{IncidentState, IncidentUpdate, IncidentVerb};
use backstop_core::job::{OnConflict, Operation, State};
use backstop_core::{JobId, Refusal};
use backstop_store::{InspectStore, Submit, WorkStore};

use drivers::{Driver, Outcome, Step};
use world::{World, death, job, keyed, ordered, success};

/// Makes each test once for each driver.
macro_rules! over_every_driver {
    ($($test:ident),* $(,)?) => {
        over_every_driver!(@driver tokio_postgres, TokioPostgres, $($test),*);
        #[cfg(feature = "sqlx")]
        over_every_driver!(@driver sqlx, Sqlx, $($test),*);
        #[cfg(feature = "diesel-async")]
        over_every_driver!(@driver diesel_async, Diesel, $($test),*);
    };
    (@driver $name:ident, $driver:ident, $($test:ident),*) => {
        mod $name {
            $(#[test]
            fn $test() {
                crate::world::block_on(super::$test::<super::drivers::$driver>());
            })*
        }
    };
}

over_every_driver!(
    commit_makes_the_job_and_rollback_leaves_none,
    a_job_of_the_callers_transaction_is_claimed_like_any_other,
    every_field_comes_through,
    a_refused_job_leaves_the_transaction_usable,
    a_failed_submit_leaves_the_transaction_usable,
    a_key_is_waited_for_and_then_found,
    a_key_that_is_rolled_back_is_free,
    the_completion_commits_with_what_the_handler_wrote,
    a_completion_of_a_canceled_job_is_stale,
    a_failure_in_the_callers_transaction_is_counted,
    an_open_transaction_holds_up_nobodys_line,
);

async fn commit_makes_the_job_and_rollback_leaves_none<D: Driver>() {
    // L14
    let world = World::new().await;
    let mut driver = D::connect(&world).await;
    for (number, commit) in [(1, true), (2, false)] {
        let steps = [world.own_row(), Step::Submit(vec![job(number)])];
        let outcomes = driver.transaction(&world, &steps, world::nothing(), commit).await;
        assert!(
            matches!(&outcomes[1], Outcome::Submitted(Ok(answers)) if answers[0].is_ok()),
            "{outcomes:?}"
        );
    }
    assert_eq!((world.own_rows().await, world.state(1).await), (1, Some(State::Pending)));
    assert_eq!(world.state(2).await, None);
    assert_eq!(world.pending().await, 1, "the counts are rolled back too");
}

async fn a_job_of_the_callers_transaction_is_claimed_like_any_other<D: Driver>() {
    // L14
    let world = World::new().await;
    let steps = [Step::Submit(vec![job(1)])];
    D::connect(&world).await.transaction(&world, &steps, world::nothing(), true).await;
    assert_eq!(world.claim_one().await.lease.job, JobId::from_u128(1));
}

async fn every_field_comes_through<D: Driver>() {
    // L14, L20
    let world = World::new().await;
    let new = world::full_job(1);
    let steps = [Step::Submit(vec![new.clone()])];
    D::connect(&world).await.transaction(&world, &steps, world::nothing(), true).await;
    let stored = world.detail(1).await.expect("stored");
    assert_eq!(stored.view.job.spec, new.spec);
}

async fn a_refused_job_leaves_the_transaction_usable<D: Driver>() {
    // L11, L14
    let world = World::new().await;
    let steps = [
        Step::Submit(vec![keyed(1, "k"), keyed(2, "k"), job(3)]),
        world.own_row(),
        Step::Submit(vec![job(4)]),
    ];
    let outcomes = D::connect(&world).await.transaction(&world, &steps, world::nothing(), true).await;
    let Outcome::Submitted(Ok(answers)) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(matches!(answers[1], Err(Refusal::BusinessKeyConflict { .. })), "{answers:?}");
    let mut stored = Vec::new();
    for number in 1..=4 {
        stored.push(world.state(number).await.is_some());
    }
    assert_eq!((stored, world.own_rows().await), (vec![true, false, true, true], 1));
}

async fn a_failed_submit_leaves_the_transaction_usable<D: Driver>() {
    // L14: a statement that fails would abort the whole transaction, were there no savepoint around it.
    let world = World::new().await;
    world.batch("ALTER TABLE backstop.tag ADD CONSTRAINT no_tags CHECK (tag = '')").await;
    let mut tagged = job(1);
    tagged.spec.tags = vec!["red".into()];
    let steps = [Step::Submit(vec![tagged]), world.own_row(), Step::Submit(vec![job(2)])];
    let outcomes = D::connect(&world).await.transaction(&world, &steps, world::nothing(), true).await;
    let Outcome::Submitted(Err(error)) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(error.to_string().contains("no_tags"), "the database's words are passed on: {error}");
    assert_eq!((world.state(1).await, world.state(2).await), (None, Some(State::Pending)));
    assert_eq!((world.own_rows().await, world.pending().await), (1, 1));
}

/// Submits a job with an idempotency key in a transaction, and the same key to the store before that has ended.
async fn race<D: Driver>(commit: bool) -> (World, backstop_store::Submitted) {
    let world = World::new().await;
    let with_key = |number| {
        let mut new = job(number);
        new.spec.idempotency_key = Some("order-17".into());
        new
    };
    let store = world.store.clone();
    let other = tokio::spawn({
        let begun = world.begun.clone();
        async move {
            begun.notified().await;
            store.submit(Submit { jobs: vec![with_key(2)], atomic: true }).await
        }
    });
    let steps = [Step::Submit(vec![with_key(1)])];
    let mut driver = D::connect(&world).await;
    driver.transaction(&world, &steps, Box::pin(world.until_another_waits()), commit).await;
    let answer = other.await.expect("no panic").expect("the store is there").remove(0).expect("not refused");
    (world, answer)
}

async fn a_key_is_waited_for_and_then_found<D: Driver>() {
    // L10, L14
    let (world, answer) = race::<D>(true).await;
    assert_eq!((answer.id, answer.deduplicated), (JobId::from_u128(1), true));
    assert_eq!(world.state(2).await, None);
}

async fn a_key_that_is_rolled_back_is_free<D: Driver>() {
    // L10, L14
    let (world, answer) = race::<D>(false).await;
    assert_eq!((answer.id, answer.deduplicated), (JobId::from_u128(2), false));
    assert_eq!(world.state(1).await, None);
}

async fn the_completion_commits_with_what_the_handler_wrote<D: Driver>() {
    // L14
    let world = World::new().await;
    let mut new = job(1);
    new.on_conflict = OnConflict::Reject;
    world.store.submit(Submit { jobs: vec![new], atomic: true }).await.expect("stored");
    let finish = success(&world.claim_one().await);
    let mut driver = D::connect(&world).await;
    for commit in [false, true] {
        let steps = [world.own_row(), Step::Finish(vec![finish.clone()])];
        let outcomes = driver.transaction(&world, &steps, world::nothing(), commit).await;
        let Outcome::Finished(Ok(answers)) = &outcomes[1] else { panic!("{outcomes:?}") };
        assert_eq!(answers, &[Ok(State::Succeeded)]);
        let expected = if commit { State::Succeeded } else { State::Running };
        assert_eq!((world.state(1).await, world.own_rows().await), (Some(expected), i64::from(commit)));
    }
    let again = world.store.finish(vec![finish]).await.expect("answered");
    assert_eq!(
        again,
        [Ok(State::Succeeded)],
        "L5: another connection has ended it, and the answer is that of then"
    );
}

async fn a_completion_of_a_canceled_job_is_stale<D: Driver>() {
    // L5, L7, L14
    let world = World::new().await;
    world.store.submit(Submit { jobs: vec![job(1)], atomic: true }).await.expect("stored");
    let finish = success(&world.claim_one().await);
    let cancel = Operation::Cancel { reason: "changed my mind".into() };
    world.store.operate(vec![JobId::from_u128(1)], cancel).await.expect("answered");
    let steps = [Step::Finish(vec![finish]), world.own_row()];
    let outcomes = D::connect(&world).await.transaction(&world, &steps, world::nothing(), true).await;
    assert!(matches!(&outcomes[0], Outcome::Finished(Ok(answers)) if answers[0].is_err()), "{outcomes:?}");
    assert_eq!((world.state(1).await, world.own_rows().await), (Some(State::Canceled), 1));
}

async fn a_failure_in_the_callers_transaction_is_counted<D: Driver>() {
    // D2, D7, L14
    let world = World::new().await;
    let mut driver = D::connect(&world).await;
    for (number, commit, seen) in [(1, true, (1, 1, 0)), (2, false, (1, 1, 0)), (3, true, (2, 2, 1))] {
        world.store.submit(Submit { jobs: vec![job(number)], atomic: true }).await.expect("stored");
        let finish = death(&world.claim_one().await);
        let steps = [Step::Finish(vec![finish.clone()])];
        let outcomes = driver.transaction(&world, &steps, world::nothing(), commit).await;
        let Outcome::Finished(Ok(answers)) = &outcomes[0] else { panic!("{outcomes:?}") };
        assert_eq!(answers, &[Ok(State::Failed)]);
        let incident = world.store.incidents(10).await.expect("read").remove(0);
        assert_eq!((incident.failures, incident.open, incident.standing.regressions), seen);
        let fixed =
            IncidentUpdate { verb: IncidentVerb::Fix { version: None }, by: "ann".into(), note: None };
        let said = world.store.say(vec![incident.fingerprint], fixed).await.expect("said");
        assert_eq!(said[0].as_ref().map(|incident| incident.standing.state), Some(IncidentState::Fixed));
    }
}

#[cfg(all(feature = "sqlx", feature = "diesel-async"))]
#[test]
fn a_call_without_a_transaction_is_refused() {
    // L14
    use ::diesel_async::{AsyncConnection as _, AsyncPgConnection};
    use ::sqlx::{Connection as _, PgConnection};
    world::block_on(async {
        let world = World::new().await;
        let mut conn = PgConnection::connect(&world.url()).await.expect("a server");
        let mut session = backstop_postgres::InSqlx::new(&mut conn, world.schema.clone());
        let over_sqlx = backstop_postgres::submit_in(&mut session, &[job(1)]).await;
        let mut conn = AsyncPgConnection::establish(&world.url()).await.expect("a server");
        let mut session = backstop_postgres::InDiesel::new(&mut conn, world.schema.clone());
        let over_diesel = backstop_postgres::submit_in(&mut session, &[job(1)]).await;
        for refused in [over_sqlx, over_diesel] {
            let error = refused.expect_err("no transaction").to_string();
            assert!(error.contains("no transaction is open"), "{error}");
        }
        assert_eq!(world.state(1).await, None);
    });
}

async fn an_open_transaction_holds_up_nobodys_line<D: Driver>() {
    // L14, L21
    let world = World::new().await;
    for new in [ordered(1, "busy"), ordered(2, "busy")] {
        world.store.submit(Submit { jobs: vec![new], atomic: true }).await.expect("stored");
    }
    let held = world.claim_one().await;
    assert_eq!(held.lease.job, JobId::from_u128(1));
    let steps = [Step::Submit(vec![ordered(3, "line")]), Step::Finish(vec![success(&held)])];
    let meanwhile = async {
        let jobs = vec![ordered(4, "line"), ordered(5, "busy"), ordered(6, "other")];
        world.store.submit(Submit { jobs, atomic: true }).await.expect("nobody waits for that transaction");
        let states = (world.state(2).await, world.state(4).await, world.state(6).await);
        assert_eq!(states, (Some(State::Waiting), Some(State::Pending), Some(State::Pending)));
    };
    let mut driver = D::connect(&world).await;
    let outcomes = driver.transaction(&world, &steps, Box::pin(meanwhile), true).await;
    assert!(matches!(&outcomes[1], Outcome::Finished(Ok(ends)) if ends[0].is_ok()), "{outcomes:?}");
    assert_eq!(world.state(2).await, Some(State::Waiting), "nobody has heard of the commit");
    assert_eq!(world.store.advance_lines(10).await.expect("maintenance"), 2, "both lines are noted");
    assert_eq!(world.store.advance_lines(10).await.expect("maintenance"), 0);
    let states = (world.state(2).await, world.state(3).await, world.state(5).await);
    assert_eq!(states, (Some(State::Pending), Some(State::Waiting), Some(State::Waiting)));
}

#[test]
fn a_locked_job_holds_up_its_own_line_alone() {
    // C7, L21
    world::block_on(async {
        let world = World::new().await;
        for (number, key) in [(1, "a"), (2, "a"), (3, "b"), (4, "b")] {
            let jobs = vec![ordered(number, key)];
            world.store.submit(Submit { jobs, atomic: true }).await.expect("stored");
        }
        let heads = [world.claim_one().await, world.claim_one().await];
        let stranger = world.connect().await;
        let lock = "BEGIN; SELECT 1 FROM backstop.record \
                    WHERE id = '00000000-0000-0000-0000-000000000002' FOR UPDATE";
        stranger.batch_execute(&world.schema.text(lock)).await.expect("locked");
        world.store.finish(heads.iter().map(success).collect()).await.expect("nobody waits for the stranger");
        let states = (world.state(2).await, world.state(4).await);
        assert_eq!(states, (Some(State::Waiting), Some(State::Pending)));
        stranger.batch_execute("ROLLBACK").await.expect("let go");
        world.store.advance_lines(10).await.expect("maintenance");
        assert_eq!(world.state(2).await, Some(State::Pending));
    });
}

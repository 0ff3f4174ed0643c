//! Jobs inside the caller's own transaction (L14), over the driver's own transactions and over plain connections, and
//! in both isolations that the servers are run with.

mod place;

#[path = "transaction/world.rs"]
mod world;

use backstop_core::job::{Operation, State};
use backstop_core::{JobId, Refusal};
use backstop_mysql::mysql_async::IsolationLevel;
use backstop_mysql::{InTransaction, Prefix, submit_in};
use backstop_store::conformance::StorePlace;
use backstop_store::{InspectStore, Submit, Submitted, WorkStore};

use place::InDatabase;
use world::{Carrier, Outcome, Step, World, job, keyed, note, ordered, success};

/// Makes each test once for each carrier and isolation.
macro_rules! over_every_carrier {
    ($($test:ident),* $(,)?) => {
        over_every_carrier!(@ transaction_repeatable, false, RepeatableRead, $($test),*);
        over_every_carrier!(@ transaction_committed, false, ReadCommitted, $($test),*);
        over_every_carrier!(@ connection_repeatable, true, RepeatableRead, $($test),*);
        over_every_carrier!(@ connection_committed, true, ReadCommitted, $($test),*);
    };
    (@ $name:ident, $plain:literal, $isolation:ident, $($test:ident),*) => {
        mod $name {
            use super::*;
            $(#[test]
            fn $test() {
                let carrier = Carrier { plain: $plain, isolation: IsolationLevel::$isolation };
                InDatabase::block_on(super::$test(carrier));
            })*
        }
    };
}

over_every_carrier!(
    commit_makes_the_job_and_rollback_leaves_none,
    a_job_of_the_callers_transaction_is_claimed_like_any_other,
    every_field_comes_through,
    a_refused_job_leaves_the_transaction_usable,
    a_failed_submit_leaves_the_transaction_usable,
    a_key_is_waited_for_and_then_found,
    a_key_that_is_rolled_back_is_free,
    what_was_stored_since_the_transaction_began_is_seen,
    the_completion_commits_with_what_the_handler_wrote,
    a_completion_after_progress_leaves_one_record,
    a_completion_of_a_canceled_job_is_stale,
    an_open_transaction_holds_up_nobodys_line,
);

async fn store_one(world: &World, new: backstop_core::job::NewJob) -> Submitted {
    let answers = world.store.submit(Submit { jobs: vec![new], atomic: true }).await.expect("stored");
    answers[0].clone().expect("not refused")
}

async fn commit_makes_the_job_and_rollback_leaves_none(carrier: Carrier) {
    // L14
    let world = World::new().await;
    for (number, commit) in [(1, true), (2, false)] {
        let steps = vec![Step::OwnRow, Step::Submit(vec![job(number)])];
        let outcomes = world.transaction(carrier, commit, steps).await;
        let stored = matches!(&outcomes[1], Outcome::Submitted(Ok(answers)) if answers[0].is_ok());
        assert!(stored, "{outcomes:?}");
    }
    assert_eq!((world.own_rows().await, world.state(1).await), (1, Some(State::Pending)));
    assert_eq!(world.state(2).await, None);
    assert_eq!(world.pending().await, 1, "the counts are rolled back too");
}

async fn a_job_of_the_callers_transaction_is_claimed_like_any_other(carrier: Carrier) {
    // L14
    let world = World::new().await;
    world.transaction(carrier, true, vec![Step::Submit(vec![job(1)])]).await;
    assert_eq!(world.claim_one().await.lease.job, JobId::from_u128(1));
}

async fn every_field_comes_through(carrier: Carrier) {
    // L14, L20
    let world = World::new().await;
    let new = world::full_job(1);
    world.transaction(carrier, true, vec![Step::Submit(vec![new.clone()])]).await;
    let stored = world.detail(1).await.expect("stored");
    assert_eq!(stored.view.job.spec, new.spec);
}

async fn a_refused_job_leaves_the_transaction_usable(carrier: Carrier) {
    // L11, L14
    let world = World::new().await;
    let first = vec![keyed(1, "k"), keyed(2, "k"), job(3)];
    let steps = vec![Step::Submit(first), Step::OwnRow, Step::Submit(vec![job(4)])];
    let outcomes = world.transaction(carrier, true, steps).await;
    let Outcome::Submitted(Ok(answers)) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(matches!(answers[1], Err(Refusal::BusinessKeyConflict { .. })), "{answers:?}");
    let mut stored = Vec::new();
    for number in 1..=4 {
        stored.push(world.state(number).await.is_some());
    }
    assert_eq!((stored, world.own_rows().await), (vec![true, false, true, true], 1));
}

async fn a_failed_submit_leaves_the_transaction_usable(carrier: Carrier) {
    // L14
    let world = World::new().await;
    world.sql("ALTER TABLE backstop_tag ADD CONSTRAINT no_tags CHECK (tag = '')").await;
    let mut tagged = job(1);
    tagged.spec.tags = vec!["red".into()];
    let steps = vec![Step::Submit(vec![tagged]), Step::OwnRow, Step::Submit(vec![job(2)])];
    let outcomes = world.transaction(carrier, true, steps).await;
    let Outcome::Submitted(Err(error)) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(error.to_string().contains("no_tags"), "the database's words are passed on: {error}");
    assert_eq!((world.state(1).await, world.state(2).await), (None, Some(State::Pending)));
    assert_eq!((world.own_rows().await, world.pending().await), (1, 1));
}

/// Submits a job with an idempotency key in a transaction, and the same key to the store before that has ended.
async fn race(carrier: Carrier, commit: bool) -> (World, Submitted) {
    let world = World::new().await;
    let with_key = |number| {
        let mut new = job(number);
        new.spec.idempotency_key = Some("order-17".into());
        new
    };
    let other = tokio::spawn({
        let (store, begun) = (world.store.clone(), world.begun.clone());
        async move {
            begun.notified().await;
            store.submit(Submit { jobs: vec![with_key(2)], atomic: true }).await
        }
    });
    let steps = vec![Step::Submit(vec![with_key(1)]), Step::Wait(Box::pin(world.until_another_waits()))];
    world.transaction(carrier, commit, steps).await;
    let answer = other.await.expect("no panic").expect("the store is there").remove(0).expect("not refused");
    (world, answer)
}

async fn a_key_is_waited_for_and_then_found(carrier: Carrier) {
    // L10, L14
    let (world, answer) = race(carrier, true).await;
    assert_eq!((answer.id, answer.deduplicated), (JobId::from_u128(1), true));
    assert_eq!(world.state(2).await, None);
}

async fn a_key_that_is_rolled_back_is_free(carrier: Carrier) {
    // L10, L14
    let (world, answer) = race(carrier, false).await;
    assert_eq!((answer.id, answer.deduplicated), (JobId::from_u128(2), false));
    assert_eq!(world.state(1).await, None);
}

async fn what_was_stored_since_the_transaction_began_is_seen(carrier: Carrier) {
    // L10, L11, L14: under REPEATABLE READ the transaction itself still sees what there was when it began.
    let world = World::new().await;
    let mut known = job(1);
    known.spec.idempotency_key = Some("order-17".into());
    let mut again = known.clone();
    again.spec.id = JobId::from_u128(2);
    let mut other_lane = job(5);
    other_lane.spec.queue = "new".into();
    let mut same_lane = job(6);
    same_lane.spec.queue = "new".into();
    let meanwhile = async {
        store_one(&world, known).await;
        store_one(&world, keyed(3, "k")).await;
        store_one(&world, other_lane).await;
    };
    let batch = vec![again, keyed(4, "k"), job(3), same_lane];
    let steps = vec![Step::Look, Step::Wait(Box::pin(meanwhile)), Step::Submit(batch)];
    let outcomes = world.transaction(carrier, true, steps).await;
    let Outcome::Submitted(Ok(answers)) = &outcomes[2] else { panic!("{outcomes:?}") };
    let deduplicated = |place: usize| answers[place].as_ref().is_ok_and(|answer| answer.deduplicated);
    assert!(deduplicated(0) && deduplicated(2), "{answers:?}");
    assert!(matches!(answers[1], Err(Refusal::BusinessKeyConflict { .. })), "{answers:?}");
    assert_eq!((world.state(6).await, world.pending().await), (Some(State::Pending), 4));
}

async fn the_completion_commits_with_what_the_handler_wrote(carrier: Carrier) {
    // L14
    let world = World::new().await;
    store_one(&world, job(1)).await;
    let finish = success(&world.claim_one().await);
    for commit in [false, true] {
        let steps = vec![Step::OwnRow, Step::Finish(vec![finish.clone()])];
        let outcomes = world.transaction(carrier, commit, steps).await;
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

async fn a_completion_after_progress_leaves_one_record(carrier: Carrier) {
    // L14: the handler has looked at its tables before it said how far it is.
    let world = World::new().await;
    store_one(&world, job(1)).await;
    let claimed = world.claim_one().await;
    let meanwhile = async {
        let noted = world.store.annotate(vec![note(&claimed)]).await.expect("answered");
        assert!(noted[0].is_ok());
    };
    let steps = vec![
        Step::Look,
        Step::Wait(Box::pin(meanwhile)),
        Step::OwnRow,
        Step::Finish(vec![success(&claimed)]),
    ];
    world.transaction(carrier, true, steps).await;
    assert_eq!(world.state(1).await, Some(State::Succeeded));
    assert!(world.detail(1).await.expect("stored").view.record.progress.is_some());
    assert_eq!(world.records().await, 0, "what it went through is in the row of its success");
}

async fn a_completion_of_a_canceled_job_is_stale(carrier: Carrier) {
    // L5, L7, L14
    let world = World::new().await;
    store_one(&world, job(1)).await;
    let finish = success(&world.claim_one().await);
    let cancel = Operation::Cancel { reason: "changed my mind".into() };
    world.store.operate(vec![JobId::from_u128(1)], cancel).await.expect("answered");
    let outcomes = world.transaction(carrier, true, vec![Step::Finish(vec![finish]), Step::OwnRow]).await;
    assert!(matches!(&outcomes[0], Outcome::Finished(Ok(answers)) if answers[0].is_err()), "{outcomes:?}");
    assert_eq!((world.state(1).await, world.own_rows().await), (Some(State::Canceled), 1));
}

#[test]
fn without_a_transaction_nothing_is_stored() {
    // L14: the job would stand whatever became of the caller's rows.
    InDatabase::block_on(async {
        let world = World::new().await;
        let mut conn = world.connect().await;
        let error = submit_in(&mut InTransaction::new(&mut conn, Prefix::default()), &[job(1)])
            .await
            .expect_err("no transaction is open");
        assert!(error.to_string().contains("no transaction is open"), "{error}");
        assert_eq!((world.state(1).await, world.pending().await), (None, 0));
    });
}

async fn an_open_transaction_holds_up_nobodys_line(carrier: Carrier) {
    // L14, L21
    let world = World::new().await;
    store_one(&world, ordered(1, "busy")).await;
    store_one(&world, ordered(2, "busy")).await;
    let held = world.claim_one().await;
    assert_eq!(held.lease.job, JobId::from_u128(1));
    let meanwhile = async {
        let jobs = vec![ordered(4, "line"), ordered(5, "busy"), ordered(6, "other")];
        world.store.submit(Submit { jobs, atomic: true }).await.expect("nobody waits for that transaction");
        let states = (world.state(2).await, world.state(4).await, world.state(6).await);
        assert_eq!(states, (Some(State::Waiting), Some(State::Pending), Some(State::Pending)));
    };
    let steps = vec![
        Step::Look,
        Step::Submit(vec![ordered(3, "line")]),
        Step::Finish(vec![success(&held)]),
        Step::Wait(Box::pin(meanwhile)),
    ];
    let outcomes = world.transaction(carrier, true, steps).await;
    assert!(matches!(&outcomes[2], Outcome::Finished(Ok(ends)) if ends[0].is_ok()), "{outcomes:?}");
    assert_eq!(world.state(2).await, Some(State::Waiting), "nobody has heard of the commit");
    assert_eq!(world.store.advance_lines(10).await.expect("maintenance"), 2, "both lines are noted");
    assert_eq!(world.store.advance_lines(10).await.expect("maintenance"), 0);
    let states = (world.state(2).await, world.state(3).await, world.state(5).await);
    assert_eq!(states, (Some(State::Pending), Some(State::Waiting), Some(State::Waiting)));
}

//! Cases about idempotency keys, business keys, and jobs that take the place of others.

use backstop_core::Refusal;
use backstop_core::failure::Cause;
use backstop_core::job::{OnConflict, Operation, State};

use super::build::{ends_by, id, job, success};
use super::fixture::Fixture;
use super::place::at_once;
use crate::{JobFilter, Submit, Submitted};

use OnConflict::{Reject, Replace, Skip};

/// L10: the second submit answers with the first job.
pub async fn an_idempotency_key_makes_one_job(w: Fixture) {
    w.submit(job(1).once("order 7")).await;
    let again = w.offer(job(2).once("order 7")).await.expect("deduplicated");
    assert_eq!(again, Submitted { id: id(1), state: State::Pending, deduplicated: true });
    assert!(!w.exists(id(2)).await);
}

/// L10: the key is unique for ever, also after the job has ended in any way.
pub async fn an_idempotency_key_outlives_its_job(w: Fixture) {
    let claimed = w.running(job(1).once("a")).await;
    w.finish(&claimed, success(&claimed)).await;
    let claimed = w.running(job(2).once("b")).await;
    w.finish(&claimed, ends_by(&claimed, Cause::Permanent)).await;
    w.submit(job(3).once("c")).await;
    w.cancel(id(3)).await;
    for (key, first, state) in
        [("a", 1, State::Succeeded), ("b", 2, State::Failed), ("c", 3, State::Canceled)]
    {
        let again = w.offer(job(10 + first).once(key)).await.expect("deduplicated");
        assert_eq!(again, Submitted { id: id(first), state, deduplicated: true });
    }
}

/// L10: keys are compared as they are.
pub async fn idempotency_keys_differ_in_case_and_space(w: Fixture) {
    for (number, key) in ["a", "A", "a ", "ä", "a\u{308}"].into_iter().enumerate() {
        w.submit(job(number as u64).once(key)).await;
    }
}

/// L10: 64 clients at once make one job.
pub async fn racing_clients_make_one_job(w: Fixture) {
    let calls = (1..=64)
        .map(|number| w.store.submit(Submit { jobs: vec![job(number).once("race").0], atomic: true }));
    let answers = at_once(calls.collect()).await;
    let answers: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.expect("submit").remove(0).expect("none is refused"))
        .collect();
    let winner = w.listed(JobFilter::default()).await;
    assert_eq!(winner.len(), 1);
    assert_eq!(answers.iter().filter(|answer| !answer.deduplicated).count(), 1);
    assert!(answers.iter().all(|answer| answer.id == winner[0]));
}

/// L10: the key is known to a store that was closed and opened.
pub async fn an_idempotency_key_survives_a_reopened_store(w: Fixture) {
    w.submit(job(1).once("k")).await;
    let w = w.reopen().await;
    assert_eq!(w.offer(job(2).once("k")).await.expect("known").id, id(1));
}

/// L11: the default refuses and names the holder.
pub async fn a_business_key_conflict_names_the_holder(w: Fixture) {
    w.submit(job(1).key("k", Reject)).await;
    let refused = w.offer(job(2).key("k", Reject)).await.expect_err("held");
    let expected = Refusal::BusinessKeyConflict { key: "k".into(), holder: id(1), state: State::Pending };
    assert_eq!(refused, expected);
    assert!(!w.exists(id(2)).await);
    w.submit(job(3).key("other", Reject)).await;
}

/// L11: running and paused jobs hold their key, with any policy but skip.
pub async fn running_and_paused_jobs_hold_their_key(w: Fixture) {
    w.running(job(1).key("k", Reject)).await;
    for policy in [Reject, Replace] {
        let refused = w.offer(job(2).key("k", policy)).await.expect_err("held");
        assert!(matches!(refused, Refusal::BusinessKeyConflict { state: State::Running, .. }), "{refused}");
    }
    w.submit(job(3).key("p", Reject)).await;
    w.operate(id(3), Operation::Pause).await.expect("pending");
    let refused = w.offer(job(4).key("p", Reject)).await.expect_err("held");
    assert!(matches!(refused, Refusal::BusinessKeyConflict { state: State::Paused, .. }), "{refused}");
}

/// L11: a job that has ended holds no key.
pub async fn an_ended_job_frees_its_key(w: Fixture) {
    let claimed = w.running(job(1).key("k", Reject)).await;
    w.finish(&claimed, success(&claimed)).await;
    let claimed = w.running(job(2).key("k", Reject)).await;
    w.finish(&claimed, ends_by(&claimed, Cause::Invalid)).await;
    w.submit(job(3).key("k", Reject)).await;
    w.cancel(id(3)).await;
    w.submit(job(4).key("k", Reject)).await;
}

/// L11: skip keeps the holder and answers with it, wherever it is.
pub async fn skip_answers_with_the_holder(w: Fixture) {
    w.submit(job(1).key("k", Reject)).await;
    let answer = w.offer(job(2).key("k", Skip)).await.expect("skipped");
    assert_eq!(answer, Submitted { id: id(1), state: State::Pending, deduplicated: true });
    w.running(job(3).key("r", Reject).priority(backstop_core::job::Priority::Critical)).await;
    assert_eq!(w.offer(job(4).key("r", Skip)).await.expect("skipped").state, State::Running);
    assert!(!w.exists(id(2)).await && !w.exists(id(4)).await);
}

/// L10, L11: a skipped submit stored nothing, so its idempotency key is still free.
pub async fn a_skipped_submit_uses_no_idempotency_key(w: Fixture) {
    w.submit(job(1).key("k", Reject)).await;
    w.offer(job(2).key("k", Skip).once("o")).await.expect("skipped");
    assert!(!w.offer(job(3).once("o")).await.expect("free").deduplicated);
}

/// L11, L22: replace cancels the holder and stores the new job, in one step.
pub async fn replace_takes_the_place_of_the_holder(w: Fixture) {
    w.submit(job(1).key("k", Reject)).await;
    w.submit(job(2).key("k", Replace)).await;
    let old = w.record(id(1)).await;
    assert_eq!(
        (old.state, old.superseded_by, old.finished_at),
        (State::Canceled, Some(id(2)), Some(w.now()))
    );
    assert_eq!(old.cancel_reason, Some(format!("superseded by job {}", id(2))));
    assert_eq!(w.state(id(2)).await, State::Pending);
}

/// L11: a paused holder can be replaced too, and is not resumed afterwards.
pub async fn replace_takes_the_place_of_a_paused_holder(w: Fixture) {
    w.submit(job(1).key("k", Reject)).await;
    w.operate(id(1), Operation::Pause).await.expect("pending");
    w.submit(job(2).key("k", Replace)).await;
    let old = w.record(id(1)).await;
    assert_eq!((old.state, old.paused_from), (State::Canceled, None));
    w.operate(id(1), Operation::Resume).await.expect_err("canceled is final");
}

/// L12: the idempotency key is looked at before the business key.
pub async fn idempotency_comes_before_the_business_key(w: Fixture) {
    w.submit(job(1).once("o")).await;
    w.submit(job(2).key("k", Reject)).await;
    let answer = w.offer(job(3).once("o").key("k", Reject)).await.expect("deduplicated, not refused");
    assert_eq!((answer.id, answer.deduplicated), (id(1), true));
    let answer = w.offer(job(4).once("o").key("k", Replace)).await.expect("deduplicated");
    assert_eq!((answer.id, w.state(id(2)).await), (id(1), State::Pending), "and nothing is replaced");
}

/// L11: 64 clients at once put one job under a business key.
pub async fn racing_clients_share_one_business_key(w: Fixture) {
    let calls = (1..=64)
        .map(|number| w.store.submit(Submit { jobs: vec![job(number).key("race", Reject).0], atomic: true }));
    let answers = at_once(calls.collect()).await;
    let won = answers.into_iter().filter(|answer| answer.as_ref().expect("submit")[0].is_ok()).count();
    assert_eq!((won, w.listed(JobFilter::default()).await.len()), (1, 1));
}

/// L22: an unstarted job is canceled and another stored in one step, with the successor kept.
pub async fn a_job_supersedes_an_unstarted_one(w: Fixture) {
    w.submit(job(1)).await;
    w.submit(job(2).supersedes(1)).await;
    let old = w.record(id(1)).await;
    assert_eq!((old.state, old.superseded_by), (State::Canceled, Some(id(2))));
    w.submit(job(3)).await;
    w.operate(id(3), Operation::Pause).await.expect("pending");
    w.submit(job(4).supersedes(3)).await;
    assert_eq!(w.state(id(3)).await, State::Canceled, "a paused job has not started either");
}

/// L22: what has started, has ended or never was cannot be superseded, and then nothing is stored.
pub async fn only_an_unstarted_job_is_superseded(w: Fixture) {
    let claimed = w.running(job(1)).await;
    let refused = w.offer(job(2).supersedes(1)).await.expect_err("running");
    assert_eq!(refused, Refusal::NotReplaceable { job: id(1), state: State::Running });
    w.finish(&claimed, success(&claimed)).await;
    let refused = w.offer(job(2).supersedes(1)).await.expect_err("ended");
    assert_eq!(refused, Refusal::NotReplaceable { job: id(1), state: State::Succeeded });
    let refused = w.offer(job(2).supersedes(7)).await.expect_err("unknown");
    assert_eq!(refused, Refusal::NoSuchJob { job: id(7) });
    assert!(!w.exists(id(2)).await);
}

/// L11, L22: the superseded job does not stand in the way of its successor's business key.
pub async fn a_successor_inherits_the_business_key(w: Fixture) {
    w.submit(job(1).key("k", Reject)).await;
    w.submit(job(2).key("k", Reject).supersedes(1)).await;
    assert_eq!((w.state(id(1)).await, w.state(id(2)).await), (State::Canceled, State::Pending));
}

/// L11, L22: an item that is skipped or refused by its business key supersedes nothing.
pub async fn a_refused_item_supersedes_nothing(w: Fixture) {
    w.submit(job(1)).await;
    w.submit(job(2).key("k", Reject)).await;
    w.offer(job(3).supersedes(1).key("k", Skip)).await.expect("skipped");
    w.offer(job(4).supersedes(1).key("k", Reject)).await.expect_err("held");
    assert_eq!(w.state(id(1)).await, State::Pending);
}

/// L22: one job may supersede another and replace the holder of its key in one step.
pub async fn one_job_may_take_two_places(w: Fixture) {
    w.submit(job(1)).await;
    w.submit(job(2).key("k", Reject)).await;
    w.submit(job(3).supersedes(1).key("k", Replace)).await;
    assert_eq!(w.record(id(1)).await.superseded_by, Some(id(3)));
    assert_eq!(w.record(id(2)).await.superseded_by, Some(id(3)));
}

/// L11: a dead letter cannot come back to life while another live job holds its key.
pub async fn a_dead_letter_waits_for_its_key(w: Fixture) {
    let claimed = w.running(job(1).key("k", Reject)).await;
    w.finish(&claimed, ends_by(&claimed, Cause::Permanent)).await;
    w.submit(job(2).key("k", Reject)).await;
    for operation in [Operation::Retry, Operation::Pause] {
        let refused = w.operate(id(1), operation).await.expect_err("the key is held");
        let held = Refusal::BusinessKeyConflict { key: "k".into(), holder: id(2), state: State::Pending };
        assert_eq!(refused, held);
    }
    assert_eq!(w.state(id(1)).await, State::Failed);
    w.cancel(id(2)).await;
    w.operate(id(1), Operation::Retry).await.expect("the key is free");
}

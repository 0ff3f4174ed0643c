//! Cases about the leadership of duties: one node at a time, and none that was deposed may write.

use backstop_core::failure::Cause;
use backstop_core::job::State;

use super::build::{ends_by, id, job, worker_id};
use super::fixture::{Fixture, LEASE, secs};
use super::place::at_once;
use crate::{Duty, Error, Finish, Term, Terms};

/// L17: the first node leads, and the others do not.
pub async fn one_node_leads(w: Fixture) {
    let term = w.lead(1, Duty::Rescue).await.expect("free");
    let expected =
        Term { duty: Duty::Rescue, number: 1, node: worker_id(1), expires_at: w.now().after(secs(60)) };
    assert_eq!(term, expected);
    assert_eq!(w.lead(2, Duty::Rescue).await, None);
}

/// L17: each duty has a leader and numbers of its own, and one call may ask for all.
pub async fn each_duty_has_its_own_leader(w: Fixture) {
    w.lead(1, Duty::Expire).await.expect("free");
    let duties = Duty::ALL.to_vec();
    let answers = w.store.lead(worker_id(2), duties, secs(60)).await.expect("lead");
    let led: Vec<_> = answers.iter().map(|term| term.map(|term| (term.duty, term.number))).collect();
    let expected: Vec<_> =
        Duty::ALL.into_iter().map(|duty| (duty != Duty::Expire).then_some((duty, 1))).collect();
    assert_eq!(led, expected);
}

/// L17: a leader that renews in time keeps its term.
pub async fn renewing_keeps_the_term(w: Fixture) {
    w.lead(1, Duty::Rescue).await.expect("free");
    w.pass(secs(59));
    let term = w.lead(1, Duty::Rescue).await.expect("its own");
    assert_eq!((term.number, term.expires_at), (1, w.now().after(secs(60))));
    w.pass(secs(59));
    assert_eq!(w.lead(2, Duty::Rescue).await, None);
}

/// L17: a term that has run out is followed by the next one, also for the same node.
pub async fn a_term_that_ran_out_is_followed_by_the_next(w: Fixture) {
    w.lead(1, Duty::Rescue).await.expect("free");
    w.pass(secs(60));
    assert_eq!(w.lead(1, Duty::Rescue).await.expect("run out").number, 2);
    w.pass(secs(60));
    assert_eq!(w.lead(2, Duty::Rescue).await.expect("run out").number, 3);
    assert_eq!(w.lead(1, Duty::Rescue).await, None);
}

/// L17: of many nodes that ask at once one leads.
pub async fn racing_nodes_make_one_leader(w: Fixture) {
    let calls = (1..=64).map(|node| w.store.lead(worker_id(node), vec![Duty::Expire], secs(60)));
    let answers = at_once(calls.collect()).await;
    let leaders: Vec<_> = answers.into_iter().filter_map(|answer| answer.expect("lead")[0]).collect();
    assert_eq!(leaders.iter().map(|term| term.number).collect::<Vec<_>>(), [1]);
}

/// L17: everybody can see who leads what, and until when.
pub async fn terms_are_told_with_their_ends(w: Fixture) {
    let expire = w.lead(2, Duty::Expire).await.expect("free");
    w.pass(secs(10));
    let rescue = w.lead(1, Duty::Rescue).await.expect("free");
    let told = w.store.terms().await.expect("terms");
    assert_eq!(told, Terms { now: w.now(), terms: vec![rescue, expire] });
    assert_eq!(told.unled(Duty::Rescue), Some(secs(0)), "somebody leads");
    assert_eq!(told.unled(Duty::Prune), None, "nobody ever did");
    w.store.lead(worker_id(1), vec![Duty::Rescue], secs(0)).await.expect("resigned");
    let told = w.store.terms().await.expect("terms");
    assert_eq!(told.of(Duty::Rescue).map(|term| term.expires_at), Some(w.now()), "it was given up");
}

/// L17: a duty that nobody leads any more is told with the end of its last term.
pub async fn a_term_that_ran_out_is_told_until_the_next(w: Fixture) {
    let first = w.lead(1, Duty::Rescue).await.expect("free");
    w.pass(secs(90));
    let told = w.store.terms().await.expect("terms");
    assert_eq!(told.terms, [first]);
    assert_eq!(told.unled(Duty::Rescue), Some(secs(30)));
    let next = w.lead(2, Duty::Rescue).await.expect("run out");
    assert_eq!(w.store.terms().await.expect("terms").terms, [next]);
}

/// L17: a store that is new says so, and knows the time.
pub async fn a_store_that_nobody_led_has_no_terms(w: Fixture) {
    assert_eq!(w.store.terms().await.expect("terms"), Terms { now: w.now(), terms: Vec::new() });
}

/// L17: terms are known to a store that was closed and opened.
pub async fn terms_survive_a_reopened_store(w: Fixture) {
    w.lead(1, Duty::Rescue).await.expect("free");
    let w = w.reopen().await;
    assert_eq!(w.lead(2, Duty::Rescue).await, None);
    assert_eq!(w.lead(1, Duty::Rescue).await.expect("its own").number, 1);
    w.pass(secs(60));
    assert_eq!(w.lead(2, Duty::Rescue).await.expect("run out").number, 2);
}

/// The terms that no verb may act on: run out, passed on, never given, for another duty.
async fn deposed(w: &Fixture, duty: Duty, other: Duty) -> Vec<Term> {
    let old = w.lead(1, duty).await.expect("free");
    w.pass(secs(60));
    let current = w.lead(2, duty).await.expect("run out");
    let elsewhere = w.lead(2, other).await.expect("free");
    vec![
        old,
        Term { node: worker_id(1), ..current },
        Term { number: current.number + 1, ..current },
        Term { number: current.number, ..elsewhere },
    ]
}

/// L17: a deposed leader rescues nothing.
pub async fn a_deposed_leader_rescues_nothing(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.pass(LEASE);
    for term in deposed(&w, Duty::Rescue, Duty::Expire).await {
        let batch = vec![Finish { lease: taken.lease, ending: ends_by(&taken, Cause::Crash) }];
        let refused = w.store.rescue(term, batch).await.expect_err("deposed");
        assert!(matches!(refused, Error::Deposed { .. }), "{refused}");
    }
    assert_eq!(w.state(id(1)).await, State::Running);
}

/// L17: a deposed leader expires nothing.
pub async fn a_deposed_leader_expires_nothing(w: Fixture) {
    w.submit(job(1).expires(w.now())).await;
    w.pass(secs(1));
    for term in deposed(&w, Duty::Expire, Duty::Rescue).await {
        let refused = w.expire(term, 10).await.expect_err("deposed");
        assert!(matches!(refused, Error::Deposed { .. }), "{refused}");
    }
    assert_eq!(w.state(id(1)).await, State::Pending);
}

/// L17: a leader whose own term has run out may not write, although nobody followed it.
pub async fn a_late_leader_may_not_write(w: Fixture) {
    w.submit(job(1).expires(w.now())).await;
    let term = w.lead(1, Duty::Expire).await.expect("free");
    w.pass(secs(60));
    let refused = w.expire(term, 10).await.expect_err("run out");
    assert!(matches!(refused, Error::Deposed { duty: Duty::Expire }), "{refused}");
    let term = w.lead(1, Duty::Expire).await.expect("run out");
    assert_eq!(w.expire(term, 10).await.expect("its term runs"), 1);
}

/// L17: a term that was renewed counts until its new end, even when an older copy of it is shown.
pub async fn a_renewed_term_counts_until_its_new_end(w: Fixture) {
    let first = w.lead(1, Duty::Expire).await.expect("free");
    w.pass(secs(50));
    w.lead(1, Duty::Expire).await.expect("its own");
    w.pass(secs(50));
    assert_eq!(w.expire(first, 10).await.expect("number and node are what counts"), 0);
}

//! Cases about documents, and about operations on jobs that go with their changes.

use std::sync::Arc;

use backstop_core::failure::Cause;
use backstop_core::job::{OnConflict, Operation, State};
use backstop_core::{Limits, WorkerId};

use super::build::{ends_by, id, job};
use super::fixture::{Fixture, secs};
use crate::{Amend, Amended, DocumentRange, Drawer, Duty, Edit, Error, Expect, Term};

fn edit(key: &str, expect: Expect, body: Option<&str>) -> Edit {
    Edit { drawer: Drawer::Rules, key: key.to_owned(), expect, body: body.map(Arc::from) }
}

fn write(key: &str, body: &str) -> Edit {
    edit(key, Expect::Any, Some(body))
}

async fn amend(w: &Fixture, edits: Vec<Edit>) -> Amended {
    w.store.amend(Amend { edits, ..Amend::default() }).await.expect("amend")
}

fn is_done(amended: &Amended) -> bool {
    matches!(amended, Amended::Done { .. })
}

fn conflict(key: &str) -> Amended {
    Amended::Conflict { drawer: Drawer::Rules, key: key.to_owned() }
}

/// What a drawer holds: key, revision, body.
async fn held(w: &Fixture, range: DocumentRange) -> Vec<(String, i64, String)> {
    let found = w.store.documents(range).await.expect("documents");
    found.items.into_iter().map(|item| (item.key, item.revision, item.body.to_string())).collect()
}

async fn rules(w: &Fixture) -> Vec<(String, i64, String)> {
    held(w, DocumentRange::first(Drawer::Rules, 100)).await
}

fn row(key: &str, revision: i64, body: &str) -> (String, i64, String) {
    (key.to_owned(), revision, body.to_owned())
}

/// L17: documents are written, written again with the next revision, removed, and are there after a restart.
pub async fn a_document_is_kept(w: Fixture) {
    assert!(is_done(&amend(&w, vec![write("a", "one"), write("b", "two")]).await));
    assert!(is_done(&amend(&w, vec![write("a", "one more")]).await));
    let w = w.reopen().await;
    assert_eq!(rules(&w).await, [row("a", 2, "one more"), row("b", 1, "two")]);
    let gone = vec![edit("a", Expect::Any, None), edit("never there", Expect::Any, None)];
    assert!(is_done(&amend(&w, gone).await));
    assert_eq!(rules(&w).await, [row("b", 1, "two")]);
    assert!(held(&w, DocumentRange::first(Drawer::Plans, 100)).await.is_empty(), "each drawer for itself");
}

/// D4: a change is made only on what it rests on; otherwise nothing of the amendment is.
pub async fn a_change_rests_on_a_revision(w: Fixture) {
    amend(&w, vec![write("a", "one")]).await;
    let table = [
        (Expect::Absent, false),
        (Expect::Revision(2), false),
        (Expect::Revision(0), false),
        (Expect::Revision(1), true),
        (Expect::Revision(1), false),
        (Expect::Any, true),
    ];
    for (expect, fits) in table {
        let before = rules(&w).await;
        let answer = amend(&w, vec![write("b", "beside"), edit("a", expect, Some("two"))]).await;
        assert_eq!(is_done(&answer), fits, "{expect:?}");
        if !fits {
            assert_eq!(answer, conflict("a"), "{expect:?}");
            assert_eq!(rules(&w).await, before, "{expect:?}: nothing was written");
        }
    }
    assert_eq!(amend(&w, vec![edit("none", Expect::Revision(1), Some("x"))]).await, conflict("none"));
    assert_eq!(amend(&w, vec![edit("none", Expect::Revision(1), None)]).await, conflict("none"));
    assert!(is_done(&amend(&w, vec![edit("none", Expect::Absent, Some("x"))]).await));
}

/// D4: keys are read in the order of their bytes, by prefix and in pages; each is compared as it is.
pub async fn documents_are_read_in_pages(w: Fixture) {
    let keys = ["a", "a ", "A", "a/1", "a/2", "a0", "b", "ä", "%", "a_", "a%"];
    amend(&w, keys.iter().map(|key| write(key, key)).collect()).await;
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let all: Vec<String> = rules(&w).await.into_iter().map(|(key, ..)| key).collect();
    assert_eq!(all, sorted);
    let mut range = DocumentRange::first(Drawer::Rules, 4).under("a");
    let mut read = Vec::new();
    loop {
        let page = w.store.documents(range.clone()).await.expect("documents");
        assert_eq!(page.now, w.now());
        read.extend(page.items.iter().map(|item| item.key.clone()));
        let Some(last) = page.items.last().filter(|_| page.more) else { break };
        range = range.after(last.key.clone());
    }
    let expected: Vec<_> = sorted.iter().copied().filter(|key| key.starts_with('a')).collect();
    assert_eq!(read, expected);
    // A page may begin behind a key that nobody has.
    let behind: Vec<_> = sorted.iter().copied().filter(|key| *key > "a/~").collect();
    let found =
        w.store.documents(DocumentRange::first(Drawer::Rules, 100).after("a/~")).await.expect("documents");
    assert_eq!(found.items.iter().map(|item| item.key.as_str()).collect::<Vec<_>>(), behind);
    let mut back = DocumentRange::last(Drawer::Rules, 4).under("a");
    let mut read_back = Vec::new();
    loop {
        let page = w.store.documents(back.clone()).await.expect("documents");
        read_back.extend(page.items.iter().map(|item| item.key.clone()));
        let Some(last) = page.items.last().filter(|_| page.more) else { break };
        back = back.after(last.key.clone());
    }
    read_back.reverse();
    assert_eq!(read_back, expected, "the same from the last key on");
    let before: Vec<_> = sorted.iter().copied().filter(|key| *key < "a/~").rev().collect();
    let found =
        w.store.documents(DocumentRange::last(Drawer::Rules, 100).after("a/~")).await.expect("documents");
    assert_eq!(found.items.iter().map(|item| item.key.as_str()).collect::<Vec<_>>(), before);
    let beyond = DocumentRange::last(Drawer::Rules, 100).under("a/").after("zzz");
    assert_eq!(held(&w, beyond).await.len(), 2, "a key behind all of a prefix");
    for (prefix, count) in [("a/", 2), ("a_", 1), ("a%", 1), ("z", 0), ("ä", 1)] {
        let range = DocumentRange::first(Drawer::Rules, 100).under(prefix);
        assert_eq!(held(&w, range).await.len(), count, "{prefix}");
    }
}

/// L20: more than a page or a batch is refused, and nothing is written.
pub async fn too_much_is_refused(w: Fixture) {
    let limits = Limits::default();
    let refused =
        w.store.documents(DocumentRange::first(Drawer::Rules, limits.page + 1)).await.expect_err("a page");
    assert!(matches!(refused, Error::TooMany { .. }));
    let edits = (0..=limits.batch).map(|number| write(&number.to_string(), "x")).collect();
    let refused = w.store.amend(Amend { edits, ..Amend::default() }).await.expect_err("a batch");
    assert!(matches!(refused, Error::TooMany { .. }));
    assert!(rules(&w).await.is_empty());
    assert!(is_done(&amend(&w, Vec::new()).await), "nothing at all is fine");
}

/// D4: a long body and odd texts come back as they were written.
pub async fn bodies_come_back(w: Fixture) {
    let long = "x".repeat(300_000);
    let bodies = [long.as_str(), "", "{\"a\":\"ü\u{1F600}\"}", "line\nline\ttab '\"`\\"];
    let edits = bodies.iter().zip(["a", "b", "c", "d"]).map(|(body, key)| write(key, body)).collect();
    amend(&w, edits).await;
    let w = w.reopen().await;
    let found: Vec<String> = rules(&w).await.into_iter().map(|(_, _, body)| body).collect();
    assert_eq!(found, bodies);
}

/// D4: two writers on the same revision: one writes, the other learns of it.
pub async fn of_two_writers_one_wins(w: Fixture) {
    amend(&w, vec![write("a", "one")]).await;
    for (key, expect) in [("a", Expect::Revision(1)), ("new", Expect::Absent)] {
        let change = |body| {
            let edits = vec![edit(key, expect, Some(body))];
            w.store.amend(Amend { edits, ..Amend::default() })
        };
        let answers = join_all(vec![change("mine"), change("yours"), change("theirs")]).await;
        let done = answers.iter().flatten().filter(|answer| is_done(answer)).count();
        let lost = answers.iter().flatten().filter(|answer| **answer == conflict(key)).count();
        assert_eq!((done, lost), (1, 2), "{key}: {answers:?}");
    }
}

/// Drives several calls at once, without an executor of its own.
async fn join_all<T>(calls: Vec<crate::Answer<'_, T>>) -> Vec<Result<T, Error>> {
    let mut calls: Vec<_> = calls.into_iter().map(|call| (Some(call), None)).collect();
    std::future::poll_fn(|cx| {
        for (call, answer) in &mut calls {
            if let Some(waiting) = call
                && let std::task::Poll::Ready(done) = waiting.as_mut().poll(cx)
            {
                (*call, *answer) = (None, Some(done));
            }
        }
        if calls.iter().all(|(_, answer)| answer.is_some()) {
            return std::task::Poll::Ready(());
        }
        std::task::Poll::Pending
    })
    .await;
    calls.into_iter().filter_map(|(_, answer)| answer).collect()
}

async fn died(w: &Fixture, number: u64) {
    let taken = w.running(job(number)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
}

/// D4: documents and jobs change together: what was said and what was done are one.
pub async fn operations_go_with_the_change(w: Fixture) {
    died(&w, 1).await;
    w.submit(job(2)).await;
    w.told.take();
    w.pass(secs(1));
    let operations = vec![(id(1), Operation::Retry), (id(2), Operation::Retry), (id(9), Operation::Retry)];
    let amendment = Amend { edits: vec![write("plan", "driven")], operations, ..Amend::default() };
    let Amended::Done { now, operated, .. } = w.store.amend(amendment).await.expect("amend") else {
        panic!("nothing was expected")
    };
    assert_eq!(now, w.now());
    let states: Vec<_> = operated.iter().map(|answer| answer.as_ref().map(|done| done.state)).collect();
    assert_eq!(states[0], Ok(State::Pending));
    assert_eq!(states[1].as_ref().map_err(|refusal| refusal.code()), Err("wrong_state"));
    assert_eq!(states[2].as_ref().map_err(|refusal| refusal.code()), Err("no_such_job"));
    assert_eq!((w.state(id(1)).await, rules(&w).await), (State::Pending, vec![row("plan", 1, "driven")]));
    assert_eq!(w.told.names(id(1)), ["retried"]);
}

/// D4: when a document is not as expected, no job is touched.
pub async fn a_conflict_touches_no_job(w: Fixture) {
    died(&w, 1).await;
    w.told.take();
    let edits = vec![edit("plan", Expect::Revision(3), Some("driven"))];
    let amendment = Amend { edits, operations: vec![(id(1), Operation::Retry)], ..Amend::default() };
    assert_eq!(w.store.amend(amendment).await.expect("amend"), conflict("plan"));
    assert_eq!(w.state(id(1)).await, State::Failed);
    assert!(w.told.take().is_empty());
}

/// D4, L11: a dead letter whose business key another job holds is refused, and the rest goes on.
pub async fn a_held_key_refuses_its_job_alone(w: Fixture) {
    let keyed = |number| job(number).key("order", OnConflict::Reject);
    let taken = w.running(keyed(1)).await;
    w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    died(&w, 2).await;
    w.submit(keyed(3)).await;
    let operations = vec![(id(1), Operation::Retry), (id(2), Operation::Retry)];
    let answer = w.store.amend(Amend { operations, ..Amend::default() }).await.expect("amend");
    let Amended::Done { operated, .. } = answer else { panic!("nothing was expected") };
    assert_eq!(operated[0].as_ref().expect_err("held").code(), "business_key_conflict");
    assert!(operated[1].is_ok());
    let (_, around) = w.store.surroundings(id(1)).await.expect("surroundings").expect("it is there");
    assert_eq!(around.key_holder.map(|holder| (holder.job, holder.state)), Some((id(3), State::Pending)));
}

/// L17: a leader whose term has passed on changes nothing.
pub async fn a_deposed_leader_amends_nothing(w: Fixture) {
    died(&w, 1).await;
    let old = w.lead(1, Duty::Redrive).await.expect("free");
    w.pass(secs(60));
    let current = w.lead(2, Duty::Redrive).await.expect("run out");
    let wrong = [old, Term { node: WorkerId::from_u128(5), ..current }, Term { number: 9, ..current }];
    let amendment = |term| Amend {
        term: Some(term),
        edits: vec![write("plan", "driven")],
        operations: vec![(id(1), Operation::Retry)],
        ..Amend::default()
    };
    for term in wrong {
        let refused = w.store.amend(amendment(term)).await.expect_err("deposed");
        assert!(matches!(refused, Error::Deposed { duty: Duty::Redrive }), "{refused}");
    }
    assert_eq!((w.state(id(1)).await, rules(&w).await), (State::Failed, Vec::new()));
    assert!(is_done(&w.store.amend(amendment(current)).await.expect("its term runs")));
    assert_eq!(w.state(id(1)).await, State::Pending);
}

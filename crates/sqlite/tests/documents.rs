//! Documents that several stores on one file want to change.

mod scratch;

use std::path::Path;

use backstop_core::JobId;
use backstop_core::job::{NewJob, Operation, Spec, State};
use backstop_sqlite::{Options, SqliteStore};
use backstop_store::conformance::block_on;
use backstop_store::{Amend, Amended, DocumentRange, Drawer, Edit, Expect, InspectStore, Submit, WorkStore};
use scratch::Scratch;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options::default()).expect("no lock reaches a caller")
}

fn edit(key: &str, expect: Expect, body: &str) -> Edit {
    Edit { drawer: Drawer::Plans, key: key.to_owned(), expect, body: Some(body.into()) }
}

/// Whether the amendment was written.
fn amend(store: &SqliteStore, edits: Vec<Edit>) -> bool {
    match block_on(store.amend(Amend { edits, ..Amend::default() })).expect("no conflict is an error") {
        Amended::Done { .. } => true,
        Amended::Conflict { drawer, key } => {
            assert_eq!((drawer, key.as_str()), (Drawer::Plans, "shared"));
            false
        }
        Amended::Refused { index, refusal } => panic!("job {index} is refused: {refusal}"),
    }
}

/// Lets two stores do the same at once, and answers how many of them could.
fn race(stores: &[SqliteStore; 2], edits: &[Edit]) -> usize {
    std::thread::scope(|scope| {
        let tasks: Vec<_> =
            stores.iter().map(|store| scope.spawn(move || amend(store, edits.to_vec()))).collect();
        tasks.into_iter().map(|task| task.join().expect("no panic")).filter(|written| *written).count()
    })
}

#[test]
fn of_two_changes_that_rest_on_the_same_one_is_a_conflict() {
    let dir = Scratch::new();
    let path = dir.path("jobs.db");
    let stores = [open(&path), open(&path)];
    for revision in 0..50 {
        let expect = if revision == 0 { Expect::Absent } else { Expect::Revision(revision) };
        let alone = edit(&format!("alone-{revision}"), Expect::Any, "{}");
        assert_eq!(race(&stores, &[alone, edit("shared", expect, "{}")]), 1, "revision {revision}");
        let read = block_on(stores[0].documents(DocumentRange::first(Drawer::Plans, 1_000))).expect("read");
        let shared = read.items.iter().find(|document| document.key == "shared").expect("written");
        assert_eq!(shared.revision, revision + 1);
        let alone = read.items.iter().filter(|document| document.revision == 1 && document.key != "shared");
        assert_eq!(i64::try_from(alone.count()), Ok(revision + 1), "a conflict writes nothing at all");
    }
}

#[test]
fn keys_are_told_apart_by_their_bytes() {
    let dir = Scratch::new();
    let store = open(&dir.path("jobs.db"));
    let keys = ["", "A", "a", "a ", "ab", "a\u{301}", "\u{e1}"];
    let edits = keys.iter().rev().map(|key| edit(key, Expect::Absent, key)).collect();
    assert!(amend(&store, edits));
    let read = block_on(store.documents(DocumentRange::first(Drawer::Plans, 10))).expect("read");
    let found: Vec<_> = read.items.iter().map(|document| (document.key.as_str(), &*document.body)).collect();
    assert_eq!(found, keys.map(|key| (key, key)));
    let page = |shelf: DocumentRange| {
        let read = block_on(store.documents(shelf)).expect("read");
        (read.items.into_iter().map(|document| document.key).collect::<Vec<_>>(), read.more)
    };
    let under = || DocumentRange::first(Drawer::Plans, 2).under("a");
    assert_eq!(page(under()), (vec!["a".to_owned(), "a ".to_owned()], true));
    assert_eq!(page(under().after("a ")), (vec!["ab".to_owned(), "a\u{301}".to_owned()], false));
    assert_eq!(page(under().after("A")), (vec!["a".to_owned(), "a ".to_owned()], true));
    assert_eq!(page(under().after("b")), (Vec::new(), false));
    assert_eq!(page(DocumentRange::first(Drawer::Rules, 2)), (Vec::new(), false));
}

#[test]
fn a_conflict_operates_on_nothing() {
    let dir = Scratch::new();
    let store = open(&dir.path("jobs.db"));
    let id = JobId::from_u128(1);
    let submit = Submit { jobs: vec![NewJob::new(Spec::new(id, "work", "{}"))], atomic: true };
    block_on(store.submit(submit)).expect("stored");
    let pause = |expect| Amend {
        strict: false,
        term: None,
        edits: vec![edit("plan", expect, "{}")],
        operations: vec![(id, Operation::Pause), (JobId::from_u128(2), Operation::Pause)],
        jobs: Vec::new(),
    };
    let state = || block_on(store.jobs(vec![id])).expect("read")[0].as_ref().map(|job| job.view.record.state);
    let answer = block_on(store.amend(pause(Expect::Revision(1)))).expect("asked");
    assert!(matches!(answer, Amended::Conflict { .. }), "{answer:?}");
    assert_eq!(state(), Some(State::Pending));
    let answer = block_on(store.amend(pause(Expect::Absent))).expect("asked");
    let Amended::Done { operated, .. } = answer else { panic!("{answer:?}") };
    assert!(operated[0].is_ok() && operated[1].is_err(), "{operated:?}");
    assert_eq!(state(), Some(State::Paused));
}

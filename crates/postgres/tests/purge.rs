//! Several hosts that change the same documents and remove the same jobs at once.

mod place;

use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::job::{NewJob, Operation, Spec, State};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{Amend, Amended, DocumentRange, Drawer, Edit, Expect, InspectStore, Submit, WorkStore};
use place::InSchema;

const ROUNDS: u128 = 40;

async fn hosts(place: &InSchema) -> (Arc<PostgresStore>, Arc<PostgresStore>) {
    let one = PostgresStore::open(&place.url(), Options::default()).await.expect("fresh");
    let other = PostgresStore::open(&place.url(), Options::default()).await.expect("there");
    (Arc::new(one), Arc::new(other))
}

fn edit(expect: Expect, body: &str) -> Amend {
    let (drawer, key) = (Drawer::Budgets, "mail".to_owned());
    Amend { edits: vec![Edit { drawer, key, expect, body: Some(body.into()) }], ..Amend::default() }
}

#[test]
fn of_two_who_change_one_document_one_is_told_of_the_other() {
    // D4
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let (one, other) = hosts(&place).await;
        let mut expect = Expect::Absent;
        for round in 1..=ROUNDS {
            let amend = |store: &Arc<PostgresStore>, body: &'static str| {
                let store = store.clone();
                tokio::spawn(async move { store.amend(edit(expect, body)).await.expect("no error") })
            };
            let (first, second) = (amend(&one, "first"), amend(&other, "second"));
            let answers = [first.await.expect("no panic"), second.await.expect("no panic")];
            let conflict = Amended::Conflict { drawer: Drawer::Budgets, key: "mail".into() };
            assert_eq!(answers.iter().filter(|answer| **answer == conflict).count(), 1, "{answers:?}");
            let found =
                one.documents(DocumentRange::first(Drawer::Budgets, 10)).await.expect("read").items.remove(0);
            let winner = if answers[0] == conflict { "second" } else { "first" };
            let revision = i64::try_from(round).expect("small");
            assert_eq!((&*found.body, found.revision), (winner, revision));
            expect = Expect::Revision(revision);
        }
    });
}

#[test]
fn a_job_that_two_purge_at_once_is_counted_down_once() {
    // D5
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let (one, other) = hosts(&place).await;
        for number in 1..=ROUNDS {
            let job = JobId::from_u128(number);
            let new = NewJob::new(Spec::new(job, "work", "{}"));
            one.submit(Submit { jobs: vec![new], atomic: true }).await.expect("stored")[0]
                .as_ref()
                .expect("new");
            let cancel = Operation::Cancel { reason: "no".into() };
            one.operate(vec![job], cancel).await.expect("canceled")[0].as_ref().expect("pending");
            let purge = |store: &Arc<PostgresStore>| {
                let store = store.clone();
                tokio::spawn(async move { store.purge(vec![job], None).await.expect("no error").remove(0) })
            };
            let (first, second) = (purge(&one), purge(&other));
            let answers = [first.await.expect("no panic"), second.await.expect("no panic")];
            assert_eq!(
                answers.iter().filter(|answer| **answer == Ok(State::Canceled)).count(),
                1,
                "{answers:?}"
            );
            assert_eq!(one.queues().await.expect("read")[0].canceled, 0, "round {number}");
        }
    });
}

//! Keys raced by 64 clients on one file, through two stores as two processes would open it.

use backstop::prelude::*;
use backstop_chaos::work::Toil;
use backstop_chaos::{Folder, node::store_url};

const CLIENTS: usize = 64;
const KEYS: usize = 40;

/// Every client submits under every key; answers the number of winners and the ids that were answered, per key.
async fn race(submit: impl Fn(&Backstop, usize) -> backstop::Enqueue) -> Vec<(usize, Vec<backstop::JobId>)> {
    let folder = Folder::new("races");
    let mut stores = Vec::new();
    for _ in 0..2 {
        stores.push(Backstop::open(&store_url(folder.path())).await.expect("a store"));
    }
    let mut outcome = Vec::new();
    for key in 0..KEYS {
        let racing: Vec<_> = (0..CLIENTS)
            .map(|client| tokio::spawn(submit(&stores[client % stores.len()], key).submit()))
            .collect();
        let (mut winners, mut ids) = (0, Vec::new());
        for client in racing {
            match client.await.expect("no panic") {
                Ok(submitted) => {
                    winners += usize::from(!submitted.deduplicated);
                    ids.push(submitted.id);
                }
                Err(error) => assert_eq!(error.code(), "business_key_conflict", "{error}"),
            }
        }
        ids.sort();
        ids.dedup();
        outcome.push((winners, ids));
    }
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_idempotency_key_is_one_job_however_many_submit_it() {
    // L10
    let outcome =
        race(|engine, key| engine.enqueue(Toil { number: 3 }).idempotency_key(format!("key-{key}"))).await;
    for (winners, ids) in outcome {
        assert_eq!((winners, ids.len()), (1, 1), "one job, and everybody is told its id");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_business_key_has_one_live_job() {
    // L11
    let outcome =
        race(|engine, key| engine.enqueue(Toil { number: 3 }).business_key(format!("key-{key}"))).await;
    for (winners, ids) in outcome {
        assert_eq!((winners, ids.len()), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_leaves_exactly_one() {
    // L11, L22
    let folder = Folder::new("replace");
    let engine = Backstop::open(&store_url(folder.path())).await.expect("a store");
    let racing: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let job = engine.enqueue(Toil { number: 3 }).business_key("one").on_conflict(OnConflict::Replace);
            tokio::spawn(job.submit())
        })
        .collect();
    for client in racing {
        client.await.expect("no panic").expect("nobody is refused");
    }
    let queue = engine.queues().await.expect("readable").remove(0);
    assert_eq!((queue.pending, queue.canceled), (1, CLIENTS as u64 - 1));
}

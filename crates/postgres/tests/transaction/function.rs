//! The SQL function `enqueue`: jobs from any client that speaks SQL (L14).

use std::time::Duration;

use backstop_core::job::{Policy, Priority, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::{
    Amend, Drawer, Edit, Expect, InspectStore, JobFilter, PageRequest, QueueAdmission, Submit, WorkStore,
};
use tokio_postgres::Client;
use tokio_postgres::error::DbError;
use uuid::Uuid;

use crate::world::{World, block_on, job, success};

/// Calls the function with these arguments.
async fn enqueue(client: &Client, world: &World, arguments: &str) -> Result<JobId, DbError> {
    let sql = world.schema.text(&format!("SELECT backstop.enqueue({arguments})")).into_owned();
    match client.query_one(&sql, &[]).await {
        Ok(row) => Ok(JobId::from_u128(row.get::<_, Uuid>(0).as_u128())),
        Err(error) => Err(error.as_db_error().expect("an answer of the server").clone()),
    }
}

#[test]
fn a_job_of_the_function_is_claimed_and_run_like_any_other() {
    // L14
    block_on(async {
        let world = World::new().await;
        let client = world.connect().await;
        let id = enqueue(&client, &world, "'work', '{\"to\": \"ada\"}'").await.expect("stored");
        assert_eq!(id.as_uuid().get_version_num(), 7, "ids sort by time");
        let claimed = world.claim_one().await;
        assert_eq!((claimed.lease.job, &*claimed.job.spec.payload), (id, "{\"to\": \"ada\"}"));
        let ended = world.store.finish(vec![success(&claimed)]).await.expect("answered");
        assert_eq!(ended, [Ok(State::Succeeded)]);
        let queues = world.store.queues().await.expect("read");
        assert_eq!((queues[0].pending, queues[0].running, queues[0].succeeded), (0, 0, 1));
    });
}

#[test]
fn every_argument_comes_through() {
    // L14, L19, L20
    block_on(async {
        let world = World::new().await;
        let client = world.connect().await;
        let arguments = "kind => 'mail', payload => '[1, \"\u{2713}\"]', queue => 'slow', priority => 4, \
             run_at => '2100-01-01 00:00:00.000001Z', idempotency_key => 'i', business_key => 'b', \
             tags => '{red,blue,red}', version => 3, params => '{\"a\": 1}', correlation_id => 'trace', \
             max_retries => 9, timeout => '90 seconds', expires_at => '2100-01-02 00:00:00Z'";
        let id = enqueue(&client, &world, arguments).await.expect("stored");
        let detail = world.store.jobs(vec![id]).await.expect("read").remove(0).expect("there");
        let (spec, record) = (&detail.view.job.spec, &detail.view.record);
        assert_eq!((&*spec.kind, &*spec.payload, &*spec.queue), ("mail", "[1, \"\u{2713}\"]", "slow"));
        assert_eq!((spec.priority, spec.version), (Priority::Critical, 3));
        assert_eq!(record.run_at, Timestamp::from_micros(4_102_444_800_000_001));
        assert_eq!(record.expires_at, Some(Timestamp::from_micros(4_102_531_200_000_000)));
        assert_eq!(spec.expires_at, record.expires_at);
        assert_eq!((spec.idempotency_key.as_deref(), spec.business_key.as_deref()), (Some("i"), Some("b")));
        assert_eq!(
            (spec.params.as_deref(), spec.correlation_id.as_deref()),
            (Some("{\"a\": 1}"), Some("trace"))
        );
        let mut policy = Policy::default().retries(9);
        policy.timeout = Some(Duration::from_secs(90));
        assert_eq!(spec.policy, policy);
        assert_eq!(spec.tags, ["red", "blue", "red"]);
        let filter = JobFilter { tag: Some("blue".into()), ..JobFilter::default() };
        let tagged = world.store.list(filter, PageRequest::first(10)).await.expect("read").items;
        assert_eq!(tagged.len(), 1);
        assert_eq!(world.pending().await, 1);
    });
}

#[test]
fn a_known_idempotency_key_answers_the_known_job() {
    // L10
    block_on(async {
        let world = World::new().await;
        let client = world.connect().await;
        let first = enqueue(&client, &world, "'work', idempotency_key => 'k'").await.expect("stored");
        let again = enqueue(&client, &world, "'work', idempotency_key => 'k'").await.expect("known");
        let mut other = job(1);
        other.spec.idempotency_key = Some("k".into());
        let stored = world.store.submit(Submit { jobs: vec![other], atomic: true }).await.expect("answered");
        assert_eq!(stored[0].as_ref().expect("known").id, first);
        assert_eq!((again, world.pending().await), (first, 1));
    });
}

#[test]
fn a_held_business_key_is_refused_and_names_its_holder() {
    // L11
    block_on(async {
        let world = World::new().await;
        let client = world.connect().await;
        let holder = enqueue(&client, &world, "'work', business_key => 'k'").await.expect("stored");
        let error = enqueue(&client, &world, "'work', business_key => 'k'").await.expect_err("held");
        assert_eq!(error.code().code(), "ZB002");
        assert_eq!(error.message(), format!("business key k is held by job {holder}"));
        let claimed = world.claim_one().await;
        world.store.finish(vec![success(&claimed)]).await.expect("ended");
        enqueue(&client, &world, "'work', business_key => 'k'").await.expect("L11: the key is free again");
    });
}

#[test]
fn what_admission_refuses_is_refused() {
    // L20, E11
    block_on(async {
        let world = World::new().await;
        let client = world.connect().await;
        for (arguments, field) in [
            ("''", "kind"),
            ("NULL", "kind"),
            ("repeat('k', 129)", "kind"),
            ("' work'", "kind"),
            ("E'wo\\x1brk'", "kind"),
            ("E'wo\\u0085rk'", "kind"),
            ("'work', queue => ''", "queue"),
            ("'work', NULL", "payload"),
            ("'work', to_jsonb(repeat('x', 1048576))", "payload"),
            ("'work', priority => 5", "priority"),
            ("'work', idempotency_key => ''", "idempotency_key"),
            ("'work', business_key => repeat('é', 256)", "business_key"),
            ("'work', tags => array_fill('t'::text, ARRAY[33])", "tags"),
            ("'work', tags => ARRAY['a', NULL]", "tags"),
            ("'work', params => '[1]'", "params"),
            ("'work', version => -1", "version"),
            ("'work', max_retries => -1", "max_retries"),
            ("'work', timeout => '0'", "timeout"),
            ("'work', run_at => 'infinity'", "run_at"),
        ] {
            let error = enqueue(&client, &world, arguments).await.expect_err(arguments);
            assert_eq!(error.code().code(), "ZB001", "{arguments}: {error}");
            assert!(error.message().starts_with(field), "{arguments}: {error}");
        }
        assert_eq!(world.pending().await, 0);
    });
}

#[test]
fn what_a_queue_lets_in_is_asked_in_the_order_of_every_submit() {
    // L12, E8, E9
    block_on(async {
        let world = World::new().await;
        let client = world.connect().await;
        let say = async |key: String, gate: QueueAdmission| {
            let edit = Edit { drawer: Drawer::Gates, key, expect: Expect::Any, body: gate.to_body() };
            world.store.amend(Amend { edits: vec![edit], ..Amend::default() }).await.expect("written");
        };
        let kinds = Some(vec!["mail".to_owned(), "sms".to_owned()]);
        say(
            QueueAdmission::key_of("post"),
            QueueAdmission { kinds: kinds.clone(), ..QueueAdmission::default() },
        )
        .await;
        enqueue(&client, &world, "'mail', queue => 'post'").await.expect("on the list");
        enqueue(&client, &world, "'fax', queue => 'other'").await.expect("no list");
        let refused = async |arguments: &str| {
            let error = enqueue(&client, &world, arguments).await.expect_err(arguments);
            assert_eq!(error.code().code(), "ZB001", "{arguments}: {error}");
            error.message().split(' ').take(2).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(refused("'fax', queue => 'post'").await, "kind fax");
        assert_eq!(refused("'backstop.webhook'").await, "kind or");
        assert_eq!(refused("'work', queue => 'backstop.webhooks'").await, "kind or");
        assert_eq!(refused("'fax', queue => 'post', priority => 9").await, "priority is");
        assert_eq!(refused("'fax', queue => 'post', idempotency_key => ''").await, "idempotency_key is");
        // One that is there already is refused all the same: the list comes before the key.
        enqueue(&client, &world, "'fax', queue => 'other', idempotency_key => 'k'").await.expect("stored");
        assert_eq!(refused("'fax', queue => 'post', idempotency_key => 'k'").await, "kind fax");
        say(
            QueueAdmission::EVERYWHERE.to_owned(),
            QueueAdmission { signed: Some(true), ..QueueAdmission::default() },
        )
        .await;
        assert_eq!(refused("'fax', queue => 'post'").await, "the signature");
        assert_eq!(refused("'fax', queue => 'other'").await, "the signature");
        say(QueueAdmission::key_of("post"), QueueAdmission { kinds, signed: Some(false), max_depth: None })
            .await;
        enqueue(&client, &world, "'sms', queue => 'post'").await.expect("this queue goes without");
        assert_eq!(refused("'fax', queue => 'post'").await, "kind fax");
        say(QueueAdmission::EVERYWHERE.to_owned(), QueueAdmission::default()).await;
        say(QueueAdmission::key_of("post"), QueueAdmission::default()).await;
        enqueue(&client, &world, "'fax', queue => 'post'").await.expect("nothing is said any more");
        assert_eq!(world.pending().await, 5);
    });
}

#[test]
fn a_full_queue_is_refused() {
    // H12
    block_on(async {
        let world = World::new().await;
        let client = world.connect().await;
        let gate = QueueAdmission { max_depth: Some(2), ..QueueAdmission::default() };
        let (key, body) = (QueueAdmission::key_of("post"), gate.to_body());
        let edit = Edit { drawer: Drawer::Gates, key, expect: Expect::Any, body };
        world.store.amend(Amend { edits: vec![edit], ..Amend::default() }).await.expect("written");
        for arguments in ["'work', queue => 'post', idempotency_key => 'k'", "'work', queue => 'post'"] {
            enqueue(&client, &world, arguments).await.expect("there is room");
        }
        let error = enqueue(&client, &world, "'work', queue => 'post'").await.expect_err("full");
        assert_eq!((error.code().code(), error.message()), ("ZB001", "queue post is full (the limit is 2)"));
        enqueue(&client, &world, "'work', queue => 'post', idempotency_key => 'k'").await.expect("known");
        enqueue(&client, &world, "'work'").await.expect("another queue");
        assert_eq!(world.pending().await, 3);
    });
}

#[test]
fn two_sessions_with_one_key_store_one_job() {
    // L10, L14: the second waits for the first, and then finds what that has committed.
    block_on(async {
        let world = World::new().await;
        let (first, second) = (world.connect().await, world.connect().await);
        first.batch_execute("BEGIN").await.expect("begun");
        let stored = enqueue(&first, &world, "'work', idempotency_key => 'k'").await.expect("stored");
        let (found, ()) = tokio::join!(enqueue(&second, &world, "'work', idempotency_key => 'k'"), async {
            world.until_another_waits().await;
            first.batch_execute("COMMIT").await.expect("committed");
        });
        assert_eq!((found.expect("known"), world.pending().await), (stored, 1));
    });
}

#[test]
fn a_rolled_back_call_leaves_nothing() {
    // L14
    block_on(async {
        let world = World::new().await;
        let client = world.connect().await;
        client.batch_execute("BEGIN").await.expect("begun");
        let id = enqueue(&client, &world, "'work', business_key => 'k'").await.expect("stored");
        client.batch_execute("ROLLBACK").await.expect("rolled back");
        assert!(world.store.jobs(vec![id]).await.expect("read")[0].is_none());
        assert_eq!(world.pending().await, 0);
    });
}

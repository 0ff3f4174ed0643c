//! Redis streams.

use std::time::Duration;

use backstop_bridges::{BridgeSettings, SourceSettings};
use backstop_testbed::{DatabaseSettings, Folder, Proxy, Redis, shared};

use crate::cases;
use crate::killed::a_hundred_processes_are_killed_before_the_ack;
use crate::stage::{Stage, TestBroker, TestEngine, until};

struct RedisServer(Redis);

impl TestBroker for RedisServer {
    fn port(&self) -> u16 {
        self.0.port()
    }

    fn url(&self) -> String {
        self.0.url()
    }

    fn make_queue(&self, queue: &str) {
        // A stream comes into being with its first entry, and stays when that is gone.
        self.0.order(&format!("XADD {queue} * a b")).expect("the server is there");
        self.0.order(&format!("XTRIM {queue} MAXLEN 0")).expect("the server is there");
    }

    fn kill(&mut self, _: &Proxy) {
        self.0.kill().expect("it ends");
    }

    fn start_again(&mut self, _: &Proxy) {
        self.0.start_again().expect("it starts");
    }

    fn ack_bytes(&self) -> &'static [u8] {
        b"XACK"
    }

    fn abandoned(&self, queue: &str) -> Vec<Vec<u8>> {
        let settings =
            BridgeSettings::new(self.url(), SourceSettings::new(format!("{queue}.dead"), "charge"));
        crate::stage::read_all(&settings)
    }
}

fn stage() -> Stage {
    let folder = Folder::new("bridge-redis").expect("a folder");
    let server = Redis::start(&DatabaseSettings::new(folder.join("redis")).durable()).expect("a server");
    Stage::new(folder, Box::new(RedisServer(server)))
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_streams() {
    // B1, B4, B5, B6
    cases::all(stage()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_streams_cut_between_admit_and_ack_on_sqlite() {
    // B1, C6
    cases::cuts(&stage(), &TestEngine::new(backstop::Config::default()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_streams_killed_between_admit_and_ack() {
    // B1, C6
    a_hundred_processes_are_killed_before_the_ack(&stage()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_streams_cut_between_admit_and_ack_on_postgres() {
    // B1, C6
    let url = format!("{}?schema=bridge_{}", shared::postgres(), std::process::id());
    let folder = Folder::new("bridge-postgres").expect("a folder");
    cases::cuts(&stage(), &TestEngine::at(&url, backstop::Config::default(), folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_streams_cut_between_admit_and_ack_on_mysql() {
    // B1, C6
    use backstop::mysql::mysql_async::prelude::Queryable as _;
    use backstop::mysql::mysql_async::{Conn, Opts};

    let server = shared::mariadb();
    let mut conn = Conn::new(Opts::from_url(server).expect("a good URL")).await.expect("a server");
    let name = format!("bridge_{}", std::process::id());
    conn.query_drop(format!("CREATE DATABASE {name}")).await.expect("a new name");
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    let folder = Folder::new("bridge-mysql").expect("a folder");
    let engine = TestEngine::at(&format!("{place}/{name}"), backstop::Config::default(), folder).await;
    cases::cuts(&stage(), &engine).await;
    conn.query_drop(format!("DROP DATABASE {name}")).await.expect("it is there");
    conn.disconnect().await.expect("the connection ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_streams_of_a_dead_consumer_are_claimed_by_another() {
    // B1, B5: what one node read and never settled becomes jobs of another, once each.
    let (stage, engine) = (stage(), TestEngine::new(backstop::Config::default()).await);
    let queue = stage.queue();
    stage.publish(&queue, (0..5).map(|number| format!("{number}"))).await;
    let mut dead = stage.session(&queue).await;
    assert_eq!(dead.receive(3, Duration::from_secs(1)).await.expect("there").len(), 3);
    drop(dead);
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge").hold(Duration::from_millis(300)));
    let status = until(&handle, |status| status.acked == 5).await;
    assert_eq!((status.admitted, status.duplicates), (5, 0));
    let mut payloads = engine.payloads().await;
    payloads.sort();
    assert_eq!(payloads, ["0", "1", "2", "3", "4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_streams_keep_a_message_that_cannot_be_abandoned() {
    // B6: `QUEUE.dead` is no stream. The message stays where it is, in place of being settled and gone.
    let stage = stage();
    let queue = stage.queue();
    let redis = ::redis::Client::open(stage.server.url()).expect("an address");
    let mut redis = redis.get_multiplexed_async_connection().await.expect("there");
    let dead = format!("{queue}.dead");
    let (): () = ::redis::cmd("SET").arg(&dead).arg("text").query_async(&mut redis).await.expect("there");
    stage.publish(&queue, ["poison"]).await;
    let mut session = stage.session(&queue).await;
    let found = session.receive(1, Duration::from_secs(1)).await.expect("there");
    let refused = session.abandon(&found[0], "it cannot be read").await.expect_err("no stream");
    assert_eq!(refused.code(), "broker_refused", "{refused}");
    drop(session);
    let again = stage.session(&queue).await.receive(1, Duration::from_secs(1)).await.expect("there");
    assert_eq!(again.len(), 1, "it is still there");
    let (): () = ::redis::cmd("DEL").arg(&dead).query_async(&mut redis).await.expect("there");
    let mut session = stage.session(&queue).await;
    let found = session.receive(1, Duration::from_secs(1)).await.expect("there");
    // More fields than a script takes go there too.
    let mut large = found[0].clone();
    large.headers = (0..3_000).map(|number| (format!("f{number}"), "x".to_owned())).collect();
    session.abandon(&large, "it cannot be read").await.expect("a stream is made");
    drop(session);
    assert_eq!(stage.server.abandoned(&queue), [b"poison".to_vec()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_streams_stop_for_a_dependency_that_is_named_in_code() {
    // B1, H1: the store decides, so that one broker is enough.
    cases::a_circuit_of_a_dependency_in_code_stops_the_source(&mut stage()).await;
}

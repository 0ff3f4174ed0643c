//! The lists of daycry/jobs on a real Redis, written as its RedisBackend writes them (B6).

use std::time::Duration;

use ::redis::Value;
use backstop::Config;
use backstop_bridges::{BridgeSettings, DaycrySettings, NewMessage, Source, SourceSettings};
use backstop_testbed::{DatabaseSettings, Folder, Redis};

use crate::cases::b6::envelope;
use crate::stage::{TestEngine, broker, soon, times, until};

/// A Redis, and what a producer of daycry/jobs says to it.
struct PhpRedis {
    server: Redis,
    connection: ::redis::aio::MultiplexedConnection,
    _folder: Folder,
}

impl PhpRedis {
    async fn start() -> Self {
        let folder = Folder::new("bridge-lists").expect("a folder");
        let server = Redis::start(&DatabaseSettings::new(folder.join("redis")).durable()).expect("a server");
        let client = ::redis::Client::open(server.url()).expect("an address");
        let connection = client.get_multiplexed_async_connection().await.expect("there");
        Self { server, connection, _folder: folder }
    }

    async fn say(&mut self, words: &[&str]) -> Value {
        let mut command = ::redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query_async(&mut self.connection).await.expect("it answers")
    }

    async fn length(&mut self, key: &str) -> i64 {
        match self.say(&["LLEN", key]).await {
            Value::Int(length) => length,
            other => panic!("{other:?}"),
        }
    }

    fn settings(&self) -> BridgeSettings {
        let mut daycry = DaycrySettings::signed_by(["hunter2"]);
        daycry.lists = true;
        let source = SourceSettings::new("default", "import").hold(Duration::from_secs(5));
        BridgeSettings::new(self.server.url(), source).as_daycry(daycry)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_daycry_become_jobs_and_forged_ones_go_to_a_stream() {
    // B1, B6, E9
    let mut php = PhpRedis::start().await;
    let (waiting, processing) = ("jobs:default-waiting", "jobs:default-processing");
    for body in [envelope("hunter2", "a"), envelope("guessed", "b"), envelope("hunter2", "c")] {
        php.say(&["LPUSH", waiting, &body]).await;
    }
    // One whose time has come, and one whose time has not.
    php.say(&["ZADD", "jobs:default-delayed", "1", &envelope("hunter2", "d")]).await;
    php.say(&["ZADD", "jobs:default-delayed", "99999999999", &envelope("hunter2", "later")]).await;
    // Left by a worker of theirs that died long ago, and by one that had not even noted it.
    let lost = envelope("hunter2", "lost");
    php.say(&["LPUSH", processing, &lost]).await;
    php.say(&["HSET", "jobs:default-processing-meta", &lost, r#"{"ts":1,"owner":"x"}"#]).await;
    php.say(&["LPUSH", processing, &envelope("hunter2", "unnoted")]).await;
    let engine = TestEngine::new(Config::default()).await;
    let source = Source::new(&engine.engine, "php", &php.settings()).expect("good settings");
    let handle = source.times(times()).start();
    let status = until(&handle, |status| status.acked == 5 && status.rejected == 1).await;
    assert_eq!((status.admitted, status.duplicates, status.received), (5, 0, 6));
    handle.stop().await;
    assert_eq!((php.length(waiting).await, php.length(processing).await), (0, 0));
    assert_eq!(php.say(&["ZCARD", "jobs:default-delayed"]).await, Value::Int(1), "it is not due");
    assert_eq!(php.say(&["HLEN", "jobs:default-processing-meta"]).await, Value::Int(0));
    let dead = format!("{:?}", php.say(&["XRANGE", "default.dead", "-", "+"]).await);
    assert!(dead.contains("import_users") && dead.contains("_sig"), "{dead}");
    assert_eq!(php.say(&["XLEN", "default.dead"]).await, Value::Int(1), "the forged one, whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_give_back_with_a_delay_and_keep_their_order() {
    // B6
    let mut php = PhpRedis::start().await;
    let mut session = soon("a session", broker(&php.settings()).connect()).await.expect("there");
    let bodies = ["1", "2", "3"].map(|body| NewMessage::new(body.as_bytes().to_vec()));
    session.publish("default", &bodies).await.expect("confirmed");
    assert_eq!(session.depth().await.expect("there"), Some(3));
    let first = session.receive(2, Duration::from_millis(100)).await.expect("there");
    assert_eq!(first.iter().map(|one| one.body.clone()).collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(php.length("jobs:default-processing").await, 2, "they are safe until they are settled");
    session.nack(std::slice::from_ref(&first[0].tag), Duration::ZERO).await.expect("there");
    let put_off = std::time::Instant::now();
    session.nack(std::slice::from_ref(&first[1].tag), Duration::from_secs(1)).await.expect("there");
    let next = session.receive(10, Duration::from_millis(100)).await.expect("there");
    assert_eq!(next.iter().map(|one| one.body.clone()).collect::<Vec<_>>(), [b"1", b"3"]);
    let tags: Vec<_> = next.iter().map(|one| one.tag.clone()).collect();
    session.ack(&tags).await.expect("there");
    let late = soon("the one that was put off", async {
        loop {
            let found = session.receive(10, Duration::from_millis(200)).await.expect("there");
            if !found.is_empty() {
                return found;
            }
        }
    });
    let late = late.await;
    assert!(put_off.elapsed() >= Duration::from_secs(1), "not before its delay");
    assert_eq!((late.len(), &late[0].body), (1, &b"2".to_vec()));
    session.abandon(&late[0], "nobody wants it").await.expect("there");
    assert_eq!(php.length("jobs:default-processing").await, 0);
    assert_eq!(php.say(&["XLEN", "default.dead"]).await, Value::Int(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_keep_a_message_that_cannot_be_moved() {
    // B6: where it is to go there is something else. It stays among what is processed, in place of being gone.
    let mut php = PhpRedis::start().await;
    php.say(&["LPUSH", "jobs:default-waiting", "poison"]).await;
    php.say(&["SET", "default.dead", "text"]).await;
    let mut session = broker(&php.settings()).connect().await.expect("there");
    let found = session.receive(1, Duration::from_secs(1)).await.expect("there");
    php.say(&["SET", "jobs:default-delayed", "text"]).await;
    session.abandon(&found[0], "it cannot be read").await.expect_err("no stream");
    let tags = [found[0].tag.clone()];
    session.nack(&tags, Duration::from_secs(5)).await.expect_err("no set");
    assert_eq!(php.length("jobs:default-processing").await, 1, "it is still there");
    php.say(&["DEL", "default.dead"]).await;
    session.abandon(&found[0], "it cannot be read").await.expect("a stream is made");
    assert_eq!(php.length("jobs:default-processing").await, 0);
}

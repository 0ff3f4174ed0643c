//! Each kind of server starts, answers, is killed, comes back with its data and stops.

use std::net::TcpStream;
use std::thread;

use backstop_testbed::{
    Beanstalkd, DatabaseSettings, Folder, Mariadb, Nats, Pgbouncer, Postgres, Rabbitmq, Redis,
};

#[test]
fn a_killed_postgres_comes_back_with_its_data() {
    let folder = Folder::new("postgres").unwrap();
    let mut server = Postgres::start(DatabaseSettings::new(folder.path()).durable()).unwrap();
    server.psql("create table t (x int); insert into t values (1), (2)").unwrap();
    let (port, pid) = (server.port(), server.pid());
    server.kill().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(server.pid(), None);
    server.start_again().unwrap();
    assert_ne!(server.pid(), pid);
    assert_eq!(server.url(), format!("postgres://backstop@127.0.0.1:{port}/backstop"));
    assert_eq!(server.psql("select x, current_setting('fsync') from t order by x").unwrap(), "1|on\n2|on");
    server.create_database("other").unwrap();
    assert_eq!(server.psql_in("other", "select current_database()").unwrap(), "other");
    let refused = server.psql("select 1; select nonsense; select 2").unwrap_err().to_string();
    assert!(refused.contains("\"nonsense\" does not exist"), "{refused}");
    server.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_killed_mariadb_comes_back_with_its_data() {
    let folder = Folder::new("mariadb").unwrap();
    let mut server = Mariadb::start(DatabaseSettings::new(folder.path()).durable()).unwrap();
    server.sql("create table t (x int); insert into t values (1), (2)").unwrap();
    let port = server.port();
    server.kill().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    server.start_again().unwrap();
    assert_eq!(server.sql("select x, @@innodb_flush_log_at_trx_commit from t").unwrap(), "1\t1\n2\t1");
    server.create_database("other").unwrap();
    let refused = server.sql("select nonsense").unwrap_err().to_string();
    assert!(refused.contains("Unknown column 'nonsense'"), "{refused}");
    server.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let folder = Folder::new("refusing").unwrap();
    let wrong = DatabaseSettings::new(folder.path()).with("no_such_setting", "1");
    let trouble = Postgres::start(wrong).unwrap_err().to_string();
    assert!(trouble.contains("ended with") && trouble.contains("no_such_setting"), "{trouble}");
}

#[test]
fn a_synchronous_standby_is_promoted_and_gets_a_standby_of_its_own() {
    let folder = Folder::new("standby").unwrap();
    let mut first = Postgres::start(DatabaseSettings::new(folder.join("first")).durable()).unwrap();
    let second = first.standby(folder.join("second")).unwrap();
    first.make_synchronous().unwrap();
    first.psql("create table t (x int); insert into t values (1)").unwrap();
    first.wait_for_standby().unwrap();
    assert_eq!(second.psql("select pg_is_in_recovery(), x from t").unwrap(), "t|1");
    first.kill().unwrap();
    second.promote().unwrap();
    second.psql("insert into t values (2)").unwrap();
    let third = second.standby(folder.join("third")).unwrap();
    second.make_synchronous().unwrap();
    second.psql("insert into t values (3)").unwrap();
    second.wait_for_standby().unwrap();
    assert_eq!(third.psql("select sum(x) from t").unwrap(), "6");
}

#[test]
fn a_pool_answers_for_the_server_behind_it_and_both_outlive_their_starter() {
    let folder = Folder::new("pool").unwrap();
    // Servers outlive the thread that started them, although the kernel ends them with this process.
    let (server, pool) = thread::scope(|scope| {
        let starter = scope.spawn(|| {
            let server = Postgres::start(DatabaseSettings::new(folder.join("server"))).unwrap();
            let pool = Pgbouncer::start(folder.join("pool"), &server).unwrap();
            (server, pool)
        });
        starter.join().unwrap()
    });
    let seen = pool.psql("select current_database(), inet_server_port()").unwrap();
    assert_eq!(seen, format!("backstop|{}", server.port()));
    assert_ne!(pool.url(), server.url());
}

#[test]
fn killed_brokers_come_back_on_their_ports() {
    let folder = Folder::new("brokers").unwrap();
    let open = |port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok();
    macro_rules! killed_and_started {
        ($server:expr) => {{
            let mut server = $server.unwrap();
            let (port, url) = (server.port(), server.url());
            assert!(open(port));
            server.kill().unwrap();
            assert!(!open(port));
            server.start_again().unwrap();
            assert!(open(port));
            assert_eq!(server.url(), url);
            drop(server);
            assert!(!open(port), "{url} is stopped with its value");
        }};
    }
    killed_and_started!(Redis::start(&DatabaseSettings::new(folder.join("redis")).durable()));
    killed_and_started!(Beanstalkd::start(folder.join("beanstalkd")));
    killed_and_started!(Nats::start(folder.join("nats")));
    killed_and_started!(Rabbitmq::start(folder.join("rabbitmq")));
}

//! The proxy fails exactly as it is told to, with an echoing server behind it and once with a real database.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use backstop_testbed::{DatabaseSettings, Folder, Postgres, Proxy};

/// How long a test waits for bytes that must not come.
const A_MOMENT: Duration = Duration::from_millis(100);

/// A server that sends back what it gets; the receiver sees it too.
fn echo() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, seen) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let heard = heard.clone();
            thread::spawn(move || {
                let mut bytes = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    let _ = heard.send(bytes[..length].to_vec());
                    let _ = stream.write_all(&bytes[..length]);
                }
            });
        }
    });
    (address, seen)
}

fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap()
}

/// Sends the text and returns what comes back.
fn ask(stream: &mut TcpStream, text: &str) -> std::io::Result<String> {
    stream.write_all(text.as_bytes())?;
    let mut bytes = vec![0; text.len()];
    stream.read_exact(&mut bytes)?;
    Ok(String::from_utf8(bytes).unwrap())
}

#[test]
fn bytes_pass_and_are_counted_until_a_cut() {
    let (target, _seen) = echo();
    let proxy = Proxy::start(target).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, "hello").unwrap(), "hello");
    proxy.cut();
    assert!(ask(&mut stream, "hello").is_err());
    assert_eq!(ask(&mut connect(&proxy), "again").unwrap(), "again");
    assert_eq!((proxy.connections(), proxy.bytes(), proxy.cuts()), (2, 20, 0));
}

#[test]
fn a_refusing_proxy_lets_nobody_new_in() {
    let (target, _seen) = echo();
    let proxy = Proxy::start(target).unwrap();
    let mut old = connect(&proxy);
    assert_eq!(ask(&mut old, "one").unwrap(), "one");
    proxy.refuse(true).unwrap();
    let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ask(&mut old, "two").unwrap(), "two");
    proxy.refuse(false).unwrap();
    assert_eq!(ask(&mut connect(&proxy), "three").unwrap(), "three");
}

#[test]
fn a_stalled_proxy_moves_nothing_and_then_everything() {
    let (target, _seen) = echo();
    let proxy = Proxy::start(target).unwrap();
    let mut stream = connect(&proxy);
    proxy.stall(true);
    stream.write_all(b"late").unwrap();
    stream.set_read_timeout(Some(A_MOMENT)).unwrap();
    let silent = stream.read(&mut [0; 4]).unwrap_err();
    assert_eq!(silent.kind(), ErrorKind::WouldBlock);
    proxy.stall(false);
    stream.set_read_timeout(None).unwrap();
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"late");
    proxy.stall(true);
    stream.write_all(b"lost").unwrap();
    proxy.cut();
    assert!(!matches!(stream.read(&mut bytes), Ok(1..)));
}

#[test]
fn a_trap_decides_whether_the_server_hears_the_words() {
    let (target, seen) = echo();
    let proxy = Proxy::start(target).unwrap();
    proxy.cut_after(b"COMMIT", 2);
    for round in 1..=2 {
        let mut stream = connect(&proxy);
        assert_eq!(ask(&mut stream, "begin COM").unwrap(), "begin COM");
        // The pattern is found although it comes in two pieces.
        let lost = ask(&mut stream, "MIT").unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::ConnectionReset);
        assert_eq!(proxy.cuts(), round);
        assert_eq!([seen.recv().unwrap(), seen.recv().unwrap()], [b"begin COM".to_vec(), b"MIT".to_vec()]);
    }
    proxy.cut_before(b"COMMIT");
    let lost = ask(&mut connect(&proxy), "COMMIT").unwrap_err();
    assert_eq!((lost.kind(), proxy.cuts()), (ErrorKind::ConnectionReset, 3));
    assert_eq!(ask(&mut connect(&proxy), "COMMIT").unwrap(), "COMMIT");
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [b"COMMIT".to_vec()]);
}

#[test]
fn a_commit_whose_answer_is_lost_has_happened_and_one_that_is_lost_has_not() {
    let folder = Folder::new("lost-answer").unwrap();
    let server = Postgres::start(DatabaseSettings::new(folder.path())).unwrap();
    server.psql("create table t (x int)").unwrap();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).unwrap();
    let through = |sql: &str| server.psql_at(&proxy.url(&server.url()), sql);
    proxy.cut_after(b"commit", 1);
    through("begin; insert into t values (1);\ncommit;").unwrap_err();
    proxy.cut_before(b"commit");
    through("begin; insert into t values (2);\ncommit;").unwrap_err();
    through("insert into t values (3)").unwrap();
    assert_eq!(proxy.cuts(), 2);
    assert_eq!(server.psql("select x from t order by x").unwrap(), "1\n3");
}

#[test]
fn a_held_connection_stands_still_before_the_last_pattern() {
    let (target, seen) = echo();
    let proxy = Proxy::start(target).unwrap();
    let mut early = connect(&proxy);
    assert_eq!(ask(&mut early, "job 7").unwrap(), "job 7");
    proxy.hold_before(&[b"job 7", b"commit"]);
    let mut held = connect(&proxy);
    assert_eq!(ask(&mut held, "commit; job 7; ").unwrap(), "commit; job 7; ");
    held.write_all(b"last; commit").unwrap();
    let reached = || seen.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!([reached(), reached(), reached()].map(|bytes| bytes.len()), [5, 15, 6]);
    // Counted once the bytes are on their way.
    while proxy.held() == 0 {
        thread::yield_now();
    }
    assert!(seen.recv_timeout(A_MOMENT).is_err(), "nothing else reaches the server");
    assert_eq!(ask(&mut connect(&proxy), "job 7 commit").unwrap(), "job 7 commit", "only one is held");
}

#[test]
fn a_connection_whose_answers_are_held_still_reaches_the_server() {
    let (target, seen) = echo();
    let proxy = Proxy::start(target).unwrap();
    proxy.hold_answers(&[b"commit"]);
    let mut held = connect(&proxy);
    held.write_all(b"commit").unwrap();
    assert_eq!(seen.recv_timeout(Duration::from_secs(10)).unwrap(), b"commit");
    held.set_read_timeout(Some(A_MOMENT)).unwrap();
    assert!(held.read(&mut [0; 8]).is_err(), "no answer comes back");
    assert_eq!(proxy.held(), 1);
    proxy.hold_answers(&[b"again"]);
    let mut free = connect(&proxy);
    assert_eq!(ask(&mut free, "first").unwrap(), "first", "the connection is made");
    proxy.hold_none();
    assert_eq!(ask(&mut free, "again").unwrap(), "again");
    assert_eq!(proxy.held(), 1);
}

//! The listener, over real sockets.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop::{Backstop, Config, QueueConfig};
use backstop_server::{Api, ListenError, Scope, ServerSettings, TlsSettings, bind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::stage::{Stage, one, rest, status};

/// More than anything here takes.
const LONG: Duration = Duration::from_secs(30);

fn quick() -> ServerSettings {
    let mut settings = ServerSettings::default();
    settings.limits.head = Duration::from_millis(300);
    settings.limits.idle = Duration::from_millis(600);
    settings.limits.body_grace = Duration::from_millis(300);
    settings
}

#[tokio::test]
async fn a_request_is_answered_and_the_connection_serves_the_next() {
    let listening = Stage::new(ServerSettings::default()).await.listen().await;
    let mut stream = listening.connect().await;
    for _ in 0..3 {
        stream.write_all(b"GET /api/v1/queues HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let answer = one(&mut stream).await;
        assert_eq!(status(&answer), 200, "{answer}");
        assert!(!answer.to_lowercase().contains("\nserver:"), "{answer}");
    }
    let foreign =
        listening.exchange("GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await;
    assert_eq!(status(&foreign), 421, "{foreign}");
    assert_eq!(status(&listening.exchange("GET / HTTP/1.0\r\n\r\n").await), 421);
}

#[tokio::test]
async fn heads_have_bounds() {
    let listening = Stage::new(ServerSettings::default()).await.listen().await;
    let many = "x: y\r\n".repeat(70);
    assert_eq!(status(&listening.request("GET /health/live", &many, "").await), 431);
    let fits = format!("x: {}\r\n", "y".repeat(12_000));
    assert_eq!(status(&listening.request("GET /health/live", &fits, "").await), 200);
    let long = format!("x: {}\r\n", "y".repeat(20_000));
    assert_eq!(status(&listening.request("GET /health/live", &long, "").await), 431);
    let long = format!("GET /health/live?{}", "y".repeat(20_000));
    let answer = status(&listening.request(&long, "", "").await);
    assert!(matches!(answer, 414 | 431), "{answer}");
}

#[tokio::test]
async fn what_cannot_be_read_as_a_request_is_answered_without_a_body_and_closed() {
    let listening = Stage::new(ServerSettings::default()).await.listen().await;
    let many = format!("GET /health/live HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(70));
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "y".repeat(70_000));
    for (request, expected) in [
        (many.as_str(), 431),
        (long.as_str(), 431),
        ("not an HTTP request\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nno colon here\r\n\r\n", 400),
        ("GET /health/live HTTP/1.1\r\nhost: a\r\nx: \u{1}\r\n\r\n", 400),
    ] {
        let mut stream = listening.connect().await;
        // What is more than it reads may meet an end that is closed already.
        let _ = stream.write_all(request.as_bytes()).await;
        let answer = timeout(LONG, rest(&mut stream)).await.expect("it is closed");
        assert_eq!(status(&answer), expected, "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
        let lower = head.to_lowercase();
        assert!(lower.contains("connection: close") && lower.contains("content-length: 0"), "{head}");
        assert_eq!(body, "", "hyper answers by itself, and in no shape");
    }
}

#[tokio::test]
async fn who_takes_too_long_is_cut_off() {
    let listening = Stage::new(quick()).await.listen().await;
    // Nothing said, half a head, and a rest that is too long after a whole request.
    let mut silent = listening.connect().await;
    let mut halting = listening.connect().await;
    halting.write_all(b"GET /health/live HTTP/1.1\r\nhost:").await.unwrap();
    let mut resting = listening.connect().await;
    resting.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(status(&one(&mut resting).await), 200);
    for stream in [&mut silent, &mut halting, &mut resting] {
        assert_eq!(timeout(LONG, rest(stream)).await.expect("it is closed"), "");
    }
    let mut slow = listening.connect().await;
    let head =
        "POST /api/v1/queues/mail/pause HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    slow.write_all(format!("{head}content-length: 10\r\n\r\n{{").as_bytes()).await.unwrap();
    let answer = timeout(LONG, one(&mut slow)).await.expect("it is answered");
    assert_eq!(status(&answer), 408, "{answer}");
    assert!(answer.contains("\"code\":\"too_slow\""), "{answer}");
}

#[tokio::test]
async fn a_body_is_not_read_before_its_sender_may_send_it() {
    let stage = Stage::new(ServerSettings::default()).await;
    stage.token("any", &[Scope::Read]).await;
    let listening = stage.listen().await;
    let mut stream = listening.connect().await;
    let head = "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    stream.write_all(format!("{head}content-length: 1000000\r\n\r\n").as_bytes()).await.unwrap();
    let answer = timeout(LONG, one(&mut stream)).await.expect("it is answered at once");
    assert_eq!(status(&answer), 401, "{answer}");
}

#[tokio::test]
async fn a_refusal_reaches_whoever_is_still_sending_and_the_connection_goes_on() {
    let stage = Stage::new(ServerSettings::default()).await;
    let token = stage.token("ci", &[Scope::Submit, Scope::Read]).await;
    let listening = stage.listen().await;
    let head = |line: &str, headers: &str, length: usize| {
        format!("{line} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n")
    };
    let (json, form) = ("content-type: application/json\r\n", "content-type: text/plain\r\n");
    let known = format!("authorization: Bearer {token}\r\n");
    for (what, line, headers, length, refusal) in [
        ("no token", "POST /api/v1/jobs", json.to_owned(), 2, 401),
        ("no token, large", "POST /api/v1/jobs", json.to_owned(), 2_200_000, 401),
        ("too large", "POST /api/v1/jobs", format!("{json}{known}"), 2_200_000, 413),
        ("far too large", "POST /api/v1/work/finish", format!("{json}{known}"), 40 << 20, 403),
        ("no scope", "POST /api/v1/tokens", format!("{json}{known}"), 300_000, 403),
        ("no JSON", "POST /api/v1/jobs", format!("{form}{known}"), 300_000, 415),
        ("no such place", "POST /nowhere", format!("{json}{known}"), 300_000, 404),
    ] {
        for _ in 0..3 {
            let mut stream = listening.connect().await;
            stream.write_all(head(line, &headers, length).as_bytes()).await.unwrap();
            // All of it is sent before the answer is looked for, as most clients do.
            stream.write_all(&vec![b' '; length]).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            let answer = one(&mut stream).await;
            assert_eq!(status(&answer), refusal, "{what}: {answer}");
            assert!(!answer.to_lowercase().contains("connection: close"), "{what}: {answer}");
            let next = format!("GET /api/v1/queues HTTP/1.1\r\nhost: localhost\r\n{known}\r\n");
            stream.write_all(next.as_bytes()).await.unwrap();
            assert_eq!(status(&one(&mut stream).await), 200, "{what}: the next request");
        }
    }
    // Whoever asks first and is told to go on has its connection kept, whatever form its body has.
    let mut stream = listening.connect().await;
    let asks = "expect: 100-continue\r\ntransfer-encoding: chunked\r\n";
    let line = "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\n";
    stream.write_all(format!("{line}{json}{known}{asks}\r\n").as_bytes()).await.unwrap();
    assert_eq!(status(&one(&mut stream).await), 100);
    stream.write_all(b"f\r\n{\"kind\":\"mail\"}\r\n0\r\n\r\n").await.unwrap();
    let answer = one(&mut stream).await;
    assert_eq!(status(&answer), 201, "{answer}");
    assert!(!answer.to_lowercase().contains("connection: close"), "{answer}");
    // Whoever stops in the middle, or asks first, is answered and told that the connection ends.
    for (headers, sent) in [(json.to_owned(), 1_000), (format!("{json}expect: 100-continue\r\n"), 0)] {
        let mut stream = listening.connect().await;
        stream.write_all(head("POST /api/v1/jobs", &headers, 2_000_000).as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; sent]).await.unwrap();
        let answer = timeout(LONG, rest(&mut stream)).await.expect("it is closed");
        assert_eq!(status(&answer), 401, "{answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    }
}

#[tokio::test]
async fn when_the_house_is_full_the_oldest_idle_connection_makes_room() {
    let mut settings = ServerSettings::default();
    settings.limits.connections = 2;
    let listening = Stage::new(settings).await.listen().await;
    let ask = async |stream: &mut TcpStream| {
        stream.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        status(&one(stream).await)
    };
    let (mut first, mut second) = (listening.connect().await, listening.connect().await);
    assert_eq!((ask(&mut first).await, ask(&mut second).await), (200, 200));
    let mut third = listening.connect().await;
    assert_eq!(ask(&mut third).await, 200);
    assert_eq!(timeout(LONG, rest(&mut first)).await.expect("it made room"), "");
    // Those that are in the middle of something stay.
    for stream in [&mut second, &mut third] {
        let head = "POST /api/v1/queues/a/pause HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n";
        let head = format!("{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // That it goes on to read the body shows that it is busy.
        assert_eq!(status(&one(stream).await), 100);
    }
    let mut fourth = listening.connect().await;
    let answer = timeout(LONG, rest(&mut fourth)).await.expect("it is answered");
    assert_eq!(status(&answer), 503, "{answer}");
    for stream in [&mut second, &mut third] {
        stream.write_all(b"{}").await.unwrap();
        assert_eq!(status(&one(stream).await), 200);
    }
}

#[tokio::test]
async fn what_has_begun_is_finished_when_it_is_told_to_stop() {
    let mut listening = Stage::new(ServerSettings::default()).await.listen().await;
    let (mut idle, mut begun) = (listening.connect().await, listening.connect().await);
    idle.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(status(&one(&mut idle).await), 200);
    let head = "POST /api/v1/queues/a/pause HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n";
    let head = format!("{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n");
    begun.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(status(&one(&mut begun).await), 100);
    listening.stop();
    assert_eq!(timeout(LONG, rest(&mut idle)).await.expect("it is closed"), "");
    assert!(TcpStream::connect(listening.address).await.is_err(), "nobody new gets in");
    begun.write_all(b"{}").await.unwrap();
    let answer = rest(&mut begun).await;
    assert_eq!(status(&answer), 200, "{answer}");
    timeout(LONG, listening.served).await.expect("it ends").unwrap().unwrap();
    // What was done is in the log, also at the end.
    assert!(listening.api.engine().queues().list().await.unwrap().iter().any(|queue| queue.paused));
}

#[tokio::test]
async fn the_grace_ends() {
    let mut settings = ServerSettings::default();
    settings.limits.grace = Duration::from_millis(50);
    let mut listening = Stage::new(settings).await.listen().await;
    let mut begun = listening.connect().await;
    let head = "POST /api/v1/queues/a/pause HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n";
    let head = format!("{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n");
    begun.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(status(&one(&mut begun).await), 100);
    listening.stop();
    timeout(LONG, listening.served).await.expect("it ends").unwrap().unwrap();
    assert_eq!(rest(&mut begun).await, "");
}

#[tokio::test]
async fn it_listens_to_other_machines_only_with_a_token() {
    let engine = Backstop::open("memory:").await.unwrap();
    let api = Api::new(engine, ServerSettings::default());
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let refused = bind(everywhere, &api).await.unwrap_err();
    assert!(matches!(refused, ListenError::NoToken { .. }), "{refused}");
    assert!(refused.to_string().contains("backstop token new"), "{refused}");
    let open = bind("127.0.0.1:0".parse().unwrap(), &api).await.unwrap();
    // A taken port is told as such.
    let taken = bind(open.local_addr().unwrap(), &api).await.unwrap_err();
    assert!(taken.to_string().contains("another program is already listening there"), "{taken}");
    let expired = backstop_server::TokenRequest {
        expires: Some(backstop::Timestamp::EPOCH),
        ..super::stage::wish("old", &[Scope::Read])
    };
    api.tokens().create(expired, "test").await.unwrap();
    assert!(bind(everywhere, &api).await.is_err());
    api.tokens().create(super::stage::wish("new", &[Scope::Read]), "test").await.unwrap();
    bind(everywhere, &api).await.unwrap();
}

/// H12, H3: a server without a worker is told at its start of settings that could never work, as a worker is.
#[tokio::test]
async fn it_does_not_listen_with_settings_that_let_nothing_through() {
    let store = Backstop::open("memory:").await.unwrap().store().clone();
    let mut never = backstop::circuits::CircuitSettings::default();
    never.probes = 0;
    for (config, what) in [
        (Config::default().queue("mail", QueueConfig::default().max_depth(0)), "queue `mail`"),
        (Config::default().circuit_settings("partner", never), "circuit `partner`"),
    ] {
        let api = Api::new(Backstop::on(store.clone(), config), ServerSettings::default());
        let refused = bind("127.0.0.1:0".parse().unwrap(), &api).await.unwrap_err();
        assert!(matches!(refused, ListenError::Engine(_)), "{refused}");
        assert!(refused.to_string().contains(what) && refused.to_string().contains('1'), "{refused}");
    }
}

fn file(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http/access/tls").join(name)
}

#[tokio::test]
async fn it_speaks_tls_with_a_certificate() {
    let mut settings = ServerSettings::default();
    settings.tls = Some(TlsSettings::load(&file("cert.pem"), &file("key.pem")).expect("a pair"));
    let listening = Stage::new(settings).await.listen().await;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("cert.pem")).unwrap()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = listening.connect().await;
    let mut stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await.expect("a handshake");
    let request = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    // The end of a connection without a farewell is an end too.
    let _ = stream.read_to_string(&mut answer).await;
    assert_eq!(status(&answer), 200, "{answer}");
    // Plain HTTP gets no answer in plain.
    let plain = listening.exchange("GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(!plain.starts_with("HTTP/"), "{plain}");
}

#[test]
fn a_certificate_and_a_key_that_do_not_fit_are_refused_by_name() {
    for (certificate, key, words) in [
        ("cert.pem", "other-key.pem", ["other-key.pem", "does not fit"]),
        ("key.pem", "key.pem", ["key.pem", "no certificate"]),
        ("cert.pem", "cert.pem", ["cert.pem", "cannot use"]),
        ("none.pem", "key.pem", ["none.pem", "cannot use"]),
        ("cert.pem", "none.pem", ["none.pem", "cannot use"]),
    ] {
        let refused = TlsSettings::load(&file(certificate), &file(key)).unwrap_err().to_string();
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
    }
}

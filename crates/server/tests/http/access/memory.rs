//! Connections that mean no good, and readers who do not read: the process stays small, and others are served.

use std::time::Duration;

use backstop_server::ServerSettings;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::stage::{Stage, rest, status};

/// Connections of each sort.
const TRICKLED_HEADS: usize = 800;
const TRICKLED_BODIES: usize = 800;
const BOMBS: usize = 400;

/// What the process may grow by, with both ends of every connection in it.
const GROWTH_KIB: u64 = 128 * 1_024;

/// A figure of this process in KiB.
fn figure(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process of Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a known figure");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A gzip of ten megabytes of zeros is ten kilobytes; this has its head, and is as long.
fn bomb() -> Vec<u8> {
    let head = "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let head = format!("{head}content-encoding: gzip\r\nconnection: close\r\ncontent-length: 10240\r\n\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
    bytes.resize(bytes.len() + 10_230, 0);
    bytes
}

async fn begun(address: std::net::SocketAddr, count: usize, text: &str) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(text.as_bytes()).await.expect("it reads");
        streams.push(stream);
    }
    streams
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_connections_and_bombs_neither_grow_the_process_nor_stop_the_others() {
    let mut settings = ServerSettings::default();
    settings.limits.head = Duration::from_secs(4);
    settings.limits.body_grace = Duration::from_secs(4);
    let listening = Stage::new(settings).await.listen().await;
    let before = figure("VmRSS");
    let mut heads = begun(listening.address, TRICKLED_HEADS, "GET /health/live HTTP/1.1\r\nx-slow: ").await;
    let post = "POST /api/v1/tokens HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut bodies =
        begun(listening.address, TRICKLED_BODIES, &format!("{post}content-length: 2000000\r\n\r\n")).await;
    for _ in 0..BOMBS {
        let mut stream = TcpStream::connect(listening.address).await.expect("it listens");
        // It may be answered and closed before all of it is sent.
        let _ = stream.write_all(&bomb()).await;
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || status(&answer) == 415, "{answer}");
    }
    for _ in 0..4 {
        for stream in heads.iter_mut().chain(&mut bodies) {
            // One that has been cut off already is what this is about.
            let _ = stream.write_all(b"a").await;
        }
    }
    // Everybody else is served meanwhile.
    assert_eq!(status(&listening.request("GET /api/v1/queues", "", "").await), 200);
    // They are all cut off in the end, the bodies with an answer.
    let mut answered = 0;
    for mut stream in heads {
        let text = timeout(Duration::from_secs(60), rest(&mut stream)).await.expect("it is cut off");
        assert!(text.is_empty() || status(&text) == 408, "{text}");
    }
    for mut stream in bodies {
        let text = timeout(Duration::from_secs(60), rest(&mut stream)).await.expect("it is cut off");
        answered += usize::from(text.starts_with("HTTP/1.1 408"));
    }
    assert!(answered > TRICKLED_BODIES / 2, "{answered} were told why");
    let grown = figure("VmHWM").saturating_sub(before);
    eprintln!("grown by {grown} KiB at most");
    assert!(grown < GROWTH_KIB, "grown by {grown} KiB");
    assert_eq!(status(&listening.request("GET /api/v1/queues", "", "").await), 200);
}

/// Readers of a list over payloads of a megabyte each, who send their request and then read nothing.
const DEAF_READERS: usize = 50;
const LARGE_JOBS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_large_jobs_who_do_not_read_do_not_grow_the_process() {
    let folder = backstop_testbed::Folder::new("readers").expect("a folder");
    let url = format!("sqlite:{}", folder.join("jobs.db").display());
    let stage = Stage::on(backstop::Backstop::open(&url).await.expect("a store"), ServerSettings::default());
    let text = "x".repeat(1_000_000);
    for number in 0..LARGE_JOBS {
        let body = format!(r#"{{"kind":"mail","payload":{{"number":{number},"text":"{text}"}}}}"#);
        assert_eq!(stage.call_with("POST", "/api/v1/jobs", None, &body).await.status, 201);
    }
    let listening = stage.listen().await;
    // What a first reader brings into memory is there for all of them.
    let first = listening.request("GET /api/v1/jobs?limit=1000", "", "").await;
    assert_eq!(status(&first), 200);
    let before = figure("VmRSS");
    let asks = ["jobs?limit=1000", "jobs?limit=1000&data_limit=65536", "jobs?limit=1000&reveal=true"];
    let mut deaf = Vec::new();
    for number in 0..DEAF_READERS {
        let ask = asks[number % asks.len()];
        let text = format!("GET /api/v1/{ask} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        deaf.extend(begun(listening.address, 1, &text).await);
    }
    // Somebody who does read is served when all of them have been.
    for _ in 0..3 {
        assert_eq!(status(&listening.request("GET /api/v1/jobs?limit=5", "", "").await), 200);
    }
    let grown = figure("VmHWM").saturating_sub(before);
    eprintln!("grown by {grown} KiB at most");
    assert!(grown < GROWTH_KIB, "grown by {grown} KiB");
    drop(deaf);
}

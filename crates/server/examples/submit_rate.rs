//! Measures submits over HTTP against the library's own on the same store, in one run.
//!
//! `cargo run --release -p backstop-server --example submit_rate -- [SECONDS] [ROUNDS]`
//!
//! Library and HTTP take turns, each for some seconds; the row is the round with the median ratio. Clients, server and
//! store share this process and its cores, so the HTTP figures pay for both ends of every connection. With
//! `BACKSTOP_TEST_POSTGRES` it measures that server too.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::Backstop;
use backstop_server::{Api, ServerSettings, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Submitters at a time: tasks of the library, or connections that are kept open.
const CLIENTS: usize = 64;

/// Submitters of batches at a time, and jobs of each batch.
const BULK_CLIENTS: usize = 4;
const BATCH: usize = 1_000;

const KIND: &str = "bench";
const PAYLOAD: &str = r#"{"to":"ada@example.org","subject":"hello","template":"welcome","attempt":1}"#;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let seconds = args.next().transpose()?.unwrap_or(3);
    let rounds = args.next().transpose()?.unwrap_or(3);
    let span = Duration::from_secs(seconds);
    println!("{:10} {:24} {:>12} {:>12} {:>7}", "store", "submits", "library/s", "http/s", "ratio");
    let folder = std::env::temp_dir().join(format!("backstop-rate-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let file = format!("sqlite:{}", folder.join("rate.db").display());
    let measured = measure("sqlite", &file, span, rounds).await;
    std::fs::remove_dir_all(&folder)?;
    measured?;
    if let Ok(url) = std::env::var("BACKSTOP_TEST_POSTGRES") {
        let url = format!("{url}?schema=rate_{}", std::process::id());
        measure("postgres", &url, span, rounds).await?;
    }
    Ok(())
}

async fn measure(name: &str, url: &str, span: Duration, rounds: u64) -> Outcome<()> {
    let engine = Backstop::open(url).await?;
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let api = Api::new(engine.clone(), ServerSettings::default());
    let server = tokio::spawn(serve(listener, api, std::future::pending()));
    let single = format!(r#"{{"kind":"{KIND}","payload":{PAYLOAD}}}"#);
    let batch = format!(r#"{{"jobs":[{}]}}"#, vec![single.as_str(); BATCH].join(","));
    let (mut singles, mut batches) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        singles.push((
            by_library(&engine, CLIENTS, 1, span).await?,
            by_http(address, "/api/v1/jobs", &single, CLIENTS, 1, span).await?,
        ));
        batches.push((
            by_library(&engine, BULK_CLIENTS, BATCH, span).await?,
            by_http(address, "/api/v1/jobs/batch", &batch, BULK_CLIENTS, BATCH, span).await?,
        ));
    }
    server.abort();
    row(name, &format!("one by one, {CLIENTS} at a time"), singles);
    row(name, &format!("{BATCH} each, {BULK_CLIENTS} at a time"), batches);
    Ok(())
}

/// Prints the round whose ratio is the median of all.
fn row(store: &str, what: &str, mut rounds: Vec<(f64, f64)>) {
    rounds.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (library, http) = rounds[rounds.len() / 2];
    println!("{store:10} {what:24} {library:>12.0} {http:>12.0} {:>7.2}", http / library);
}

/// Jobs a second that the library stores.
async fn by_library(engine: &Backstop, clients: usize, each: usize, span: Duration) -> Outcome<f64> {
    let mut tasks = JoinSet::new();
    let until = Instant::now() + span;
    for _ in 0..clients {
        let engine = engine.clone();
        tasks.spawn(async move {
            let mut jobs = 0_u32;
            while Instant::now() < until {
                if each == 1 {
                    engine.enqueue_raw(KIND, PAYLOAD).submit().await?;
                } else {
                    let batch = (0..each).map(|_| engine.enqueue_raw(KIND, PAYLOAD)).collect();
                    engine.submit_all(batch, true).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
                }
                jobs += u32::try_from(each)?;
            }
            Ok(jobs)
        });
    }
    rate(tasks, span).await
}

/// Jobs a second that are stored over connections that are kept open.
async fn by_http(
    address: SocketAddr,
    path: &'static str,
    body: &str,
    clients: usize,
    each: usize,
    span: Duration,
) -> Outcome<f64> {
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let request: Arc<[u8]> = request.into_bytes().into();
    let mut connections = Vec::new();
    for _ in 0..clients {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        connections.push(stream);
    }
    let mut tasks = JoinSet::new();
    let until = Instant::now() + span;
    for mut stream in connections {
        let request = Arc::clone(&request);
        tasks.spawn(async move {
            let (mut jobs, mut answer) = (0_u32, Vec::new());
            while Instant::now() < until {
                stream.write_all(&request).await?;
                created(&mut stream, &mut answer).await?;
                jobs += u32::try_from(each)?;
            }
            Ok(jobs)
        });
    }
    rate(tasks, span).await
}

/// Reads one answer to its end. A client library would cost as much as the server that is measured beside it.
async fn created(stream: &mut TcpStream, answer: &mut Vec<u8>) -> Outcome<()> {
    answer.clear();
    let mut whole = usize::MAX;
    while answer.len() < whole {
        if stream.read_buf(answer).await? == 0 {
            return Err("the server closed the connection".into());
        }
        if whole == usize::MAX
            && let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n")
        {
            let head = std::str::from_utf8(&answer[..end])?;
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            whole = end + 4 + length.ok_or("an answer without a length")?.parse::<usize>()?;
        }
    }
    if answer.starts_with(b"HTTP/1.1 201 ") {
        return Ok(());
    }
    Err(format!("the server answered {}", String::from_utf8_lossy(answer)).into())
}

async fn rate(mut tasks: JoinSet<Outcome<u32>>, span: Duration) -> Outcome<f64> {
    let mut sum = 0.0;
    while let Some(jobs) = tasks.join_next().await {
        sum += f64::from(jobs??);
    }
    Ok(sum / span.as_secs_f64())
}

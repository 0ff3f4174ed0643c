//! Measures submits over HTTP against the library's own on the same store, in one run.
//!
//! `cargo run --release -p backstop-server --example submit_rate -- [SECONDS] [ROUNDS]`
//!
//! Library and HTTP take turns, each for some seconds, and the best of the rounds counts: on a shared machine the best
//! run is the one that was disturbed least. Clients, server and store share this process and its cores, so the HTTP
//! figures pay for both ends of every connection. With `BACKSTOP_TEST_POSTGRES` it measures that server too.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::http::{Request, StatusCode};
use backstop::Backstop;
use backstop_server::{Api, Settings, serve};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

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
    let api = Api::new(engine.clone(), Settings::default());
    let server = tokio::spawn(serve(listener, api, std::future::pending()));
    let single = Bytes::from(format!(r#"{{"kind":"{KIND}","payload":{PAYLOAD}}}"#));
    let items = vec![std::str::from_utf8(&single)?; BATCH].join(",");
    let batch = Bytes::from(format!(r#"{{"jobs":[{items}]}}"#));
    let mut best = [0.0_f64; 4];
    for _ in 0..rounds {
        let rates = [
            by_library(&engine, CLIENTS, 1, span).await?,
            by_http(address, "/api/v1/jobs", &single, CLIENTS, 1, span).await?,
            by_library(&engine, BULK_CLIENTS, BATCH, span).await?,
            by_http(address, "/api/v1/jobs/batch", &batch, BULK_CLIENTS, BATCH, span).await?,
        ];
        for (best, rate) in best.iter_mut().zip(rates) {
            *best = best.max(rate);
        }
    }
    server.abort();
    let [library, http, library_bulk, http_bulk] = best;
    row(name, &format!("one by one, {CLIENTS} at a time"), library, http);
    row(name, &format!("{BATCH} each, {BULK_CLIENTS} at a time"), library_bulk, http_bulk);
    Ok(())
}

fn row(store: &str, what: &str, library: f64, http: f64) {
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
    body: &Bytes,
    clients: usize,
    each: usize,
    span: Duration,
) -> Outcome<f64> {
    let mut senders = Vec::new();
    for _ in 0..clients {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        senders.push(sender);
    }
    let mut tasks = JoinSet::new();
    let until = Instant::now() + span;
    for mut sender in senders {
        // Made once: the client should cost as little as it can beside the server that is measured.
        let request = Request::post(path)
            .header("host", address.to_string())
            .header("content-type", "application/json")
            .body(Full::new(body.clone()))?;
        tasks.spawn(async move {
            let mut jobs = 0_u32;
            while Instant::now() < until {
                post(&mut sender, request.clone()).await?;
                jobs += u32::try_from(each)?;
            }
            Ok(jobs)
        });
    }
    rate(tasks, span).await
}

async fn post(sender: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Outcome<()> {
    sender.ready().await?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let text = answer.into_body().collect().await?.to_bytes();
    if status == StatusCode::CREATED {
        return Ok(());
    }
    Err(format!("the server answered {status}: {}", String::from_utf8_lossy(&text)).into())
}

async fn rate(mut tasks: JoinSet<Outcome<u32>>, span: Duration) -> Outcome<f64> {
    let mut sum = 0.0;
    while let Some(jobs) = tasks.join_next().await {
        sum += f64::from(jobs??);
    }
    Ok(sum / span.as_secs_f64())
}

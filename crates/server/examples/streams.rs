//! Measures what idle event streams cost: memory per connection, and what they do to the speed of submits.
//!
//! `cargo run --release -p backstop-server --example streams -- [CONNECTIONS]`. The server runs in a process of its
//! own, so that its memory is not that of the clients.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use backstop::Backstop;
use backstop_server::{Api, ServerSettings, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Jobs submitted for one figure, and how many of them at a time.
const JOBS: usize = 400_000;
const BATCH: usize = 100;

#[tokio::main]
async fn main() -> Outcome {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => server().await,
        other => measure(other.unwrap_or("5000").parse()?).await,
    }
}

/// Serves on a free port and does what its standard input says.
async fn server() -> Outcome {
    let engine = Backstop::open("memory:").await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let api = Api::new(engine.clone(), ServerSettings::default());
    let served = tokio::spawn(serve(listener, api, std::future::pending()));
    let (lines, mut commands) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
    });
    while let Some(command) = commands.recv().await {
        match command.as_str() {
            "rss" => println!("{}", resident_kib()?),
            _ => println!("{}", submits_per_second(&engine).await?),
        }
    }
    served.abort();
    Ok(())
}

async fn submits_per_second(engine: &Backstop) -> Outcome<u128> {
    let began = Instant::now();
    for _ in 0..JOBS / BATCH {
        let jobs = (0..BATCH).map(|_| engine.enqueue_raw("mail", "{}")).collect();
        engine.submit_all(jobs, true).await?;
    }
    Ok(JOBS as u128 * 1_000_000 / began.elapsed().as_micros().max(1))
}

fn resident_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse()?)
}

async fn measure(connections: u64) -> Outcome {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut input, output) =
        (child.stdin.take().ok_or("no input")?, child.stdout.take().ok_or("no output")?);
    let mut output = BufReader::new(output).lines();
    let mut line = || -> Outcome<String> { Ok(output.next().ok_or("the server is gone")??) };
    let address = line()?;
    let mut ask = |command: &str| -> Outcome<u64> {
        writeln!(input, "{command}")?;
        Ok(line()?.parse()?)
    };
    ask("submit")?;
    println!("submits a second without a stream: {}", ask("submit")?);
    // The first stream starts what all share; it is not part of what one more costs.
    let first = open(&address, "?event=dead", 1).await?;
    println!("submits a second with one stream: {}", ask("submit")?);
    let before = ask("rss")?;
    let idle = open(&address, "?event=dead", connections).await?;
    let after = ask("rss")?;
    println!("memory per idle stream: {} bytes", (after.saturating_sub(before)) * 1024 / connections.max(1));
    println!("submits a second with {connections} idle streams: {}", ask("submit")?);
    drop(idle);
    let busy = open(&address, "", connections.min(100)).await?;
    println!("submits a second with {} streams that get every event: {}", busy.len(), ask("submit")?);
    drop((first, busy));
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Opens streams and reads from each in a task of its own.
async fn open(address: &str, query: &str, count: u64) -> Outcome<JoinSet<()>> {
    let mut streams = JoinSet::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET /api/v1/events{query} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut buffer = [0; 1024];
        if stream.read(&mut buffer).await? == 0 {
            return Err("a stream ended at once".into());
        }
        streams.spawn(async move {
            let mut buffer = vec![0; 4096];
            while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
        });
    }
    Ok(streams)
}

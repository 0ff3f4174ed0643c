//! A database server that workflows are measured on, and the processes that run their jobs.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use backstop::Backstop;

use super::sizes::blocking;
use super::workload::{self, CONCURRENCY, RunCounter};
use crate::problem::Problem;

/// A database on a server, and how many processes run what is stored in it.
#[derive(Debug)]
pub(crate) struct BenchServer {
    url: String,
    processes: u16,
}

impl BenchServer {
    /// Jobs of `url`, run by so many processes.
    pub(crate) const fn new(url: String, processes: u16) -> Self {
        Self { url, processes }
    }

    pub(super) const fn processes(&self) -> u16 {
        self.processes
    }

    pub(super) async fn open(&self) -> Result<Backstop, Problem> {
        Ok(Backstop::open(&self.url).await?)
    }

    /// Starts the processes, which share as many slots as one has in the other measures.
    pub(super) fn start(&self, queue: &str) -> Result<BenchProcesses, Problem> {
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let slots = CONCURRENCY.div_ceil(usize::from(self.processes)).to_string();
        let mut started = BenchProcesses(Vec::new());
        for _ in 0..self.processes {
            let mut process = Command::new(&program)
                .args(["bench", "--child-queue", queue, "--child-slots", &slots])
                .env_remove("BACKSTOP_CONFIG")
                // That nobody serves the queue that these jobs go to by default is meant.
                .env("BACKSTOP_LOG", "error")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .map_err(|error| failed(&error))?;
            // Not as an argument: whoever lists the processes would read the password.
            let told = process.stdin.as_mut().map(|input| writeln!(input, "{}", self.url));
            started.0.push(process);
            told.transpose().map_err(|error| failed(&error))?;
        }
        Ok(started)
    }
}

impl std::fmt::Display for BenchServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = self.url.split(':').next().unwrap_or_default();
        match self.processes {
            1 => write!(f, "{scheme}, one process"),
            processes => write!(f, "{scheme}, {processes} processes"),
        }
    }
}

/// Processes that run jobs until they are dropped.
#[derive(Debug)]
pub(super) struct BenchProcesses(Vec<Child>);

impl BenchProcesses {
    /// Lets them end what they have begun, and waits for them.
    pub(super) async fn stop(mut self) -> Result<(), Problem> {
        let mut processes = std::mem::take(&mut self.0);
        blocking(move || {
            processes.iter_mut().for_each(|process| drop(process.stdin.take()));
            // How they end says nothing of what was measured.
            processes.iter_mut().for_each(|process| drop(process.wait()));
            Ok(())
        })
        .await
    }
}

impl Drop for BenchProcesses {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // One that is gone needs no ending.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn failed(problem: &std::io::Error) -> Problem {
    Problem::failed("bench_child", format!("a process that runs the jobs cannot be started: {problem}"))
}

/// The child: reads where the jobs are, and runs them until its input ends.
pub(crate) async fn work(queue: &str, slots: usize) -> Result<(), Problem> {
    let url = blocking(|| {
        let mut url = String::new();
        Ok(std::io::stdin().read_line(&mut url).map(|_| url))
    });
    let url = url.await?.map_err(|error| failed(&error))?;
    let engine = Backstop::open(url.trim()).await?;
    let worker = workload::slots(&engine, queue, slots, RunCounter::until(usize::MAX)).await?;
    blocking(|| {
        // What ends it is that nobody is there any more.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        Ok(())
    })
    .await?;
    worker.stop().await;
    Ok(())
}

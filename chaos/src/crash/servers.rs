//! The same kills with two servers that run no worker, and a remote worker that knows nothing but their HTTP API.

use std::fs;
use std::time::{Duration, Instant};

use backstop::JobId;
use backstop_testbed::Proxy;

use super::KillPoint;
use super::campaign::{CrashCampaign, CrashReport, LEASE_MS, PATIENCE, proxy_to};
use super::job;
use super::remote::{LIMIT, STOP};
use super::trap::{self, CrashTrap};
use crate::group::drained;
use crate::location::StoreKind;
use crate::node::{Node, NodeStart};
use crate::processes;

const SERVERS: usize = 2;

/// Runs that are reported in one call, where a server is killed in the middle of it.
pub const REPORT: usize = 4;

/// A store with servers before it.
#[derive(Debug)]
pub struct ServerCampaign<'a> {
    store: CrashCampaign<'a>,
    servers: Vec<CrashServer>,
}

/// A server, and what stands between it and its database.
#[derive(Debug)]
struct CrashServer {
    node: Node,
    proxy: Option<Proxy>,
}

impl CrashServer {
    fn is_held(&self) -> bool {
        self.proxy.as_ref().is_some_and(|proxy| proxy.held() > 0)
    }
}

impl<'a> ServerCampaign<'a> {
    /// A campaign on a store of its own.
    ///
    /// # Panics
    /// When the store cannot be opened.
    pub async fn new(program: &'a str, kind: StoreKind) -> Self {
        Self { store: CrashCampaign::new(program, kind, None).await, servers: Vec::new() }
    }

    /// Kills the remote worker or a server at a point.
    ///
    /// # Panics
    /// When none dies there.
    pub async fn kill(&mut self, point: KillPoint) {
        let (label, trap) = self.store.next_kill(point);
        if point == KillPoint::MidBatch {
            return self.kill_in_report(&label).await;
        }
        let victim = self.store.submit_around(point, &label).await;
        self.serve(&label, trap.as_ref()).await;
        let worker = self.work(&label, 1);
        match trap {
            Some(trap) => self.kill_server(&label, trap.after, &[victim], worker).await,
            None => self.worker_dies(&label, worker).await,
        }
    }

    /// Kills a server in the middle of a report about several runs.
    async fn kill_in_report(&mut self, label: &str) {
        let labels: Vec<String> = (0..REPORT).map(|number| job::batch_label(label, number)).collect();
        let trap = CrashTrap::at_nth(&labels[REPORT / 2], 1);
        let victims = self.store.submit_batch(labels.into_iter()).await;
        self.serve(label, Some(&trap)).await;
        let worker = self.work(label, REPORT);
        self.kill_server(label, false, &victims, worker).await;
    }

    /// Starts servers in place of those that run, and returns when they can be found.
    async fn serve(&mut self, label: &str, trap: Option<&CrashTrap>) {
        self.servers.clear();
        let folder = self.store.location.folder().to_owned();
        for slot in 0..SERVERS {
            let _ = fs::remove_file(folder.join(format!("server-{slot}")));
        }
        let token = self.store.token(label);
        for slot in 0..SERVERS {
            let proxy = proxy_to(&self.store.location);
            if let (Some(trap), Some(proxy)) = (trap, &proxy) {
                trap.set(proxy);
            }
            let url = proxy.as_ref().map(|proxy| proxy.url(self.store.location.url()));
            let mut variables = trap::variables(trap, &token);
            variables.push(("CHAOS_SLOT", slot.to_string()));
            let node = self.start("crash-serve", url.as_deref(), &variables);
            self.servers.push(CrashServer { node, proxy });
        }
        let began = Instant::now();
        while processes::announced(&folder).len() < SERVERS {
            assert!(began.elapsed() < PATIENCE, "{label}: the servers do not come up");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts a worker that claims up to `limit` jobs at once, and reports them at once.
    fn work(&self, label: &str, limit: usize) -> Node {
        let mut variables = trap::variables(None, &self.store.token(label));
        variables.push((LIMIT, limit.to_string()));
        self.start("crash-remote", None, &variables)
    }

    fn start(&self, mode: &str, url: Option<&str>, variables: &[(&str, String)]) -> Node {
        let location = &self.store.location;
        let url = url.unwrap_or(location.url());
        let start = NodeStart { mode, url, ..location.node(self.store.program, LEASE_MS) };
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        start.go_with(&variables)
    }

    /// Waits until the worker has died at its point.
    async fn worker_dies(&self, label: &str, mut worker: Node) {
        let began = Instant::now();
        while worker.is_alive() {
            assert!(began.elapsed() < PATIENCE, "{label}: the worker did not come to its point");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(self.store.token(label).exists(), "{label}: the worker died, and not where it should");
    }

    /// Waits until a server has died at its point, and the worker has told the other one.
    async fn kill_server(&mut self, label: &str, after: bool, victims: &[JobId], worker: Node) {
        let began = Instant::now();
        while self.servers.iter_mut().all(|server| server.node.is_alive() && !server.is_held()) {
            assert!(began.elapsed() < PATIENCE, "{label}: no server came to its point");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if let Some(held) = self.servers.iter().position(CrashServer::is_held) {
            self.servers.iter().filter_map(|server| server.proxy.as_ref()).for_each(Proxy::hold_none);
            if after {
                self.all_succeeded(victims).await;
            }
            self.servers[held].node.kill();
        } else {
            assert!(self.store.token(label).exists(), "{label}: a server died, and not where it should");
        }
        self.all_succeeded(victims).await;
        self.rest(worker).await;
    }

    async fn all_succeeded(&self, victims: &[JobId]) {
        for victim in victims {
            self.store.succeeded(*victim).await;
        }
    }

    /// Lets a worker finish what it has, and claim nothing more.
    async fn rest(&self, mut worker: Node) {
        let stop = self.store.location.folder().join(STOP);
        fs::write(&stop, "").expect("the folder can be written");
        let began = Instant::now();
        while worker.is_alive() {
            assert!(began.elapsed() < PATIENCE, "the worker does not stop");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::remove_file(stop).expect("the folder can be written");
    }

    /// Lets servers and a worker finish what is left; then reads the journals and the store.
    ///
    /// # Panics
    /// When a process does not stop when asked to, or the store cannot be read.
    pub async fn settle(mut self) -> CrashReport {
        self.serve("end", None).await;
        let worker = self.work("end", 1);
        drained(&self.store.engine).await;
        self.rest(worker).await;
        for server in self.servers.drain(..) {
            assert!(server.node.stop(), "a server stops cleanly when it is asked to");
        }
        self.store.look().await
    }
}

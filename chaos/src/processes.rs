//! Servers that run no worker, and workers that have no store: who is killed where, and what must come of it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use backstop::Backstop;

use crate::checker::{self, CampaignReport};
use crate::group::{PATIENCE, all_ended};
use crate::node::{Node, NodeStart};

/// Says where a server listens. A reader sees all of it or nothing.
///
/// # Errors
/// When the folder cannot be written.
pub fn announce(folder: &Path, slot: &str, address: SocketAddr) -> std::io::Result<()> {
    let (draft, done) = (folder.join(format!("draft-{slot}")), folder.join(format!("server-{slot}")));
    std::fs::write(&draft, address.to_string())?;
    std::fs::rename(draft, done)
}

/// Takes back what a server said that is about to be killed: its port may be another campaign's soon.
pub fn retract(folder: &Path, slot: usize) {
    let _ = std::fs::remove_file(folder.join(format!("server-{slot}")));
}

/// Where servers listen, or did until a moment ago.
#[must_use]
pub fn announced(folder: &Path) -> Vec<SocketAddr> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let servers = files.filter(|file| file.file_name().to_string_lossy().starts_with("server-"));
    let text = servers.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    text.filter_map(|text| text.parse().ok()).collect()
}

/// Starts two servers, and returns when both can be found.
///
/// # Panics
/// When they do not come up.
pub async fn serve_twice(start: NodeStart<'_>) -> [Node; 2] {
    serve_twice_with(start, [&[], &[]]).await
}

/// The same with variables of the environment for each.
///
/// # Panics
/// When they do not come up.
pub async fn serve_twice_with(start: NodeStart<'_>, variables: [&[(&str, &str)]; 2]) -> [Node; 2] {
    let slots = ["0", "1"];
    let servers = std::array::from_fn(|slot| {
        start.go_with(&[variables[slot], &[("CHAOS_SLOT", slots[slot])]].concat())
    });
    let began = Instant::now();
    while announced(start.folder).len() < slots.len() {
        assert!(began.elapsed() < PATIENCE, "the servers do not come up; see node.log");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    servers
}

/// The processes of such a campaign.
#[derive(Debug)]
pub struct ServersAndWorkers<'a> {
    start: NodeStart<'a>,
    servers: Vec<Node>,
    workers: Vec<Node>,
    kills: usize,
    per_server: usize,
}

impl<'a> ServersAndWorkers<'a> {
    /// Starts servers, in the mode that `start` says, and workers. A server is killed for every `per_server` workers.
    #[must_use]
    pub fn open(start: NodeStart<'a>, servers: usize, workers: usize, per_server: usize) -> Self {
        let (none, kills) = (Vec::new, 0);
        let mut processes = Self { start, servers: none(), workers: none(), kills, per_server };
        processes.staff(servers, workers);
        processes
    }

    fn staff(&mut self, servers: usize, workers: usize) {
        self.servers = (0..servers).map(|slot| self.serve(slot)).collect();
        self.workers = (0..workers).map(|_| self.work()).collect();
    }

    fn serve(&self, slot: usize) -> Node {
        self.start.go_with(&[("CHAOS_SLOT", &slot.to_string())])
    }

    fn work(&self) -> Node {
        NodeStart { mode: "remote", ..self.start }.go()
    }

    /// Kills one worker, now and then a server too, and starts others in their place.
    pub fn replace_one(&mut self, dice: &mut fastrand::Rng) {
        let victim = dice.usize(..self.workers.len());
        self.workers[victim].kill();
        self.workers[victim] = self.work();
        self.kills += 1;
        if self.kills.is_multiple_of(self.per_server) {
            let victim = dice.usize(..self.servers.len());
            retract(self.start.folder, victim);
            self.servers[victim].kill();
            self.servers[victim] = self.serve(victim);
        }
    }

    /// True while every process runs.
    pub fn all_alive(&mut self) -> bool {
        self.servers.iter_mut().chain(&mut self.workers).all(Node::is_alive)
    }

    /// Kills all; fresh servers and workers of the same shape finish what is left. Then reads the journals and the
    /// store.
    ///
    /// # Panics
    /// When jobs are left that nobody ends, or the store cannot be read.
    pub async fn settle(mut self) -> CampaignReport {
        let (servers, workers) = (self.servers.len(), self.workers.len());
        (0..servers).for_each(|slot| retract(self.start.folder, slot));
        self.servers.iter_mut().chain(&mut self.workers).for_each(Node::kill);
        self.start.mode = "serve";
        self.staff(servers, workers);
        let engine = Backstop::open(self.start.url).await.expect("the store opens");
        all_ended(&engine).await;
        self.workers.iter_mut().for_each(Node::kill);
        for server in self.servers {
            assert!(server.stop(), "a server stops cleanly when it is asked to");
        }
        checker::check(&engine, self.start.folder).await.expect("the store can be read")
    }
}

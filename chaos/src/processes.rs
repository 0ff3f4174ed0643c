//! Servers that run no worker, and workers that have no store: who is killed where, and what must come of it.

use std::net::SocketAddr;
use std::path::Path;

use backstop::Backstop;

use crate::checker::{self, CampaignReport};
use crate::group::{drained, live_jobs};
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

/// Where servers listen, or did until a moment ago.
#[must_use]
pub fn announced(folder: &Path) -> Vec<SocketAddr> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let servers = files.filter(|file| file.file_name().to_string_lossy().starts_with("server-"));
    let text = servers.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    text.filter_map(|text| text.parse().ok()).collect()
}

/// The processes of such a campaign.
#[derive(Debug)]
pub struct ServersAndWorkers<'a> {
    start: NodeStart<'a>,
    servers: Vec<Node>,
    workers: Vec<Node>,
}

impl<'a> ServersAndWorkers<'a> {
    /// Starts servers that also submit, and workers.
    #[must_use]
    pub fn open(start: NodeStart<'a>, servers: usize, workers: usize) -> Self {
        let mut processes = Self {
            start: NodeStart { mode: "serve-and-submit", ..start },
            servers: Vec::new(),
            workers: Vec::new(),
        };
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

    /// Kills one worker and starts another in its place.
    pub fn replace_worker(&mut self, dice: &mut fastrand::Rng) {
        let victim = dice.usize(..self.workers.len());
        self.workers[victim].kill();
        self.workers[victim] = self.work();
    }

    /// Kills one server and starts another in its place.
    pub fn replace_server(&mut self, dice: &mut fastrand::Rng) {
        let victim = dice.usize(..self.servers.len());
        self.servers[victim].kill();
        self.servers[victim] = self.serve(victim);
    }

    /// Kills all; fresh servers and workers of the same shape finish what is left. Then reads the journals and the
    /// store.
    ///
    /// # Panics
    /// When jobs are left that nobody ends, or the store cannot be read.
    pub async fn settle(mut self) -> CampaignReport {
        let (servers, workers) = (self.servers.len(), self.workers.len());
        self.servers.iter_mut().chain(&mut self.workers).for_each(Node::kill);
        self.start.mode = "serve";
        self.staff(servers, workers);
        let engine = Backstop::open(self.start.url).await.expect("the store opens");
        drained(&engine).await;
        let left = live_jobs(&engine).await;
        assert_eq!(left, 0, "jobs that have not ended: nobody takes them back");
        self.workers.iter_mut().for_each(Node::kill);
        for server in self.servers {
            assert!(server.stop(), "a server stops cleanly when it is asked to");
        }
        checker::check(&engine, self.start.folder).await.expect("the store can be read")
    }
}

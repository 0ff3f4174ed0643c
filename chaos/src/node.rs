//! Processes of a campaign, and the signals sent to them by their id.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A process under test. Killed when dropped, so that a failed test leaves nothing running.
#[derive(Debug)]
pub struct Node {
    /// The process itself, with its pipes.
    pub child: Child,
}

impl Node {
    /// Starts `chaos-node` with a mode, a folder and a lease.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn start(program: &str, mode: &str, folder: &Path, lease_ms: u64) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(folder.join("node.log"));
        let child = Command::new(program)
            .args([mode, &folder.display().to_string(), &lease_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.map_or_else(|_| Stdio::null(), Stdio::from))
            .spawn()
            .expect("the node can be started");
        Self { child }
    }

    /// Ends it at once, as a crash would (SIGKILL).
    ///
    /// # Panics
    /// When the process cannot be waited for.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().expect("a killed process ends");
    }

    /// Sends it a signal by name: STOP, CONT, TERM.
    ///
    /// # Panics
    /// When there is no shell to send it with.
    pub fn signal(&self, name: &str) {
        let send = format!("kill -{name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &send]).status().expect("there is a shell");
        assert!(sent.success(), "{send}");
    }

    /// Asks it to stop and waits until it has; answers whether it ended well.
    ///
    /// # Panics
    /// When the process cannot be waited for.
    pub fn stop(mut self) -> bool {
        self.signal("TERM");
        self.child.wait().expect("a stopped process ends").success()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The store's file in a campaign's folder, as a URL.
#[must_use]
pub fn store_url(folder: &Path) -> String {
    let file: PathBuf = folder.join("jobs.db");
    format!("sqlite:{}", file.display())
}

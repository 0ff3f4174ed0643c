//! Processes of a campaign, and the signals sent to them by their id.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process under test. Killed when dropped, so that a failed test leaves nothing running.
#[derive(Debug)]
pub struct Node {
    /// The process itself, with its pipes.
    pub child: Child,
}

/// How to start a process.
#[derive(Debug, Clone, Copy)]
pub struct NodeStart<'a> {
    /// The path of `chaos-node`.
    pub program: &'a str,
    /// What it does.
    pub mode: &'a str,
    /// The store.
    pub url: &'a str,
    /// Where it writes its journal and its log.
    pub folder: &'a Path,
    /// Its lease.
    pub lease_ms: u64,
}

impl NodeStart<'_> {
    /// Starts it.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn go(self) -> Node {
        self.go_with(&[])
    }

    /// Starts it with variables of the environment.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn go_with(self, variables: &[(&str, &str)]) -> Node {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("node.log"));
        let child = Command::new(self.program)
            .args([self.mode, self.url, &self.folder.display().to_string(), &self.lease_ms.to_string()])
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.map_or_else(|_| Stdio::null(), Stdio::from))
            .spawn()
            .expect("the node can be started");
        Node { child }
    }
}

impl Node {
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

    /// Asks it to stop and waits until it has; answers whether it stopped cleanly.
    ///
    /// # Panics
    /// When the process cannot be waited for.
    pub fn stop(mut self) -> bool {
        self.signal("TERM");
        self.child.wait().expect("a stopped process ends").success()
    }

    /// True while it runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The time of a core that it has used, in hundredths of a second.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn cpu_hundredths(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        // The name in parentheses may hold anything; the 12th and 13th fields behind it are what we want.
        let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! Signals to processes, always by id, and the wait until they are gone.
//!
//! The standard library sends SIGKILL to own children only; the shell's `kill` sends everything else.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::trouble::TestbedError;

/// How often a wait looks again.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// One process of this machine; the time of its start tells it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessIdentity {
    id: u32,
    started: u64,
}

/// What /proc says about a process.
struct Stat {
    state: char,
    parent: u32,
    started: u64,
}

impl ProcessIdentity {
    /// The living process with this id.
    pub(crate) fn find(id: u32) -> Option<Self> {
        let stat = stat(id)?;
        (stat.state != 'Z').then_some(Self { id, started: stat.started })
    }

    /// Its living children.
    pub(crate) fn children(self) -> Vec<Self> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        ids.filter(|id| stat(*id).is_some_and(|stat| stat.parent == self.id)).filter_map(Self::find).collect()
    }

    /// Whether it still runs. A zombie has let go of its files, memory and ports.
    pub(crate) fn lives(self) -> bool {
        Self::find(self.id) == Some(self)
    }
}

/// Reads /proc/ID/stat; the name in parentheses may contain anything, so the fields are counted behind it.
fn stat(id: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat { state, parent, started })
}

/// Sends a signal to those of the processes that still live.
pub(crate) fn signal(name: &str, processes: &[ProcessIdentity]) -> Result<(), TestbedError> {
    let living = processes.iter().filter(|process| process.lives());
    let ids: Vec<String> = living.map(|process| process.id.to_string()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let line = format!("kill -{name} {}", ids.join(" "));
    // The exit code says nothing: a process may end by itself between the look and the signal.
    let sent = Command::new("sh").args(["-c", &line]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    sent.map(|_| ()).map_err(TestbedError::io(format!("cannot run `{line}`")))
}

/// Looks until `done` says so or the time is over; tells which of the two it was.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    loop {
        if done() {
            return true;
        }
        if begin.elapsed() > limit {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_killed_and_gone() {
        let mut child = Command::new("sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
        let ourselves = ProcessIdentity::find(std::process::id()).unwrap();
        let found = ProcessIdentity::find(child.id()).unwrap();
        assert!(ourselves.lives() && ourselves.children().contains(&found));
        signal("KILL", &[found]).unwrap();
        assert!(wait_until(Duration::from_secs(10), || !found.lives()));
        child.wait().unwrap();
    }
}

//! All processes of a child, wherever they went, and their end (E3).
//!
//! A process belongs to a child when it is in the child's group, descends from one that belongs, or carries the child's
//! mark in its environment, which a daemon that left group and parents still does. Signals go by handle, never to a
//! number that may have a new owner.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};

/// The variable that marks every process of a tree.
pub const MARK: &str = "BACKSTOP_RUN";

/// How often killing is tried: a killed process needs a moment to be gone, and longer when it waits for a disk.
const ROUNDS: u32 = 200;
/// How long between two tries.
const PAUSE: Duration = Duration::from_millis(2);

/// The processes of one child.
#[derive(Debug, Clone)]
pub struct ProcessTree {
    root: Pid,
    mark: String,
}

/// A process as the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    pid: i32,
    parent: i32,
    group: i32,
    /// When it began, in ticks since the machine's start: number and beginning together name a process for ever.
    begun: u64,
    alive: bool,
}

impl ProcessTree {
    /// The tree below `root`, which leads a process group and was not reaped yet.
    pub const fn new(root: Pid, mark: String) -> Self {
        Self { root, mark }
    }

    /// The number of the child itself.
    pub const fn root(&self) -> Pid {
        self.root
    }

    /// True when a process of it is left.
    pub fn any_alive(&self) -> bool {
        !self.alive().is_empty()
    }

    /// Asks the child alone to end: what it started is its own to end.
    pub fn terminate_root(&self) {
        // The number is the root's as long as that is not reaped.
        let _ = kill_process(self.root, Signal::TERM);
    }

    /// Asks all of them to end.
    pub fn terminate(&self) {
        // Its members first: one that ends on this may let its children go.
        let members = self.alive();
        // The group is the root's as long as that is not reaped.
        let _ = kill_process_group(self.root, Signal::TERM);
        let outside = members.iter().filter(|member| member.group != self.root.as_raw_nonzero().get());
        outside.for_each(|member| signal(member, Signal::TERM));
    }

    /// Kills all of them, and waits until they are gone.
    pub fn kill(&self) {
        for _ in 0..ROUNDS {
            if !self.strike() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Stops them one by one until none is left that could fork away, and kills all that were found. False when there
    /// was none.
    pub fn strike(&self) -> bool {
        let mut held: BTreeSet<Member> = BTreeSet::new();
        loop {
            let fresh: Vec<Member> =
                self.alive().into_iter().filter(|member| !held.iter().any(|it| it.is(member))).collect();
            if fresh.is_empty() {
                break;
            }
            fresh.iter().for_each(|member| signal(member, Signal::STOP));
            held.extend(fresh);
        }
        held.iter().for_each(|member| signal(member, Signal::KILL));
        !held.is_empty()
    }

    fn alive(&self) -> Vec<Member> {
        let root = self.root.as_raw_nonzero().get();
        let all: Vec<Member> = listed();
        // Nothing of a tree is older than its root.
        let begun = all.iter().find(|member| member.pid == root).map_or(0, |member| member.begun);
        let mut found: Vec<Member> = Vec::new();
        let mut rest: Vec<Member> = all.into_iter().filter(|member| member.begun >= begun).collect();
        rest.retain(|member| {
            let ours = member.pid == root || member.group == root || self.marked(member.pid);
            if ours {
                found.push(*member);
            }
            !ours
        });
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|member| member.pid) {
            let (children, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|member| member.parent == parent);
            found.extend(children);
            rest = others;
            next += 1;
        }
        found.retain(|member| member.alive);
        found
    }

    fn marked(&self, pid: i32) -> bool {
        // What cannot be read belongs to somebody else.
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
        let mark = format!("{MARK}={}", self.mark);
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    }
}

impl Member {
    fn is(&self, other: &Self) -> bool {
        (self.pid, self.begun) == (other.pid, other.begun)
    }

    /// Reads a line of `/proc/PID/stat`: the name stands in brackets and may hold anything, also brackets.
    fn read(pid: i32) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let line = String::from_utf8_lossy(&line);
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        Some(Self {
            pid,
            parent: number(1)?,
            group: number(2)?,
            begun: fields.get(19)?.parse().ok()?,
            alive: !matches!(*fields.first()?, "Z" | "X" | "x"),
        })
    }
}

/// Every process there is.
fn listed() -> Vec<Member> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(Member::read).collect()
}

/// Sends a signal to this very process, not to another that has got its number since.
fn signal(member: &Member, signal: Signal) {
    let Some(pid) = Pid::from_raw(member.pid) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if Member::read(member.pid).is_some_and(|now| now.is(member)) {
        let _ = pidfd_send_signal(handle, signal);
    }
}

//! Two engines, processes of both killed and stopped at random: each job that succeeds at the sender is one job at the
//! receiver, whatever was killed between the admission and the removal, and however often the receiver was full.

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use backstop::handoffs::{HandOff, HandOffView};
use backstop::prelude::*;
use backstop::query::PageRequest;
use backstop_chaos::handoff::{HandedJob, HandedOnJob, PORT, PUBLICATION};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::{Node, NodeStart};
use backstop_chaos::{rounds, seed};
use backstop_core::job::State;
use backstop_store::JobFilter;

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");
const LEASE_MS: u64 = 500;

/// How long the last jobs may take on a busy machine when the faults are over.
const PATIENCE: Duration = Duration::from_secs(120);

/// The processes of both ends. A receiver comes back where it was.
struct BothEnds<'a> {
    sender: &'a StoreLocation,
    receiver: &'a StoreLocation,
    port: String,
    senders: Vec<Node>,
    receivers: Vec<Node>,
}

impl BothEnds<'_> {
    fn start(&self, mode: &str) -> Node {
        let location = if mode == "handoff-send" { self.sender } else { self.receiver };
        NodeStart { mode, ..location.node(NODE, LEASE_MS) }.go_with(&[(PORT, &self.port)])
    }

    fn staff(&mut self) {
        self.senders = (0..2).map(|_| self.start("handoff-send")).collect();
        self.receivers = vec![self.start("handoff-receive")];
    }

    /// Kills a process of either end, or stops one for longer than its lease.
    async fn fault(&mut self, number: usize, dice: &mut fastrand::Rng) {
        match number % 4 {
            0 | 2 => {
                let victim = dice.usize(..self.senders.len());
                self.senders[victim].kill();
                self.senders[victim] = self.start("handoff-send");
            }
            1 => {
                self.receivers[0].kill();
                self.receivers[0] = self.start("handoff-receive");
            }
            _ => {
                let victim = dice.usize(..self.senders.len());
                self.senders[victim].signal("STOP");
                tokio::time::sleep(Duration::from_millis(dice.u64(LEASE_MS..3 * LEASE_MS))).await;
                self.senders[victim].signal("CONT");
            }
        }
        // A receiver that found its port taken for a moment has ended.
        if !self.receivers[0].is_alive() {
            self.receivers[0] = self.start("handoff-receive");
        }
    }
}

/// A port that is free now.
fn free_port() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port().to_string()
}

/// How many jobs of a kind there are, by what tells them apart, and how many of them have succeeded.
async fn jobs(
    engine: &Backstop,
    kind: &str,
    name: fn(&backstop_core::job::Spec) -> String,
) -> (BTreeMap<String, usize>, usize) {
    let filter = JobFilter { kind: Some(kind.to_owned()), ..JobFilter::default() };
    let (mut found, mut succeeded, mut page) = (BTreeMap::new(), 0, PageRequest::first(1_000));
    loop {
        let jobs = engine.jobs(filter.clone(), page).await.expect("the store can be read");
        for view in &jobs.items {
            *found.entry(name(&view.job.spec)).or_default() += 1;
            succeeded += usize::from(view.state() == State::Succeeded);
        }
        let Some(next) = jobs.next else { return (found, succeeded) };
        page = PageRequest { limit: 1_000, after: Some(next) };
    }
}

async fn submit(engine: &Backstop, numbers: std::ops::Range<u64>) {
    for number in numbers {
        engine.enqueue(HandedJob { number }).submit().await.expect("the store is there");
    }
}

async fn standing(engine: &Backstop) -> HandOffView {
    engine.handoffs().show(PUBLICATION).await.expect("read").expect("it is set")
}

async fn hand_off_under_faults(kind: StoreKind) {
    let faults = rounds(16, 1_000);
    let mut dice = fastrand::Rng::with_seed(seed());
    let (sender, receiver) = (StoreLocation::new(kind, "sender"), StoreLocation::new(kind, "receiver"));
    let (upstream, downstream) = (sender.open().await, receiver.open().await);
    let began = Instant::now();
    // Known before the first process starts: what ends earlier is not for it.
    let known = HandOff::new(PUBLICATION, "http://127.0.0.1").kind(HandedJob::KIND);
    upstream.handoffs().set(&known).await.expect("set");
    let (port, none) = (free_port(), Vec::new);
    let mut ends =
        BothEnds { sender: &sender, receiver: &receiver, port, senders: none(), receivers: none() };
    ends.staff();
    let mut submitted = 0;
    for fault in 0..faults {
        let burst = dice.u64(5..40);
        submit(&upstream, submitted..submitted + burst).await;
        submitted += burst;
        tokio::time::sleep(Duration::from_millis(dice.u64(50..500))).await;
        ends.fault(fault, &mut dice).await;
    }
    let (over, all) = (Instant::now(), usize::try_from(submitted).expect("a few"));
    let made = loop {
        let (made, succeeded) =
            jobs(&downstream, HandedOnJob::KIND, |spec| spec.idempotency_key.clone().unwrap_or_default())
                .await;
        if made.len() >= all && succeeded >= all {
            break made;
        }
        let view = standing(&upstream).await;
        assert!(
            over.elapsed() < PATIENCE,
            "{} of {all} are there, {succeeded} have run: {view:?}",
            made.len()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let (sent, _) =
        jobs(&upstream, HandedJob::KIND, |spec| format!("handoff:{PUBLICATION}:@job:{}", spec.id)).await;
    let drained = Instant::now();
    let view = loop {
        let view = standing(&upstream).await;
        if view.backlog.messages == 0 {
            break view;
        }
        assert!(drained.elapsed() < PATIENCE, "what the receiver has is not removed: {view:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    ends.senders.iter_mut().chain(&mut ends.receivers).for_each(Node::kill);
    let twice: Vec<_> = made.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "made more than once: {twice:?}");
    assert_eq!(made, sent, "one job there for each job here");
    let tally = &view.tally;
    assert_eq!((tally.refused, view.stop), (0, None), "nobody refused for good");
    assert!(tally.admitted <= submitted && tally.admitted + tally.duplicates >= submitted, "{tally:?}");
    println!(
        "{kind}: {faults} faults, {submitted} jobs handed off once each in {:.0?}; {} suppressed, {} refusals by \
         pressure, {} unanswered",
        began.elapsed(),
        tally.duplicates,
        tally.pressure,
        tally.unreachable
    );
}

#[tokio::test]
async fn both_ends_killed_hand_off_each_job_once_on_sqlite() {
    // B7, C6
    hand_off_under_faults(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn both_ends_killed_hand_off_each_job_once_on_postgres() {
    // B7, C6
    hand_off_under_faults(StoreKind::Postgres).await;
}

#[tokio::test]
async fn both_ends_killed_hand_off_each_job_once_on_mariadb() {
    // B7, C6
    hand_off_under_faults(StoreKind::Mariadb).await;
}

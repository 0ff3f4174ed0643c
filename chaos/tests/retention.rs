//! Processes killed while they archive, prune and purge: every job is in exactly one place (L16, D5, L10).

#![allow(clippy::print_stdout, reason = "a campaign reports its counts to the terminal of its test")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::{JobId, State};
use backstop_chaos::location::{StoreKind, StoreLocation};
use backstop_chaos::node::{Node, NodeStart};
use backstop_chaos::{rounds, seed};
use backstop_store::{JobFilter, PageRequest, Submit};

const NODE: &str = env!("CARGO_BIN_EXE_chaos-node");

/// The term of a duty: a process that was killed keeps others from its duties for that long.
const LEASE_MS: u64 = 150;

/// Jobs that end before each kill.
const STOCK: usize = 60;

/// A campaign stops here, however many kills it has made.
const PATIENCE: Duration = Duration::from_secs(25);

/// How long what a killed process had sent to a server may still be under way.
const IN_FLIGHT: Duration = Duration::from_secs(5);

#[derive(Serialize, Deserialize)]
struct End {
    well: bool,
}

impl Job for End {
    const KIND: &'static str = "end";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        if self.well { Ok(()) } else { Err(Outcome::permanent("it never works"))? }
    }
}

/// Where a job is. A job only ever moves down this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Hot,
    Archived,
    Gone,
}

/// A job whose end is known.
struct Ended {
    key: String,
    state: State,
    /// Where it was seen last.
    place: Place,
}

/// The campaign: a store, the jobs that it holds, and what was seen of them.
struct Campaign {
    location: StoreLocation,
    engine: Backstop,
    jobs: HashMap<JobId, Ended>,
    dice: fastrand::Rng,
}

impl Campaign {
    async fn new(kind: StoreKind) -> Self {
        let location = StoreLocation::new(kind, "retention");
        let engine = location.open().await;
        Self { location, engine, jobs: HashMap::new(), dice: fastrand::Rng::with_seed(seed()) }
    }

    /// Brings more jobs to their ends: some well, some badly, some canceled before they ran.
    async fn stock(&mut self) {
        let mut calls_off = Vec::new();
        let mut batch = Vec::new();
        for _ in 0..STOCK {
            let key = format!("k{:016x}", self.dice.u64(..));
            let state =
                [State::Succeeded, State::Succeeded, State::Failed, State::Canceled][self.dice.usize(..4)];
            let job = self.engine.enqueue(End { well: state == State::Succeeded }).idempotency_key(&*key);
            batch.push(job.max_retries(0).into_new_job().expect("admitted"));
            let id = batch[batch.len() - 1].spec.id;
            if state == State::Canceled {
                calls_off.push(id);
            }
            self.jobs.insert(id, Ended { key, state, place: Place::Hot });
        }
        let submit = Submit { jobs: batch, atomic: true };
        self.engine.store().submit(submit).await.expect("the store is there");
        for id in calls_off {
            self.engine.cancel(id, "before it ran").await.expect("it is there");
        }
        let worker = self.engine.worker(()).register::<End>().queue("default", 50).inline();
        worker.expect("a worker").drain(usize::MAX).await.expect("the store is there");
    }

    /// Starts a process, and kills it somewhere in its work.
    async fn kill_one(&mut self) {
        let mut node = self.start();
        tokio::time::sleep(Duration::from_micros(self.dice.u64(..400_000))).await;
        assert!(node.is_alive(), "it only ends when it is killed; see node.log");
        node.kill();
    }

    /// A process that has opened the store.
    fn start(&self) -> Node {
        let mut node = NodeStart { mode: "retire", ..self.location.node(NODE, LEASE_MS) }.go();
        let mut line = String::new();
        let said = node.child.stdout.take().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("it speaks");
        assert_eq!(line.trim(), "ready");
        node
    }

    /// Looks until everything is as it must be. What is wrong for longer than a transaction can be under way, is wrong,
    /// unless jobs still leave: then each look may fall between two of them.
    async fn check(&mut self) {
        let mut still = (Instant::now(), self.kept().await);
        loop {
            let wrong = match self.look().await {
                Ok(places) => return self.remember(places).await,
                Err(wrong) => wrong,
            };
            let kept = self.kept().await;
            if kept != still.1 {
                still = (Instant::now(), kept);
            }
            assert!(still.0.elapsed() < IN_FLIGHT, "{wrong}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The counts that are kept: succeeded, failed, canceled, and those that are still to run.
    async fn kept(&self) -> [u64; 4] {
        let queue = self.engine.queues().list().await.expect("readable").remove(0);
        [queue.succeeded, queue.failed, queue.canceled, queue.pending + queue.running]
    }

    /// Where every job is, or what is wrong with that.
    async fn look(&self) -> Result<HashMap<JobId, Place>, String> {
        let hot = hot(&self.engine).await;
        let archived = archived(&self.engine).await;
        let exported = exported(self.location.folder());
        let mut places = HashMap::new();
        for (id, job) in &self.jobs {
            let place = match (hot.get(id), archived.get(id)) {
                (Some(_), Some(_)) => return Err(format!("job {id} is hot and archived")),
                (Some(state), None) if *state == job.state => Place::Hot,
                (None, Some(state)) if *state == job.state => Place::Archived,
                (None, None) => Place::Gone,
                (hot, archived) => {
                    return Err(format!("job {id} is {hot:?} {archived:?}, not {}", job.state));
                }
            };
            if place < job.place {
                return Err(format!("job {id} was {:?} and is {place:?}", job.place));
            }
            if place == Place::Gone && job.state == State::Canceled {
                return Err(format!("job {id} never ran and is gone"));
            }
            if place == Place::Gone && job.state == State::Failed && !exported.contains(id) {
                return Err(format!("dead letter {id} is gone and in no export"));
            }
            places.insert(*id, place);
        }
        if hot.len() + archived.len() != places.values().filter(|place| **place != Place::Gone).count() {
            return Err("there are jobs that nobody submitted".to_owned());
        }
        self.recount(&hot).await.map(|()| places)
    }

    /// Compares the kept counts with the jobs that are there.
    async fn recount(&self, hot: &HashMap<JobId, State>) -> Result<(), String> {
        let mut counts: BTreeMap<State, u64> = BTreeMap::new();
        hot.values().for_each(|state| *counts.entry(*state).or_default() += 1);
        let count = |state| counts.get(&state).copied().unwrap_or(0);
        let kept = self.kept().await;
        let there = [count(State::Succeeded), count(State::Failed), count(State::Canceled), 0];
        if kept != there {
            return Err(format!("the queue counts {kept:?}, and there are {there:?}"));
        }
        let incidents = self.engine.incidents().list(10).await.expect("readable");
        let open: u64 = incidents.iter().map(|incident| incident.open).sum();
        if open != count(State::Failed) {
            return Err(format!("incidents count {open} open, and there are {}", count(State::Failed)));
        }
        Ok(())
    }

    /// Takes the places over; the keys of jobs that have moved must still answer.
    async fn remember(&mut self, places: HashMap<JobId, Place>) {
        let moved: Vec<JobId> =
            places.iter().filter(|(id, place)| self.jobs[*id].place != **place).map(|(id, _)| *id).collect();
        let again = moved.iter().map(|id| {
            let job = self.engine.enqueue(End { well: true }).idempotency_key(&*self.jobs[id].key);
            job.into_new_job().expect("admitted")
        });
        let submit = Submit { jobs: again.collect(), atomic: false };
        let answers = self.engine.store().submit(submit).await.expect("the store is there");
        for (id, answer) in moved.iter().zip(answers) {
            let answer = answer.expect("a known key is not a conflict");
            let expected = (*id, self.jobs[id].state, true);
            assert_eq!((answer.id, answer.state, answer.deduplicated), expected, "the key of job {id}");
        }
        for (id, place) in places {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.place = place;
            }
        }
    }

    fn count(&self, place: Place) -> usize {
        self.jobs.values().filter(|job| job.place == place).count()
    }
}

/// Every hot job, with its state.
async fn hot(engine: &Backstop) -> HashMap<JobId, State> {
    let (mut found, mut page) = (HashMap::new(), PageRequest::first(1_000));
    loop {
        let read = engine.jobs(JobFilter::default(), page).await.expect("readable");
        found.extend(read.items.iter().map(|view| (view.job.spec.id, view.record.state)));
        match read.next {
            Some(next) => page.after = Some(next),
            None => return found,
        }
    }
}

/// Every archived job, with its state.
async fn archived(engine: &Backstop) -> HashMap<JobId, State> {
    let (mut found, mut page) = (HashMap::new(), PageRequest::first(1_000));
    loop {
        let read = engine.archive().page(page).await.expect("readable");
        found.extend(read.items.iter().map(|(id, archived)| (*id, archived.state)));
        match read.next {
            Some(next) => page.after = Some(next),
            None => return found,
        }
    }
}

/// Every job with a whole line in an export. The last line of a killed process may be torn.
fn exported(folder: &Path) -> HashSet<JobId> {
    let mut found = HashSet::new();
    for file in std::fs::read_dir(folder).expect("the folder is there").flatten() {
        if file.path().extension().is_some_and(|ending| ending == "jsonl") {
            let text = std::fs::read_to_string(file.path()).expect("readable");
            for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let document: serde_json::Value = serde_json::from_str(line).expect("a whole line is JSON");
                let id = document["job"]["id"].as_str().and_then(|id| id.parse().ok());
                found.insert(id.expect("an export names its job"));
            }
        }
    }
    found
}

/// A process that archives, prunes and purges is killed again and again; after each kill all is where it must be.
async fn kill_while_jobs_leave(kind: StoreKind) {
    let kills = rounds(40, 500);
    let mut campaign = Campaign::new(kind).await;
    let began = Instant::now();
    let mut made = 0;
    while made < kills && (made < 10 || began.elapsed() < PATIENCE) {
        campaign.stock().await;
        campaign.kill_one().await;
        campaign.check().await;
        made += 1;
    }
    let midway = campaign.count(Place::Gone);
    // One that is left alone comes to the end: only what never ran stays.
    let never = campaign.jobs.values().filter(|job| job.state == State::Canceled).count();
    let last = campaign.start();
    while campaign.count(Place::Gone) + never < campaign.jobs.len() || campaign.count(Place::Hot) > 0 {
        assert!(began.elapsed() < PATIENCE * 4, "jobs are stuck on their way out");
        tokio::time::sleep(Duration::from_millis(100)).await;
        campaign.check().await;
    }
    drop(last);
    assert_eq!(campaign.count(Place::Archived), never);
    assert!(midway > 0, "the kills hit something");
    println!(
        "{kind}: {made} kills in {:.0?}: {} jobs, {midway} gone while processes were killed, {never} never ran and stay",
        began.elapsed(),
        campaign.jobs.len(),
    );
}

#[tokio::test]
async fn jobs_leave_one_place_for_the_next_on_sqlite() {
    // L16, D5, L10
    kill_while_jobs_leave(StoreKind::Sqlite).await;
}

#[tokio::test]
async fn jobs_leave_one_place_for_the_next_on_postgres() {
    // L16, D5, L10
    kill_while_jobs_leave(StoreKind::Postgres).await;
}

#[tokio::test]
async fn jobs_leave_one_place_for_the_next_on_mariadb() {
    // L16, D5, L10
    kill_while_jobs_leave(StoreKind::Mariadb).await;
}

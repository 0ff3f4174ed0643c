//! The order of news, step by step and in every order of steps.

use std::pin::{Pin, pin};
use std::task::Context;

use super::*;

const A: JobId = JobId::from_u128(1);
const B: JobId = JobId::from_u128(2);
const C: JobId = JobId::from_u128(3);

type Told = Arc<Mutex<Vec<u32>>>;

fn note(told: &Told, number: u32) -> impl FnOnce() + Send + 'static {
    let told = told.clone();
    move || told.lock().expect("no panic").push(number)
}

fn poll(future: Pin<&mut (impl Future<Output = ()> + ?Sized)>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn news_about_one_job_is_told_in_the_order_of_the_turns() {
    // V1: the second commits first, the third is rolled back.
    let (turns, told) = (CommitOrder::default(), Told::default());
    let (first, second, third, fourth) =
        (turns.draw([A]), turns.draw([A, B]), turns.draw([A]), turns.draw([A]));
    let mut late = pin!(fourth.tell(note(&told, 4)));
    let mut early = pin!(second.tell(note(&told, 2)));
    assert!(!poll(late.as_mut()) && !poll(early.as_mut()), "the first is still under way");
    assert!(told.lock().expect("no panic").is_empty());
    assert!(poll(pin!(first.tell(note(&told, 1)))));
    assert!(poll(early), "told with the one it waited for");
    assert!(!poll(late.as_mut()));
    drop(third);
    assert!(poll(late));
    assert_eq!(*told.lock().expect("no panic"), [1, 2, 4]);
}

#[test]
fn other_jobs_and_those_without_news_wait_for_nobody() {
    // V1: order is per job.
    let (turns, told) = (CommitOrder::default(), Told::default());
    let blocked = turns.draw([A]);
    assert!(poll(pin!(turns.draw([B]).tell(note(&told, 1)))));
    assert!(poll(pin!(turns.draw([]).tell(note(&told, 2)))));
    assert_eq!(*told.lock().expect("no panic"), [1, 2]);
    drop(blocked);
    let waiting = lock(&turns.0);
    assert!(waiting.turns.is_empty() && waiting.jobs.is_empty(), "nothing is kept of those that are over");
}

#[test]
fn news_is_told_also_when_its_caller_has_gone_away() {
    // V1
    let (turns, told) = (CommitOrder::default(), Told::default());
    let (first, second) = (turns.draw([A]), turns.draw([A]));
    drop(second.tell(note(&told, 2)));
    drop(first);
    assert_eq!(*told.lock().expect("no panic"), [2]);
}

/// What a transaction does, in this order: it locks its jobs and draws, it ends, its caller hands the news over. One that
/// is early knows what its jobs are like and draws; then it locks them and ends in one step, if nobody else has them
/// locked and they are still like that, and does nothing otherwise.
const STEPS: usize = 3;

/// The jobs of a transaction, whether it rolls back, and whether it is early.
type TransactionCase = (&'static [JobId], bool, bool);

/// A transaction of the exhaustive test.
struct Transaction {
    jobs: &'static [JobId],
    rolls_back: bool,
    early: bool,
    /// How often its jobs had been changed when it drew early.
    known: Vec<u32>,
    done: usize,
    turn: Option<Turn>,
    waits: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

/// The world of the exhaustive test: rows with locks, and who committed in which order.
struct World {
    turns: CommitOrder,
    told: Told,
    transactions: Vec<Transaction>,
    locked: BTreeSet<JobId>,
    /// How often each job was changed.
    edits: HashMap<JobId, u32>,
    commits: Vec<u32>,
}

impl World {
    fn new(about: &[TransactionCase]) -> Self {
        let each = |(jobs, rolls_back, early): &TransactionCase| Transaction {
            jobs,
            rolls_back: *rolls_back,
            early: *early,
            known: Vec::new(),
            done: 0,
            turn: None,
            waits: None,
        };
        Self {
            turns: CommitOrder::default(),
            told: Told::default(),
            transactions: about.iter().map(each).collect(),
            locked: BTreeSet::new(),
            edits: HashMap::new(),
            commits: Vec::new(),
        }
    }

    /// Takes the next step of a transaction; false when it has none, or waits for a lock.
    fn step(&mut self, who: usize) -> bool {
        let number = u32::try_from(who).expect("small");
        let of = &mut self.transactions[who];
        let edits: Vec<u32> =
            of.jobs.iter().map(|job| self.edits.get(job).copied().unwrap_or_default()).collect();
        match of.done {
            0 if of.early => {
                of.known = edits;
                of.turn = Some(self.turns.draw(of.jobs.iter().copied()));
            }
            1 if of.early && (of.jobs.iter().any(|job| self.locked.contains(job)) || of.known != edits) => {
                (of.rolls_back, of.turn) = (true, None);
            }
            0 if of.jobs.iter().any(|job| self.locked.contains(job)) => return false,
            0 => {
                self.locked.extend(of.jobs);
                of.turn = Some(self.turns.draw(of.jobs.iter().copied()));
            }
            1 => {
                self.locked.retain(|job| !of.jobs.contains(job));
                if !of.rolls_back {
                    self.commits.push(number);
                    of.jobs.iter().for_each(|job| *self.edits.entry(*job).or_default() += 1);
                }
            }
            2 => {
                let turn = of.turn.take().filter(|_| !of.rolls_back);
                of.waits = turn.map(|turn| Box::pin(turn.tell(note(&self.told, number))) as Pin<Box<_>>);
            }
            _ => return false,
        }
        self.transactions[who].done += 1;
        self.check(who);
        true
    }

    /// Only what depends waits: news about one of its jobs is not told yet.
    fn check(&mut self, who: usize) {
        let told = self.told.lock().expect("no panic").clone();
        for job in [A, B, C] {
            let about = |number: &&u32| self.transactions[**number as usize].jobs.contains(&job);
            let (told, commits): (Vec<&u32>, Vec<&u32>) =
                (told.iter().filter(about).collect(), self.commits.iter().filter(about).collect());
            assert_eq!(told[..], commits[..told.len()], "told in the order of its commits");
        }
        let jobs = self.transactions[who].jobs;
        let holds_up = |(other, of): (usize, &Transaction)| {
            let untold = of.waits.is_some() && !told.contains(&u32::try_from(other).expect("small"));
            other != who && (of.turn.is_some() || untold) && of.jobs.iter().any(|job| jobs.contains(job))
        };
        let is_alone = !self.transactions.iter().enumerate().any(holds_up);
        if let Some(waits) = self.transactions[who].waits.as_mut() {
            let ready = poll(waits.as_mut());
            assert!(ready || !is_alone, "transaction {who} waits for nobody");
        }
    }
}

/// Plays every order of steps that begins with `steps`; answers how many there are.
fn play(about: &[TransactionCase], steps: &mut Vec<usize>) -> usize {
    let mut world = World::new(about);
    if !steps.iter().all(|who| world.step(*who)) {
        return 0;
    }
    if steps.len() == about.len() * STEPS {
        assert_eq!(world.told.lock().expect("no panic").len(), world.commits.len(), "all is told");
        let waiting = lock(&world.turns.0);
        assert!(waiting.turns.is_empty() && waiting.jobs.is_empty());
        return 1;
    }
    let mut played = 0;
    for who in 0..about.len() {
        steps.push(who);
        played += play(about, steps);
        steps.pop();
    }
    played
}

#[test]
fn every_order_of_steps_keeps_the_order_of_each_job_and_holds_up_nobody_else() {
    // V1
    let sets: [&'static [JobId]; 3] = [&[A], &[A, B], &[B, C]];
    let mut played = 0;
    for first in sets {
        for second in sets {
            for third in sets {
                for rolls_back in [None, Some(0)] {
                    let about: Vec<_> = [first, second, third]
                        .into_iter()
                        .enumerate()
                        .map(|(who, jobs)| (jobs, rolls_back == Some(who), false))
                        .collect();
                    played += play(&about, &mut Vec::new());
                }
            }
        }
    }
    assert!(played > 10_000, "{played} orders");
}

#[test]
fn who_draws_before_its_statement_tells_in_the_order_of_the_commits_too() {
    // V1
    let sets: [&'static [JobId]; 3] = [&[A], &[A, B], &[A]];
    let mut played = 0;
    for early in 1..8_u32 {
        for rolls_back in [None, Some(0)] {
            let of = |(who, jobs): (usize, &'static [JobId])| {
                (jobs, rolls_back == Some(who), (early >> who) & 1 == 1)
            };
            let about: Vec<TransactionCase> = sets.into_iter().enumerate().map(of).collect();
            played += play(&about, &mut Vec::new());
        }
    }
    assert!(played > 10_000, "{played} orders");
}

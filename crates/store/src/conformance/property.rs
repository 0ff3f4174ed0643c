//! The property that makes stores equal: whatever is played, each answers what the model answers.

use std::fmt;

use backstop_core::event::Event;

use super::command::ScriptCommand;
use super::fixture::Fixture;
use super::place::{MemoryPlace, StorePlace};
use super::script::{QUEUES, Script};
use super::snapshot;
use crate::{Clock, ManualClock};

/// Where a store first differed from the model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Divergence {
    /// The seed that replays it.
    pub seed: u64,
    /// What was played, up to the command whose answer differed.
    pub steps: Vec<String>,
    /// What was looked at.
    pub subject: String,
    /// What the model said.
    pub model: String,
    /// What the other store said.
    pub other: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} differs from the model after {} steps:", self.seed, self.steps.len())?;
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "{number:>4} {step}")?;
        }
        writeln!(f, "{}\n  model: {}\n  other: {}", self.subject, self.model, self.other)?;
        write!(f, "replay it with BACKSTOP_SEED={}", self.seed)
    }
}

impl std::error::Error for Divergence {}

/// Plays `steps` random commands on the model and on a store of `P`, and compares every answer, every event and
/// the whole state at the end. Answers what was played, with every answer.
///
/// # Errors
/// The first [`Divergence`].
pub fn compare<P: StorePlace>(seed: u64, steps: usize) -> Result<Vec<String>, Box<Divergence>> {
    P::block_on(async {
        let clock = ManualClock::default();
        let model = Fixture::fresh_at::<MemoryPlace>(clock.clone()).await;
        let other = Fixture::fresh_at::<P>(clock.clone()).await;
        let script = Script::new(seed, clock.now());
        Match { seed, script, model, other, played: Vec::new() }.play(steps).await
    })
}

/// Both stores, side by side.
struct Match {
    seed: u64,
    script: Script,
    model: Fixture,
    other: Fixture,
    played: Vec<String>,
}

impl Match {
    async fn play(mut self, steps: usize) -> Result<Vec<String>, Box<Divergence>> {
        for _ in 0..steps {
            let command = self.script.next();
            self.played.push(format!("{command:?}"));
            if let ScriptCommand::Advance(span) = command {
                self.model.pass(span);
                self.script.now = self.model.now();
            }
            if let ScriptCommand::Reopen = command {
                self.model = self.model.reopen().await;
                self.other = self.other.reopen().await;
            }
            let (expected, learned) = command.play(&*self.model.store).await;
            let (found, _) = command.play(&*self.other.store).await;
            self.script.learn(learned);
            self.same("the answer", &expected, &found)?;
            let (told, heard) = (by_job(self.model.told.take()), by_job(self.other.told.take()));
            self.same("the events", &told, &heard)?;
            if let Some(step) = self.played.last_mut() {
                *step = format!("{step} => {expected}");
            }
        }
        let state = self.same_state().await?;
        self.played.push(format!("the whole state => {state:?}"));
        Ok(self.played)
    }

    async fn same_state(&self) -> Result<Vec<(String, String)>, Box<Divergence>> {
        let mut named = self.script.jobs.clone();
        named.sort_unstable();
        named.dedup();
        let expected = snapshot::whole(&*self.model.store, &QUEUES, &named).await;
        let found = snapshot::whole(&*self.other.store, &QUEUES, &named).await;
        for ((subject, expected), (_, found)) in expected.iter().zip(&found) {
            self.same(subject, expected, found)?;
        }
        self.same("the number of things known", &expected.len().to_string(), &found.len().to_string())?;
        Ok(expected)
    }

    fn same(&self, subject: &str, model: &str, other: &str) -> Result<(), Box<Divergence>> {
        if model == other {
            return Ok(());
        }
        Err(Box::new(Divergence {
            seed: self.seed,
            steps: self.played.clone(),
            subject: subject.to_owned(),
            model: model.to_owned(),
            other: other.to_owned(),
        }))
    }
}

/// Events as text, in order per job: that is what is promised, whatever happened between jobs of one commit (V1).
fn by_job(mut events: Vec<Event>) -> String {
    events.sort_by_key(|event| event.job.as_ref().map(|header| header.id));
    format!("{events:?}")
}

/// Compares a store with the model over many seeds.
///
/// `BACKSTOP_SEED` replays one seed; `BACKSTOP_TORTURE=1` plays many more and longer ones.
///
/// # Panics
/// On the first divergence, with the shortest run of its seed that shows it.
pub fn property<P: StorePlace>() {
    const SHORT: usize = 160;
    const LONG: usize = 250;
    if let Ok(seed) = std::env::var("BACKSTOP_SEED") {
        let seed =
            seed.parse().unwrap_or_else(|_| panic!("BACKSTOP_SEED is `{seed}`, which is not a number"));
        expect_same::<P>(seed, SHORT);
        expect_same::<P>(seed, LONG);
        return;
    }
    let torture = std::env::var("BACKSTOP_TORTURE").is_ok_and(|value| value == "1");
    let (seeds, steps) = if torture { (3_000, LONG) } else { (P::SEEDS, SHORT) };
    for seed in 1..=seeds {
        expect_same::<P>(seed, steps);
    }
}

fn expect_same<P: StorePlace>(seed: u64, steps: usize) {
    let Err(found) = compare::<P>(seed, steps) else { return };
    // The same seed plays the same commands, so every shorter run is a beginning of the longer one.
    let shortest = (1..found.steps.len()).find_map(|fewer| compare::<P>(seed, fewer).err());
    panic!("{}", shortest.unwrap_or(found));
}

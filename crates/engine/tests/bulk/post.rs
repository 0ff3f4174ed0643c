//! A bulk kind that does what the payloads of its jobs say, and remembers its calls.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop::bulk::{BulkContext, BulkItem, BulkJob, BulkSettings};
use backstop::prelude::*;
use tokio::sync::Semaphore;

/// What its calls leave behind.
pub(crate) struct Desk {
    /// The names of the jobs of each call.
    calls: Mutex<Vec<Vec<String>>>,
    /// A call with a job that says `waits` or `tail` needs one to go on.
    pub(crate) permits: Semaphore,
    /// Jobs that were told to stop when their call went on.
    pub(crate) told: Mutex<Vec<String>>,
    /// Calls that were dropped while they hung.
    pub(crate) dropped: AtomicUsize,
    /// Calls that did something after their last answer, to its end.
    pub(crate) tails: AtomicUsize,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            calls: Mutex::default(),
            permits: Semaphore::new(0),
            told: Mutex::default(),
            dropped: AtomicUsize::new(0),
            tails: AtomicUsize::new(0),
        }
    }
}

impl Desk {
    /// The calls so far, each with the names of its jobs in order.
    pub(crate) fn calls(&self) -> Vec<Vec<String>> {
        self.calls.lock().expect("no panic").clone()
    }

    /// How many jobs each call had.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.calls().iter().map(Vec::len).collect()
    }
}

/// Counts a call that is dropped.
struct Hanging<'a>(&'a Desk);

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// One job of it.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Post {
    pub(crate) name: String,
    /// One word a run; the last one repeats.
    pub(crate) does: Vec<String>,
}

pub(crate) fn post(name: impl ToString, does: &[&str]) -> Post {
    Post { name: name.to_string(), does: does.iter().map(ToString::to_string).collect() }
}

impl Post {
    fn word(item: &BulkItem<Self>) -> String {
        let does = &item.job().does;
        does[(item.run_number() as usize - 1).min(does.len() - 1)].clone()
    }
}

/// What every job of a call suffers because of one of them.
async fn suffer(desk: &Desk, words: &[String]) -> JobResult {
    for word in words {
        match word.as_str() {
            "breaks" => return Err("a bad row".into()),
            "breaks_for_good" => return Err(Outcome::permanent("a row that cannot be").into()),
            "panics" => panic!("out of cheese"),
            "hangs" => {
                let _hanging = Hanging(desk);
                std::future::pending::<()>().await;
            }
            "away" => return Err(Outcome::transient("db").into()),
            "waits" => desk.permits.acquire().await?.forget(),
            _ => {}
        }
    }
    Ok(())
}

impl BulkJob for Post {
    const KIND: &'static str = "post";
    type Context = Desk;
    type Output = JobResult<String>;

    async fn run(jobs: Vec<BulkItem<Self>>, cx: BulkContext<Desk>) -> JobResult {
        let names: Vec<String> = jobs.iter().map(|item| item.job().name.clone()).collect();
        cx.app().calls.lock().expect("no panic").push(names);
        let words: Vec<String> = jobs.iter().map(Self::word).collect();
        // Some are answered before anything can go wrong with the others.
        let (early, others): (Vec<_>, Vec<_>) =
            jobs.into_iter().zip(words).partition(|(_, word)| word == "early");
        early.into_iter().for_each(|(item, _)| item.answer(Ok("early".to_owned())));
        let words: Vec<String> = others.iter().map(|(_, word)| word.clone()).collect();
        suffer(cx.app(), &words).await?;
        let tail = words.iter().any(|word| word == "tail");
        for (item, word) in others {
            item.log(format!("run {} does {word}", item.run_number()));
            if item.is_canceled() {
                cx.app().told.lock().expect("no panic").push(item.job().name.clone());
            }
            match word.as_str() {
                "error" => item.answer(Err("no such street".into())),
                "permanent" => item.answer(Err(Outcome::permanent("no such town").into())),
                "snooze" => item.answer(Err(Outcome::snooze(Duration::from_secs(60)).into())),
                "again" => item.answer(Err(Outcome::snooze(Duration::ZERO).into())),
                "called_off" => {
                    cx.engine().cancel(item.id(), "too late").await?;
                    item.cancellation().cancelled().await;
                    item.answer(Ok("nobody hears this".to_owned()));
                }
                "cancel" => item.answer(Err(Outcome::cancel("nobody wants it").into())),
                "silent" => drop(item),
                _ => {
                    let name = item.job().name.clone();
                    item.answer(Ok(name));
                }
            }
        }
        if tail {
            cx.app().permits.acquire().await?.forget();
            cx.app().tails.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn bulk() -> BulkSettings {
        BulkSettings::default().most(16).wait(Duration::from_millis(200))
    }

    fn validate(&self) -> Result<(), String> {
        if self.name.is_empty() { Err("it has no name".into()) } else { Ok(()) }
    }
}

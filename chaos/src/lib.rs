//! Fault campaigns and hostile input against real processes, real files and real database servers.
//!
//! # Layout
//! - [`location`], [`replicas`]: where a campaign takes place. [`node`], [`group`]: its processes, killed and drained.
//! - [`processes`]: API-only servers and remote workers instead. [`remote`]: such a worker; [`http`]: how it speaks.
//! - [`work`], [`client`]: what they run and submit. [`journal`]: what each writes outside the store.
//! - [`journal_layer`]: the layer over a store that writes the journal. [`stall`]: how long a campaign waits.
//! - [`checker`]: compares the journals with the store when the faults are over.
//! - [`sabotage`], [`planted`]: bugs put into a store on purpose, and the campaign in which the checker must find them.
//! - [`crash`]: processes killed at named points, and what was found afterwards.
//! - [`fleet`]: processes of which some are broken. [`suspects`]: jobs that die together, of which one is to blame.
//! - [`steps`]: jobs with durable steps. [`errand`]: jobs with steps, signals and rejects. [`outside`]: jobs with an
//!   effect. [`together`]: jobs that are handled many at a time. [`partner`]: jobs that call somebody who may be down.
//! - [`branches`], [`joining`], [`driven`]: steps of workflows that follow predicates or many others, and those that
//!   are dead until they are driven again.
//! - [`handoff`]: one engine that hands its finished jobs on to another.
//! - [`stepped`]: stores whose clock is put forth and back.
//! - [`hostile`]: strings that have broken other systems. [`secrets`]: what nothing may tell.

#![allow(clippy::print_stdout, reason = "a campaign reports to the terminal of its test")]

pub mod branches;
pub mod checker;
pub mod client;
pub mod crash;
pub mod driven;
pub mod errand;
pub mod fleet;
pub mod group;
pub mod handoff;
pub mod hostile;
pub mod http;
pub mod joining;
pub mod journal;
pub mod journal_layer;
pub mod location;
pub mod node;
pub mod outside;
pub mod partner;
pub mod planted;
pub mod processes;
pub mod remote;
pub mod replicas;
pub mod sabotage;
pub mod secrets;
pub mod shape;
pub mod stall;
pub mod stepped;
pub mod steps;
pub mod suspects;
pub mod together;
pub mod work;

/// How many rounds a campaign runs: `quick` in the ordinary tests, `full` under `cargo xtask torture`.
#[must_use]
pub fn rounds(quick: usize, full: usize) -> usize {
    if std::env::var_os("BACKSTOP_TORTURE").is_some() { full } else { quick }
}

/// The seed of a random campaign, from BACKSTOP_SEED or the clock; it is printed so that a failure can be replayed.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var("BACKSTOP_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    println!("seed {seed}: set BACKSTOP_SEED={seed} to replay");
    seed
}

/// A fresh folder under the system's temporary one; removed when dropped, unless the test failed.
#[derive(Debug)]
pub struct CampaignFolder(std::path::PathBuf);

impl CampaignFolder {
    /// Makes it.
    ///
    /// # Panics
    /// When the temporary folder cannot be written.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!(
            "backstop-{name}-{}-{}",
            std::process::id(),
            fastrand::u32(..)
        ));
        std::fs::create_dir_all(&path).expect("the temporary folder can be written");
        Self(path)
    }

    /// A path inside it.
    #[must_use]
    pub fn join(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for CampaignFolder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the files of the failed test are kept in {}", self.0.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

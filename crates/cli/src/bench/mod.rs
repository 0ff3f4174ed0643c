//! The measures of `backstop bench`: what hand-written SQL can do on this machine, and how near Backstop comes.
//!
//! Every figure is measured when it is asked for, on fresh files with synchronous=FULL. Floor and Backstop take turns,
//! so that a machine that slows down slows both.
//! - [`enqueue`], [`drain`], [`single`], [`latency`], [`isolated`], [`workflows`], [`schedules`],
//!   [`backlog`]: one measure each.
//! - [`server`]: workflows on a database server, run by processes of their own.
//! - [`bridges`]: messages of brokers that are named, in and out.
//! - [`sizes`]: how much work, and what each measure needs to count it. [`workload`]: the job that does nothing.
//!   [`report`]: the table. [`folder`]: the directory of the files.

mod backlog;
mod bridges;
mod drain;
mod enqueue;
mod folder;
mod isolated;
mod latency;
mod report;
mod schedules;
mod server;
mod single;
mod sizes;
mod workflows;
mod workload;

use clap::ValueEnum;

pub(crate) use backlog::child;
pub(crate) use bridges::measure as measure_bridges;
pub(crate) use folder::BenchFolder;
pub(crate) use isolated::serve;
pub(crate) use report::{BenchFigure, table};
pub(crate) use server::{BenchServer, work};
pub(crate) use sizes::BenchSizes;
pub(crate) use workflows::{WorkflowPlace, measure as measure_workflows};

use crate::problem::Problem;

/// The measures by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchMeasure {
    /// Bulk enqueue in batches.
    Enqueue,
    /// Claim, run and complete with full history.
    Drain,
    /// Single submits from many tasks, each acknowledged.
    Single,
    /// From submit to the start of the handler on an idle engine.
    Latency,
    /// What a process of its own costs a run.
    Isolated,
    /// Steps of workflows and jobs of a batch beside jobs of their own.
    Workflows,
    /// Ten thousand schedules that are due at once.
    Schedules,
    /// A large backlog against a small one, and peak memory.
    Backlog,
}

impl BenchMeasure {
    /// Measures, calling `step` with what it is about to do.
    pub(crate) async fn take(
        self,
        sizes: &BenchSizes,
        place: &BenchFolder,
        step: &dyn Fn(&str),
    ) -> Result<Vec<BenchFigure>, Problem> {
        match self {
            Self::Enqueue => enqueue::measure(sizes, place, step).await,
            Self::Drain => drain::measure(sizes, place, step).await,
            Self::Single => single::measure(sizes, place, step).await,
            Self::Latency => latency::measure(sizes, place, step).await,
            Self::Isolated => isolated::measure(sizes, place, step).await,
            Self::Workflows => workflows::measure(sizes, WorkflowPlace::Files(place), step).await,
            Self::Schedules => schedules::measure(sizes, place, step).await,
            Self::Backlog => backlog::measure(sizes, place, step).await,
        }
    }
}

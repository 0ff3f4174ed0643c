//! The crash matrix of docs/guarantees.md, from the figures that its run has kept.
//!
//! Owns the words of the table. The figures come from `cargo xtask torture matrix`; the short form of the same tests,
//! which is part of `cargo xtask test`, fails when a kill leaves anything else behind.

use std::fs;

use crate::error::TaskError;
use crate::process::repository_root;

const PAGE: &str = "docs/guarantees.md";
const FIGURES: &str = "chaos/crash-matrix.tsv";
const STORES: [&str; 3] = ["SQLite", "PostgreSQL", "MariaDB"];

/// A moment at which processes are killed, in words.
struct Point {
    name: &'static str,
    what: &'static str,
    /// What keeps the promise when a worker dies that has the store.
    worker: &'static str,
    /// The same when a server or a remote worker dies; none where neither is killed.
    servers: Option<&'static str>,
    /// What happens there, where it is something else.
    servers_what: Option<&'static str>,
}

const POINTS: [Point; 8] = [
    Point {
        name: "before_commit",
        what: "Before the transition commits: the end of a run is written, its COMMIT has not reached the database",
        worker: "The end of a run is one transaction. The lease expires, the run ends as a crash, the job runs again",
        servers: Some(
            "The server dies; the worker repeats its report to the other one, under the same lease",
        ),
        servers_what: None,
    },
    Point {
        name: "after_commit",
        what: "After the commit, before the next dispatch: nobody was told that the run has ended",
        worker: "What is committed is not run again, whether or not anybody was told",
        servers: Some("The server dies; the repeated report is answered as the first would have been"),
        servers_what: None,
    },
    Point {
        name: "retry_scheduling",
        what: "During retry scheduling of a job that fails once: in the middle of a statement, and before the COMMIT",
        worker: "Failure, retry and incident are one transaction. The attempt is charged when it commits, and once",
        servers: Some(
            "The server dies; the worker repeats its report to the other one. The attempt is charged once",
        ),
        servers_what: None,
    },
    Point {
        name: "after_effect",
        what: "After the external effect, before the commit: the handler has done its work and has not returned",
        worker: "At least once: the job runs again. `effect_key()` is the same in every run; give it to the other side",
        servers: Some("The worker dies. The job's id is the same in every run; give it to the other side"),
        servers_what: None,
    },
    Point {
        name: "lease_held",
        what: "Worker dead with the lease held: the handler has begun",
        worker: "The start was counted before the handler began. The lease expires, and the job runs again",
        servers: Some(
            "The worker dies. The servers end its lease when it has expired, and the job runs again",
        ),
        servers_what: None,
    },
    Point {
        name: "mid_batch",
        what: "Mid-batch: in the middle of 40 submits, at three different statements",
        worker: "A batch is one transaction: nothing of it was stored. Repeated with its keys, it was stored once",
        servers: Some("The server dies; the worker repeats its report to the other one. Each run ended once"),
        servers_what: Some("Mid-batch: in the middle of 4 endings that were reported in one call"),
    },
    Point {
        name: "mid_migration",
        what: "Mid-migration: at the 1st, 2nd, … 20th CREATE of an empty store",
        worker: "Version and tables are one transaction, or every statement can be run again. Afterwards all tables \
            and indexes were there, and jobs ran",
        servers: None,
        servers_what: None,
    },
    Point {
        name: "mid_upgrade",
        what: "Mid-migration of an older store: at the 1st, 2nd, … 14th statement about a table, while a store of the \
            first version with 5 jobs in it is brought to this one",
        worker: "Version and tables are one transaction, or every statement can be run again. Afterwards the migration \
            had ended, and the jobs that were there before ran",
        servers: None,
        servers_what: None,
    },
];

/// What was found at one point on one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Figures {
    kills: u64,
    jobs: u64,
    runs: u64,
    rescued: u64,
    duplicates: u64,
}

impl Figures {
    fn parse(line: &str) -> Option<(&str, Self)> {
        let mut fields = line.rsplitn(6, '\t');
        let mut number = || fields.next()?.parse().ok();
        let (duplicates, rescued, runs, jobs, kills) =
            (number()?, number()?, number()?, number()?, number()?);
        Some((fields.next()?, Self { kills, jobs, runs, rescued, duplicates }))
    }

    /// What was found, in words.
    fn found(self) -> String {
        let Self { jobs, runs, rescued, .. } = self;
        match rescued {
            0 => format!("{jobs} of {jobs} jobs succeeded in {runs} runs, none taken back"),
            _ => format!(
                "{jobs} of {jobs} jobs succeeded in {runs} runs, {rescued} of them taken back from the dead"
            ),
        }
    }

    fn duplicates(self) -> String {
        match self.duplicates {
            0 => "none".to_owned(),
            some => format!("{some}, under the same key"),
        }
    }
}

/// The page, with the tables as the figures have them.
pub(crate) fn page() -> Result<String, TaskError> {
    let read = |path: &str| {
        fs::read_to_string(repository_root().join(path))
            .map_err(|error| TaskError::Failed(format!("cannot read {path}: {error}")))
    };
    let (mut text, figures) = (read(PAGE)?, read(FIGURES)?);
    for (who, safeguard) in [
        ("worker", (|point: &Point| Some(point.worker)) as fn(&Point) -> Option<&'static str>),
        ("servers", |point: &Point| point.servers),
    ] {
        text = filled(&text, who, &table(&figures, who, safeguard)?)?;
    }
    Ok(text)
}

fn table(
    figures: &str,
    who: &str,
    safeguard: fn(&Point) -> Option<&'static str>,
) -> Result<String, TaskError> {
    let mut table =
        "| crash point | kills | found after restart | duplicates seen | safeguard |\n|---|---|---|---|---|\n"
            .to_owned();
    for point in &POINTS {
        let Some(safeguard) = safeguard(point) else { continue };
        let (stores, found) = agreed(figures, who, point.name)?;
        let told = point.servers_what.filter(|_| who == "servers");
        let (kills, what) = (found.kills, told.unwrap_or(point.what));
        table += &format!(
            "| `{}`. {what} | {kills} on each of {stores} | {} | {} | {safeguard} |\n",
            point.name,
            found.found(),
            found.duplicates()
        );
    }
    Ok(table)
}

/// What was found at a point on every store: the same, or the page would have to say more than it does.
fn agreed(figures: &str, who: &str, point: &str) -> Result<(String, Figures), TaskError> {
    let of = |store: &str| {
        let key = format!("{who}\t{store}\t{point}");
        figures
            .lines()
            .filter_map(Figures::parse)
            .find(|(found, _)| *found == key)
            .map(|(_, figures)| figures)
    };
    let missing = |store: &str| {
        TaskError::Failed(format!(
            "{FIGURES} says nothing of {who}, {store}, {point}; run `cargo xtask torture matrix`"
        ))
    };
    let first = of(STORES[0]).ok_or_else(|| missing(STORES[0]))?;
    for store in STORES {
        if of(store).ok_or_else(|| missing(store))? != first {
            let told = format!("{FIGURES}: {store} differs from {} at {point} ({who})", STORES[0]);
            return Err(TaskError::Failed(told));
        }
    }
    Ok((STORES.join(", "), first))
}

/// The page with a table between the two lines that mark its place.
fn filled(text: &str, who: &str, table: &str) -> Result<String, TaskError> {
    let (begin, end) = (format!("<!-- {who}: generated -->\n"), format!("<!-- {who}: end -->"));
    let parts = text.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) =
        parts.ok_or_else(|| TaskError::Failed(format!("{PAGE} has no place for `{who}`")))?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_figures_is_read_from_its_end() {
        let (key, figures) = Figures::parse("worker\tSQLite\tbefore_commit\t20\t20\t40\t20\t20").unwrap();
        assert_eq!(key, "worker\tSQLite\tbefore_commit");
        assert_eq!(figures, Figures { kills: 20, jobs: 20, runs: 40, rescued: 20, duplicates: 20 });
        assert_eq!(figures.duplicates(), "20, under the same key");
        assert_eq!(Figures::parse("worker\tSQLite\tbefore_commit\t20\t20\t40"), None);
    }

    #[test]
    fn stores_that_differ_are_not_put_into_one_row() {
        let line = |store: &str, runs: u32| format!("worker\t{store}\tlease_held\t20\t20\t{runs}\t20\t0\n");
        let same = STORES.map(|store| line(store, 40)).concat();
        assert!(agreed(&same, "worker", "lease_held").is_ok());
        let other = same.replace(&line("MariaDB", 40), &line("MariaDB", 41));
        let told = agreed(&other, "worker", "lease_held").unwrap_err().to_string();
        assert!(told.contains("MariaDB differs"), "{told}");
        let told = agreed(&line("SQLite", 40), "worker", "lease_held").unwrap_err().to_string();
        assert!(told.contains("says nothing of worker, PostgreSQL"), "{told}");
    }

    #[test]
    fn a_table_takes_the_place_of_the_one_before() {
        let page = "a\n<!-- worker: generated -->\nold\n<!-- worker: end -->\nb\n";
        let new = "a\n<!-- worker: generated -->\nnew\n<!-- worker: end -->\nb\n";
        assert_eq!(filled(page, "worker", "new\n").unwrap(), new);
        assert!(filled(page, "servers", "new\n").is_err());
    }
}

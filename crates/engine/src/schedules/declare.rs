//! Schedules that a program or a settings file declares, all of them at once.

use std::collections::BTreeMap;

use backstop_core::Timestamp;
use backstop_core::schedule::{self, Schedule, ScheduleOwner};
use backstop_store::Edit;

use super::stored::{self, StoredSchedule};
use super::{MOST, ScheduleProblem, ScheduleSettings, Schedules, TRIES, made, pause, set_over};
use crate::submit::Enqueue;

/// Schedules that are written at once.
const BATCH: usize = 500;

/// What is declared, by name.
type Declared = BTreeMap<String, (Option<bool>, Schedule)>;

impl Schedules<'_> {
    /// Declares the schedules of a program, all of them: what this owner declared before and does not any more is
    /// removed, what is new is set, and what stays the same goes on as it was, with a pause that a person asked for.
    ///
    /// Call it when the program starts. A schedule of this name that another owner has is left as it is, and the whole
    /// declaration is refused. Of a program with an empty list all are removed. Two programs that declare as the same
    /// owner and not the same schedules remove each other's: give each an owner of its own.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use std::time::Duration;
    /// use backstop::schedules::{ScheduleOwner, ScheduleSettings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let nightly = (ScheduleSettings::cron("0 3 * * *"), engine.enqueue_raw("report", "{}"));
    /// let sweep = (ScheduleSettings::every(Duration::from_secs(90)), engine.enqueue_raw("sweep", "{}"));
    /// let owner = ScheduleOwner::Code("billing".into());
    /// engine.schedules().declare(owner, [("nightly", nightly), ("sweep", sweep)]).await?;
    /// assert_eq!(engine.schedules().count().await?, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When one cannot be meant or has another owner, there are too many, or the store is away.
    pub async fn declare<'n, T>(
        self,
        owner: ScheduleOwner,
        schedules: impl IntoIterator<Item = (&'n str, (ScheduleSettings, Enqueue<T>))>,
    ) -> Result<(), ScheduleProblem> {
        let mut declared = Declared::new();
        for (name, (settings, job)) in schedules {
            schedule::check_name(name, &self.parts.config.limits)?;
            declared.insert(name.to_owned(), (settings.paused, made(settings, job)?));
        }
        let store = &*self.parts.store;
        for _ in 0..TRIES {
            let mut mark = stored::mark(store).await?;
            let (now, found) = stored::all(store).await?;
            let edits = edits(&owner, &declared, &found, now)?;
            let new = edits.iter().filter(|edit| edit.expect == backstop_store::Expect::Absent).count();
            if mark.count + new > MOST && new > 0 {
                return Err(ScheduleProblem::TooMany);
            }
            let mut all_written = true;
            for batch in edits.chunks(BATCH) {
                all_written = stored::change(store, mark, batch.to_vec()).await?;
                if !all_written {
                    break;
                }
                tell_removed(&owner, batch);
                mark = stored::mark(store).await?;
            }
            if all_written {
                self.parts.schedules_changed.notify_one();
                return Ok(());
            }
        }
        let name = declared.into_keys().next().unwrap_or_default();
        Err(ScheduleProblem::Changing(name))
    }
}

/// What has to be written so that the store says what is declared.
fn edits(
    owner: &ScheduleOwner,
    declared: &Declared,
    found: &[StoredSchedule],
    now: Timestamp,
) -> Result<Vec<Edit>, ScheduleProblem> {
    let known: BTreeMap<&str, &StoredSchedule> = found.iter().map(|one| (&*one.name, one)).collect();
    let mut edits = Vec::new();
    for (name, (paused, schedule)) in declared {
        let before = known.get(&**name).copied();
        if let Some(before) = before.filter(|before| before.body.owner != *owner) {
            return Err(ScheduleProblem::Owned { name: name.clone(), owner: before.body.owner.clone() });
        }
        let mut body = set_over(before.map(|one| &one.body), schedule.clone(), owner.clone(), now);
        if before.is_none() {
            // Later a person decides: a restart neither pauses nor resumes.
            pause(&mut body.state, *paused, &owner.to_string(), now);
        }
        if before.is_none_or(|before| before.body != body) {
            edits.push(stored::edit(name, before.map(|one| one.revision), Some(&body)));
        }
    }
    for gone in found.iter().filter(|one| one.body.owner == *owner && !declared.contains_key(&one.name)) {
        edits.push(stored::edit(&gone.name, Some(gone.revision), None));
    }
    Ok(edits)
}

/// Tells of schedules that were removed, and how that may be a mistake.
fn tell_removed(owner: &ScheduleOwner, written: &[Edit]) {
    let removed: Vec<&str> =
        written.iter().filter(|edit| edit.body.is_none()).map(|edit| &*edit.key).collect();
    if removed.is_empty() {
        return;
    }
    let hint = match owner {
        ScheduleOwner::Settings => {
            "if another program with a settings file of its own declares them, each start removes the schedules of the \
             other: keep all of them in one file, or declare them in code under the name of each program"
        }
        ScheduleOwner::Code(_) | ScheduleOwner::Api => {
            "if another program declares them as the same owner, each start removes the schedules of the other: give \
             each program a name of its own"
        }
    };
    let schedules = removed.join(", ");
    tracing::warn!(schedules, %owner, hint, "schedules that their owner does not declare any more were removed");
}

//! Schedules (W11): jobs that are submitted again and again, each fire time once, whoever fires.
//!
//! What is decided is in `backstop_core::schedule`; who fires, and how, in `maintenance::schedules`. Here is what
//! people and programs do with them.

pub use backstop_core::job::FiredBy;
pub use backstop_core::schedule::{
    Fire, MISSED_AFTER, Misfire, Overlap, PassReason, PassedFire, Pause, Schedule, ScheduleOwner,
    ScheduleState, Timing,
};

mod declare;
pub(crate) mod firing;
mod settings;
pub(crate) mod stored;

use std::sync::Arc;

use backstop_core::job::{NewJob, OnConflict};
use backstop_core::{JobId, Refusal, Timestamp, schedule};
use backstop_store::Error as StoreError;

pub use self::settings::ScheduleSettings;
use self::stored::{ScheduleBody, StoredSchedule};
use crate::engine::Backstop;
use crate::parts::EngineParts;
use crate::submit::Enqueue;

/// Schedules that a store holds at most.
pub(crate) const MOST: usize = 10_000;

/// Fire times that one backfill submits at most.
const MOST_BACKFILLED: usize = 1_000;

/// Upcoming fire times that are shown.
const UPCOMING: usize = 5;

/// Times that a change is tried while others change schedules too.
const TRIES: usize = 20;

/// Why a schedule was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleProblem {
    /// It cannot be meant, or its job would be refused.
    #[error(transparent)]
    Invalid(#[from] Refusal),
    /// There is none of this name.
    #[error("there is no schedule `{0}`; list those that exist, or check the spelling")]
    Unknown(String),
    /// Somebody else says what it is.
    #[error("schedule `{name}` belongs to {owner}: change it there, or choose another name")]
    Owned {
        /// Which one.
        name: String,
        /// Who does.
        owner: ScheduleOwner,
    },
    /// There are too many.
    #[error("there are {MOST} schedules already; delete one first")]
    TooMany,
    /// Others change it all the time.
    #[error("schedule `{0}` was changed by others again and again; nothing was changed, try once more")]
    Changing(String),
    /// The store is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A schedule as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// When it fires, and which job is submitted.
    pub schedule: Schedule,
    /// Who says so.
    pub owner: ScheduleOwner,
    /// What was decided so far.
    pub state: ScheduleState,
    /// The next five fire times, also those that a pause would pass over.
    pub upcoming: Vec<Timestamp>,
    /// The moment of this view.
    pub now: Timestamp,
}

/// What a backfill came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backfilled {
    /// Fire times whose jobs were submitted.
    pub submitted: usize,
    /// Fire times that had been submitted before.
    pub known: usize,
    /// Fire times that were passed over, because another job holds the business key and `on_conflict` is `skip`.
    pub skipped: usize,
}

/// The schedules of a store: see [`Backstop::schedules`].
#[derive(Debug, Clone, Copy)]
pub struct Schedules<'a> {
    parts: &'a Arc<EngineParts>,
}

impl Backstop {
    /// The schedules of the store (W11). Every process with a worker, and every server, takes part in firing them.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::schedules::{ScheduleOwner, ScheduleProblem, ScheduleSettings, ScheduleView, Schedules};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let schedules: Schedules<'_> = engine.schedules();
    /// let daily = ScheduleSettings::cron("0 3 * * *").time_zone("Europe/Berlin");
    /// let set: ScheduleView = schedules.set("report", daily, engine.enqueue_raw("report", "{}")).await?;
    /// assert_eq!((set.upcoming.len(), set.owner), (5, ScheduleOwner::Api));
    /// schedules.pause("report", "ann").await?;
    /// assert!(schedules.get("report").await?.unwrap().state.paused.is_some());
    /// schedules.run("report").await?;
    /// schedules.delete("report", false).await?;
    /// let never = schedules.set("never", ScheduleSettings::cron("0 0 30 2 *"), engine.enqueue_raw("x", "{}"));
    /// assert!(matches!(never.await, Err(ScheduleProblem::Invalid(_))));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn schedules(&self) -> Schedules<'_> {
        Schedules { parts: &self.parts }
    }
}

impl Schedules<'_> {
    /// Every schedule, by name.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<ScheduleView>, StoreError> {
        let (now, found) = stored::all(&*self.parts.store).await?;
        Ok(found.into_iter().map(|found| view(found, now)).collect())
    }

    /// How many there are, without a look at them.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn count(self) -> Result<usize, StoreError> {
        Ok(stored::mark(&*self.parts.store).await?.count)
    }

    /// The schedule of this name.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(self, name: &str) -> Result<Option<ScheduleView>, StoreError> {
        let found = stored::one(&*self.parts.store, name).await?;
        Ok(found.stored.map(|stored| view(stored, found.now)))
    }

    /// Sets a schedule, whether there is one of this name or not. One whose times stay the same goes on as it was;
    /// else it fires for the first time after now.
    ///
    /// # Errors
    /// When it cannot be meant, a program or a settings file declares it, there are too many, or the store is away.
    pub async fn set<T>(
        self,
        name: &str,
        settings: ScheduleSettings,
        job: Enqueue<T>,
    ) -> Result<ScheduleView, ScheduleProblem> {
        self.set_where(name, settings, job, |_| true).await
    }

    /// The same, while the schedule says what `seen` does, or there is none and `seen` is none. Whoever makes a change
    /// out of what is there takes nothing back that somebody else has set meanwhile.
    ///
    /// # Errors
    /// As [`set`](Self::set); [`ScheduleProblem::Changing`] when the schedule is not as it was seen.
    pub async fn set_over<T>(
        self,
        name: &str,
        seen: Option<&Schedule>,
        settings: ScheduleSettings,
        job: Enqueue<T>,
    ) -> Result<ScheduleView, ScheduleProblem> {
        self.set_where(name, settings, job, |before| before == seen).await
    }

    async fn set_where<T>(
        self,
        name: &str,
        settings: ScheduleSettings,
        job: Enqueue<T>,
        is_expected: impl Fn(Option<&Schedule>) -> bool,
    ) -> Result<ScheduleView, ScheduleProblem> {
        schedule::check_name(name, &self.parts.config.limits)?;
        let (paused, schedule) = (settings.paused, made(settings, job)?);
        self.change(name, |before, now| {
            if let Some(before) = before.filter(|before| before.owner != ScheduleOwner::Api) {
                return Err(ScheduleProblem::Owned { name: name.to_owned(), owner: before.owner.clone() });
            }
            if !is_expected(before.map(|before| &before.schedule)) {
                return Err(ScheduleProblem::Changing(name.to_owned()));
            }
            let mut body = set_over(before, schedule.clone(), ScheduleOwner::Api, now);
            pause(&mut body.state, paused, "API", now);
            Ok(Some(body))
        })
        .await?;
        self.seen(name).await
    }

    /// Removes a schedule and answers it once more; jobs that it has submitted stay. One that a program or a settings
    /// file declares is removed only by `force`, and comes back when a program that declares it starts.
    ///
    /// # Errors
    /// When there is none, it is declared elsewhere, or the store is away.
    pub async fn delete(self, name: &str, force: bool) -> Result<ScheduleView, ScheduleProblem> {
        let view = self.seen(name).await?;
        self.change(name, |before, _| match before {
            Some(before) if before.owner != ScheduleOwner::Api && !force => {
                Err(ScheduleProblem::Owned { name: name.to_owned(), owner: before.owner.clone() })
            }
            _ => Ok(None),
        })
        .await?;
        Ok(view)
    }

    /// Fires nothing until it is resumed, whoever owns it. What is submitted already runs on. Fires that were decided
    /// before and are not submitted yet, because their queue is full or their leader died, wait for the end of the
    /// pause and are not lost.
    ///
    /// # Errors
    /// When there is none, or the store is away.
    pub async fn pause(self, name: &str, by: &str) -> Result<ScheduleView, ScheduleProblem> {
        self.change_state(name, |state, now| pause(state, Some(true), by, now)).await
    }

    /// Fires again, from the next fire time on: what a pause has passed over is not made up for. What was decided
    /// before the pause and waits to be submitted goes first.
    ///
    /// # Errors
    /// When there is none, or the store is away.
    pub async fn resume(self, name: &str) -> Result<ScheduleView, ScheduleProblem> {
        self.change_state(name, |state, now| pause(state, Some(false), "", now)).await
    }

    /// Submits its job once, now, whether it is paused or not and whatever runs; its fire times stay as they are.
    ///
    /// # Errors
    /// When there is none, its job is refused, or the store is away.
    pub async fn run(self, name: &str) -> Result<JobId, ScheduleProblem> {
        let view = self.seen(name).await?;
        let fire = Fire::new(view.now, crate::ids::job_id());
        let job = firing::job_of(&self.parts.config, (name, &view.schedule), fire, true, view.now);
        let mut answers = firing::submit(self.parts, vec![job]).await?;
        Ok(answers.pop().unwrap_or(Err(Refusal::BatchRefused { index: 0 }))?.id)
    }

    /// Submits jobs for the fire times of a range, `from` and `to` with it, that were not submitted before, at once and
    /// whatever runs. At most a thousand.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use std::time::Duration;
    /// use backstop::schedules::{Backfilled, ScheduleSettings};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let job = engine.enqueue_raw("report", "{}");
    /// let now = engine.schedules().set("report", ScheduleSettings::cron("@daily"), job).await?.now;
    /// let week = now.before(Duration::from_secs(7 * 86_400));
    /// let done: Backfilled = engine.schedules().backfill("report", week, now).await?;
    /// assert!(done.submitted >= 7);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When there is none, the range is empty, too long or not over, a job is refused, or the store is away. Jobs
    /// before one that is refused are submitted; another try goes on with the rest.
    pub async fn backfill(
        self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Backfilled, ScheduleProblem> {
        let view = self.seen(name).await?;
        if from > to || to > view.now {
            let problem =
                "a backfill ends after it begins, and not after now: what is to come fires by itself";
            return Err(Refusal::invalid("to", problem).into());
        }
        let times = view.schedule.timing.fire_times(view.state.anchor)?;
        let before = Timestamp::from_micros(from.as_micros() - 1);
        let wanted: Vec<Timestamp> = times.between(before, to).take(MOST_BACKFILLED + 1).collect();
        if wanted.len() > MOST_BACKFILLED {
            let problem = format!("the range has more than {MOST_BACKFILLED} fire times; take a shorter one");
            return Err(Refusal::invalid("to", problem).into());
        }
        let job = |fire_time| {
            let fire = Fire::new(fire_time, crate::ids::job_id());
            firing::job_of(&self.parts.config, (name, &view.schedule), fire, false, view.now)
        };
        let jobs: Vec<Result<NewJob, Refusal>> = wanted.into_iter().map(job).collect();
        let keys = jobs.iter().map(|job| job.as_ref().ok().and_then(firing::skip_keys)).collect();
        let answers = firing::submit(self.parts, jobs).await?;
        let skips = view.schedule.job.on_conflict == OnConflict::Skip;
        let mut done = Backfilled { submitted: 0, known: 0, skipped: 0 };
        for answer in firing::without_skipped(self.parts, keys, answers).await? {
            match answer {
                Ok(submitted) if submitted.deduplicated => done.known += 1,
                Ok(_) => done.submitted += 1,
                Err(Refusal::BusinessKeyConflict { .. }) if skips => done.skipped += 1,
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Ok(done)
    }

    async fn seen(self, name: &str) -> Result<ScheduleView, ScheduleProblem> {
        self.get(name).await?.ok_or_else(|| ScheduleProblem::Unknown(name.to_owned()))
    }

    async fn change_state(
        self,
        name: &str,
        what: impl Fn(&mut ScheduleState, Timestamp),
    ) -> Result<ScheduleView, ScheduleProblem> {
        self.change(name, |before, now| {
            let mut body = before.ok_or_else(|| ScheduleProblem::Unknown(name.to_owned()))?.clone();
            what(&mut body.state, now);
            Ok(Some(body))
        })
        .await?;
        self.seen(name).await
    }

    /// Changes one schedule over what was read; `what` answers none to remove it.
    async fn change(
        self,
        name: &str,
        what: impl Fn(Option<&ScheduleBody>, Timestamp) -> Result<Option<ScheduleBody>, ScheduleProblem>,
    ) -> Result<(), ScheduleProblem> {
        let store = &*self.parts.store;
        for _ in 0..TRIES {
            let mark = stored::mark(store).await?;
            let found = stored::one(store, name).await?;
            let body = what(found.stored.as_ref().map(|stored| &stored.body), found.now)?;
            if found.revision.is_none() && body.is_some() && mark.count >= MOST {
                return Err(ScheduleProblem::TooMany);
            }
            let edit = stored::edit(name, found.revision, body.as_ref());
            if stored::change(store, mark, vec![edit]).await? {
                self.parts.schedules_changed.notify_one();
                return Ok(());
            }
        }
        Err(ScheduleProblem::Changing(name.to_owned()))
    }
}

/// The schedule that settings and a job make.
fn made<T>(settings: ScheduleSettings, job: Enqueue<T>) -> Result<Schedule, Refusal> {
    let (job, expires_in) = job.into_template()?;
    let mut schedule = Schedule::new(settings.timing, job);
    (schedule.misfire, schedule.overlap) = (settings.misfire, settings.overlap);
    schedule.expires_in = expires_in;
    schedule.check()?;
    Ok(schedule)
}

/// A schedule over the one that it takes the place of: where its times stay, it goes on.
fn set_over(
    before: Option<&ScheduleBody>,
    schedule: Schedule,
    owner: ScheduleOwner,
    now: Timestamp,
) -> ScheduleBody {
    let mut state = before.map_or_else(|| ScheduleState::new(now), |before| before.state.clone());
    if before.is_some_and(|before| before.schedule.timing != schedule.timing) {
        (state.anchor, state.decided) = (now, now);
    }
    ScheduleBody { schedule, owner, state }
}

/// Pauses, or ends a pause. What was passed over is decided then.
fn pause(state: &mut ScheduleState, paused: Option<bool>, by: &str, now: Timestamp) {
    match paused {
        Some(true) if state.paused.is_none() => state.paused = Some(Pause { by: by.to_owned(), at: now }),
        Some(false) if state.paused.take().is_some() => state.decided = now,
        _ => {}
    }
}

fn view(found: StoredSchedule, now: Timestamp) -> ScheduleView {
    let StoredSchedule { name, body: ScheduleBody { schedule, owner, state }, .. } = found;
    // What is stored was checked; a time zone that a later database does not know any more has no times.
    let times = schedule.timing.fire_times(state.anchor);
    let upcoming = times.map(|times| times.upcoming(now, UPCOMING)).unwrap_or_default();
    ScheduleView { name, schedule, owner, state, upcoming, now }
}

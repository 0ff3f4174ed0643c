//! Plays the scenes on a running engine: submits, watches until each has ended, calls one off.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use backstop::{Backstop, Event, EventKind, JobId, State};
use backstop_core::job::JobView;
use backstop_store::PageRequest;
use tokio::time::{MissedTickBehavior, interval};

use super::script::{DemoEnd, DemoScene, scenes};
use super::view::{DemoRow, DemoViewer};
use crate::output::span::length;
use crate::problem::Problem;

/// How often the store is asked where the jobs are: events tell only of this process.
const LOOK: Duration = Duration::from_millis(150);
/// How long a job runs before the demo cancels it.
const CALL_OFF_AFTER: Duration = Duration::from_millis(3_000);
/// When the show is over, whatever is still open.
const DEADLINE: Duration = Duration::from_secs(45);

/// One scene that was played.
pub(crate) struct PlayedScene {
    pub(super) scene: DemoScene,
    pub(super) view: JobView,
    pub(super) end: DemoEnd,
}

impl PlayedScene {
    /// True when it ended as the script says.
    pub(crate) fn as_expected(&self) -> bool {
        self.end == self.scene.ends
    }
}

/// Plays every scene and answers how each ended.
pub(crate) async fn play(
    engine: &Backstop,
    run_tag: &str,
    audience: &mut DemoViewer,
) -> Result<Vec<PlayedScene>, Problem> {
    let mut events = engine.events();
    let mut stage = Stage::set(engine, run_tag).await?;
    audience.open(&stage.rows);
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let began = Instant::now();
    while !stage.rows.iter().all(|row| row.done) && began.elapsed() < DEADLINE {
        tokio::select! {
            Some(event) = events.next() => stage.hear(&event, audience),
            _ = looks.tick() => stage.look(engine, audience).await?,
        }
    }
    stage.finish(engine).await
}

struct Stage {
    rows: Vec<DemoRow>,
    scenes: Vec<DemoScene>,
    by_id: HashMap<JobId, usize>,
    views: Vec<Option<JobView>>,
    /// Since when the job to call off is seen running.
    running_since: Option<Instant>,
}

impl Stage {
    /// Submits every scene in one transaction.
    async fn set(engine: &Backstop, run_tag: &str) -> Result<Self, Problem> {
        let scenes = scenes();
        let now = engine.store().now().await?;
        let jobs = scenes.iter().map(|scene| scene.submit(engine, now, run_tag)).collect();
        let mut rows = Vec::with_capacity(scenes.len());
        for (scene, answer) in scenes.iter().zip(engine.submit_all(jobs, true).await?) {
            rows.push(DemoRow::new(scene.shows, answer?.id));
        }
        let by_id = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
        let views = rows.iter().map(|_| None).collect();
        Ok(Self { rows, scenes, by_id, views, running_since: None })
    }

    /// Takes an event over into the row of its job.
    fn hear(&mut self, event: &Event, audience: &mut DemoViewer) {
        let Some(at) = event.job.as_ref().and_then(|job| self.by_id.get(&job.id)).copied() else { return };
        let row = &mut self.rows[at];
        let said = match &event.what {
            EventKind::Started { run } => {
                row.status = State::Running;
                row.runs = *run;
                format!("run {run} started")
            }
            EventKind::Succeeded { run } => {
                row.status = State::Succeeded;
                format!("run {run} succeeded")
            }
            EventKind::Retrying { error, next, .. } => {
                row.status = State::Pending;
                format!("{error}; again in {}", length(event.at.until(*next)))
            }
            EventKind::Deferred { cause, until } => {
                row.status = State::Pending;
                format!("{cause}, not charged; again in {}", length(event.at.until(*until)))
            }
            EventKind::Dead { error, reason, .. } => {
                row.status = State::Failed;
                error
                    .as_ref()
                    .map_or_else(|| format!("dead: {reason}"), |error| format!("dead, {reason}: {error}"))
            }
            EventKind::Canceled { reason } => {
                row.status = State::Canceled;
                format!("canceled: {reason}")
            }
            // What follows says more, and an alert would hide why the job is dead.
            EventKind::Failed { .. }
            | EventKind::TimedOut
            | EventKind::TimeoutNear { .. }
            | EventKind::Enqueued { .. }
            | EventKind::Alert { .. } => return,
            other => other.name().replace('_', " "),
        };
        row.last = said;
        audience.changed(at, row);
    }

    /// Asks the store where every job is, and calls one off when its time has come.
    async fn look(&mut self, engine: &Backstop, audience: &mut DemoViewer) -> Result<(), Problem> {
        let ids = self.rows.iter().map(|row| row.id).collect();
        for (at, found) in engine.store().jobs(ids).await?.into_iter().enumerate() {
            let Some(detail) = found else { continue };
            let (row, scene, view) = (&mut self.rows[at], &self.scenes[at], detail.view);
            let before = row.clone();
            row.kind = view.job.spec.kind.to_string();
            row.status = view.state();
            row.runs = view.record.runs;
            row.progress = view.record.progress.as_ref().filter(|_| row.status == State::Running).cloned();
            row.done = row.status.is_terminal() || row.status == scene.ends.status;
            if view.waits_for_code {
                row.last = "no live worker knows this kind".to_owned();
            }
            if *row != before {
                audience.changed(at, row);
            }
            if scene.called_off && row.status == State::Running {
                let since = *self.running_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= CALL_OFF_AFTER {
                    engine.cancel(row.id, "the demo canceled it while it ran").await?;
                }
            }
            self.views[at] = Some(view);
        }
        Ok(())
    }

    /// How every job ended.
    async fn finish(self, engine: &Backstop) -> Result<Vec<PlayedScene>, Problem> {
        let mut played = Vec::with_capacity(self.scenes.len());
        for (scene, view) in self.scenes.into_iter().zip(self.views) {
            let Some(view) = view else { continue };
            let latest = engine.attempts(view.job.spec.id, PageRequest::first(1)).await?.items.pop();
            let end = DemoEnd {
                status: view.state(),
                runs: view.record.runs,
                attempt: view.record.attempt,
                cause: latest.map(|run| run.cause),
                terminal_reason: view.record.reason,
            };
            played.push(PlayedScene { scene, view, end });
        }
        Ok(played)
    }
}

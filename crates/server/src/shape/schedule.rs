//! Schedules (W11).

mod keep;

use std::borrow::Cow;
use std::collections::BTreeMap;

use backstop::schedules::{
    Backfilled, Misfire, Overlap, PassedFire, ScheduleOwner, ScheduleSettings, ScheduleView, Timing,
};
use backstop::{JobId, OnConflict, Priority, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

pub(crate) use self::keep::schedule_over;
use super::submit::priority_or_word;
use super::{BackoffPart, CallbackJob, SubmitJob};
use crate::body::{object, raw};

/// When a schedule fires, and the job that is submitted each time. One of `cron` and `every_ms` is given.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule<'a> {
    /// Minute, hour, day of month, month, day of week; seconds in front are optional.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "30 2 * * MON-FRI", max_length = 256)]
    pub cron: Option<String>,
    /// So often, counted from when it is set: from a second to ten years.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1_000, maximum = 315_532_800_000_u64)]
    pub every_ms: Option<u64>,
    /// Whose clock `cron` means; UTC when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin", max_length = 64)]
    pub time_zone: Option<String>,
    /// What becomes of fire times that were missed by a minute or more; `fire_once` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire: Option<Misfire>,
    /// What becomes of a fire while the job of the last one has not ended; `allow` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// True pauses it, false resumes it; as it is when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Which code runs the job. It is left out only where `keep` finds one.
    #[serde(borrow, skip_serializing_if = "str::is_empty")]
    #[schema(value_type = String, required = true, example = "report")]
    pub kind: Cow<'a, str>,
    /// Its input, any JSON up to 16 KiB; an empty object when it is left out.
    #[serde(borrow, default, deserialize_with = "raw", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<&'a RawValue>,
    /// Where it waits; `default` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// A level from 0 to 4, or its word: lowest, low, normal, high, critical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = priority_or_word)]
    pub priority: Option<Priority>,
    /// Version of the payload's shape (H10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Run each job no earlier than this long after it is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Never start a job later than this long after it may first run (L19).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// Charged runs after the first (F5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Crashes that are forgiven (C1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// How long to wait between charged runs (F8).
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffPart>,
    /// How long one run may take (F10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Fail a job when it has been due this long without starting (L19).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<u64>,
    /// No two live jobs share this key (L11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Jobs with the same key run one at a time, in the order of their submits (L21).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// What limits by key count (H5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub limit_key: Option<String>,
    /// Of all jobs with this name one runs at a time (H6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub single_instance: Option<String>,
    /// Permits that each run holds, by pool: a limit with permits, of that name (H5).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub permits: BTreeMap<String, u32>,
    /// How long a job may be kept from running before it fails as `deferral_exhausted` (H7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_deferral_ms: Option<u64>,
    /// What the jobs need that may be away, in place of what their kind needs (H1, H3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// What to do when a live job holds the business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
    /// Words to find the jobs by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Settings beside the payload: a JSON object.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<&'a RawValue>,
    /// Ties the jobs to something outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The job to store when one has succeeded, in the same transaction (F14).
    #[serde(borrow, default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub on_success: Option<CallbackJob<'a>>,
    /// The job to store when one has failed for good, in the same transaction (F14).
    #[serde(borrow, default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<CallbackJob<'a>>,
}

impl<'a> SetSchedule<'a> {
    /// What it says of the schedule, and of its job.
    pub(crate) fn split(self) -> (ScheduleSettings, SubmitJob<'a>) {
        let (misfire, overlap) = (self.misfire.unwrap_or_default(), self.overlap.unwrap_or_default());
        let mut settings = ScheduleSettings::default().misfire(misfire).overlap(overlap);
        settings.timing = Timing {
            cron: self.cron.map(Into::into),
            every: self.every_ms.map(std::time::Duration::from_millis),
            time_zone: self.time_zone.map(Into::into),
        };
        settings.paused = self.paused;
        let job = SubmitJob {
            kind: self.kind,
            payload: self.payload,
            queue: self.queue,
            priority: self.priority,
            version: self.version,
            delay_ms: self.delay_ms,
            max_retries: self.max_retries,
            max_crashes: self.max_crashes,
            backoff: self.backoff,
            timeout_ms: self.timeout_ms,
            max_wait_ms: self.max_wait_ms,
            business_key: self.business_key,
            ordering_key: self.ordering_key,
            limit_key: self.limit_key,
            single_instance: self.single_instance,
            permits: self.permits,
            max_deferral_ms: self.max_deferral_ms,
            dependency: self.dependency,
            on_conflict: self.on_conflict,
            tags: self.tags,
            params: self.params,
            correlation_id: self.correlation_id,
            on_success: self.on_success,
            on_failure: self.on_failure,
            ..SubmitJob::default()
        };
        (settings, job)
    }
}

/// Who says what a schedule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleOwnerKind {
    /// Somebody who called the API.
    Api,
    /// `backstop.toml`.
    Settings,
    /// The code of a program.
    Code,
}

/// A fire, and the job of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LastFire {
    /// When it was to fire.
    #[schema(value_type = String, format = DateTime)]
    pub fire_time: Timestamp,
    /// The job.
    pub job: JobId,
}

/// A schedule as it stands. The payload of its job is not shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Schedule)]
pub struct ScheduleJson {
    /// Its name.
    pub name: String,
    /// Its cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// Whose clock `cron` means; UTC when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What becomes of fire times that were missed.
    pub misfire: Misfire,
    /// What becomes of a fire while the job of the last one has not ended.
    pub overlap: Overlap,
    /// True while nothing fires.
    pub paused: bool,
    /// Who paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<String>,
    /// Who says what it is.
    pub owner: ScheduleOwnerKind,
    /// The program whose code declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Which code runs its jobs.
    pub kind: String,
    /// Where they wait.
    pub queue: String,
    /// How urgent they are.
    #[schema(value_type = u8)]
    pub priority: Priority,
    /// The next five fire times, whether it is paused or not.
    #[schema(value_type = Vec<String>)]
    pub next: Vec<Timestamp>,
    /// Its latest fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastFire>,
    /// Fires that wait for the job of the last one.
    pub queued: u64,
    /// The latest fire that was passed over, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<PassedFire>,
    /// Why the job of the latest fire was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl From<ScheduleView> for ScheduleJson {
    fn from(view: ScheduleView) -> Self {
        let ScheduleView { name, schedule, owner, state, upcoming, .. } = view;
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let (owner, program) = match owner {
            ScheduleOwner::Api => (ScheduleOwnerKind::Api, None),
            ScheduleOwner::Settings => (ScheduleOwnerKind::Settings, None),
            ScheduleOwner::Code(program) => (ScheduleOwnerKind::Code, Some(program.to_string())),
        };
        let last = state.last().map(|fire| LastFire { fire_time: fire.fire_time, job: fire.job });
        let spec = &schedule.job.spec;
        Self {
            name,
            cron: schedule.timing.cron.as_deref().map(str::to_owned),
            every_ms: schedule.timing.every.map(millis),
            time_zone: schedule.timing.time_zone.as_deref().map(str::to_owned),
            misfire: schedule.misfire,
            overlap: schedule.overlap,
            paused: state.paused.is_some(),
            paused_by: state.paused.map(|pause| pause.by),
            owner,
            program,
            kind: spec.kind.to_string(),
            queue: spec.queue.to_string(),
            priority: spec.priority,
            next: upcoming,
            last,
            queued: u64::try_from(state.queued.len()).unwrap_or(u64::MAX),
            passed: state.passed,
            problem: state.problem,
        }
    }
}

/// The job that a schedule was asked to submit now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleRun {
    /// The job.
    pub id: JobId,
}

/// A range of fire times, with both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillRange {
    /// From this moment.
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    /// To this moment, which has passed.
    #[schema(value_type = String, format = DateTime)]
    pub to: Timestamp,
}

/// What a backfill came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillDone {
    /// Fire times whose jobs were submitted.
    pub submitted: usize,
    /// Fire times that had been submitted before.
    pub known: usize,
    /// Fire times that were passed over, because another job holds the business key and `on_conflict` is `skip`.
    pub skipped: usize,
}

impl From<Backfilled> for BackfillDone {
    fn from(Backfilled { submitted, known, skipped }: Backfilled) -> Self {
        Self { submitted, known, skipped }
    }
}

/// What becomes of what a set does not name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SetScheduleQuery {
    /// True keeps it as it is, where there is a schedule of this name: a field that is null is taken away, and of
    /// `cron` and `every_ms` the one that is given takes the place of the other. Otherwise the whole schedule is
    /// replaced.
    pub keep: Option<bool>,
}

/// How a schedule is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeleteSchedule {
    /// Also one that a program or `backstop.toml` declares; it comes back when a program that declares it starts.
    pub force: Option<bool>,
}

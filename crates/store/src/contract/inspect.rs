//! What people ask of jobs, and ask to be done with them.

use std::time::Duration;

use backstop_core::explain::ExplainContext;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{Attempt, JobDetail, JobSummary, JobView, Operated, Operation, State};
use backstop_core::run_limit::{RunLimit, RunLimitView, SharedHold, SharingJob};
use backstop_core::{JobId, Refusal};

use crate::sharing::SharingWork;
use crate::{
    Answer, Archived, Finding, HeldLane, Holdings, Incident, IncidentFilter, JobFilter, LineRange, LineView,
    Page, PageRequest, QueueRange, QueueView, Survey, Terms, WorkerView,
};

/// What people ask, from the command line, over HTTP or in code. Its promises are those of [`Store`](crate::Store).
pub trait InspectStore: Send + Sync + 'static {
    /// The latest term of every duty that was ever led, also of those that have run out, in the order of
    /// [`crate::Duty::ALL`] (L17).
    fn terms(&self) -> Answer<'_, Terms>;

    /// Does what a person asks of each job. One answer per job, in order.
    ///
    /// A dead letter that would become live again is refused with [`Refusal::BusinessKeyConflict`] while another
    /// live job holds its business key. The state table is asked first.
    fn operate(&self, jobs: Vec<JobId>, operation: Operation) -> Answer<'_, Vec<Result<Operated, Refusal>>>;

    /// Pauses or resumes a queue; answers whether that changed anything. Resuming an unknown queue does not
    /// make it known.
    ///
    /// A pause keeps `note`, who or what asked for it; a queue that is paused already keeps the note it has.
    fn pause_queue(&self, queue: &str, paused: bool, note: Option<&str>) -> Answer<'_, bool>;

    /// Looks jobs up by id. One answer per id, in order.
    fn jobs(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobDetail>>>;

    /// Looks at jobs by id, no longer than it takes to see what became of them. One answer per id, in order; none for
    /// an unknown one. It reads nothing of their input, their lane or who holds them, so it stays cheap for thousands.
    fn job_summaries(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobSummary>>>;

    /// Looks archived jobs up by id. One answer per id, in order; none for a job that was not archived.
    fn archived(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Archived>>>;

    /// Lists jobs, newest id first, by keyset.
    ///
    /// `next` is set when more rows exist; a page of zero rows has none. The reason of a [`JobFilter`] is compared
    /// with the stored one, which a dead letter keeps while it is paused.
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] for a page over `Limits::page`.
    fn list(&self, filter: JobFilter, page: PageRequest<JobId>) -> Answer<'_, Page<JobView, JobId>>;

    /// The ledger of a job, latest run first, by keyset on the run's number. An unknown job has an empty one.
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] for a page over `Limits::page`.
    fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Answer<'_, Page<Attempt, u32>>;

    /// A job with what surrounds it, for `explain` (F20).
    fn surroundings(&self, job: JobId) -> Answer<'_, Option<(JobView, ExplainContext)>>;

    /// Every queue that ever had a job, was ever paused or is served by a live worker, with its counts, by name.
    /// Counts are kept, not counted.
    ///
    /// A queue all of whose lanes are retired ([`crate::WorkStore::retire_lanes`]) is left out, unless it is paused or
    /// served.
    fn queues(&self) -> Answer<'_, Vec<QueueView>>;

    /// The queues of a range, as [`Self::queues`] tells of them. It reads no lane of any other queue: who has many of
    /// them slows nobody else (E13).
    fn queue_page(&self, range: QueueRange) -> Answer<'_, Page<QueueView, String>>;

    /// What a tenant has, as far as its limits count it (E13): no retired lane, and about `most` of each at most.
    fn holdings(&self, tenant: String, most: usize) -> Answer<'_, Holdings>;

    /// Every worker that is live, or was until it stopped renewing, by name and then by id.
    fn workers(&self) -> Answer<'_, Vec<WorkerView>>;

    /// Incidents, latest seen first, then by fingerprint.
    ///
    /// # Errors
    /// As [`Self::incidents_like`].
    fn incidents(&self, limit: usize) -> Answer<'_, Vec<Incident>> {
        self.incidents_like(IncidentFilter::default(), limit)
    }

    /// Incidents that a filter finds, latest seen first, then by fingerprint. The limit counts what is found: however
    /// many others come first, `limit` of these are answered if there are so many.
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] for more than `Limits::page`.
    fn incidents_like(&self, filter: IncidentFilter, limit: usize) -> Answer<'_, Vec<Incident>>;

    /// Looks incidents up by fingerprint. One answer each, in order.
    fn incidents_of(&self, fingerprints: Vec<Fingerprint>) -> Answer<'_, Vec<Option<Incident>>>;

    /// Keeps what a person says of incidents (D2), and answers them as they are now. One answer each, in order; none
    /// for one that is unknown.
    fn say(
        &self,
        fingerprints: Vec<Fingerprint>,
        statement: IncidentUpdate,
    ) -> Answer<'_, Vec<Option<Incident>>>;

    /// Counts the jobs that a filter finds, newest id first and `most` of them at most, by what they have in common.
    fn survey(&self, filter: JobFilter, most: usize) -> Answer<'_, Survey>;

    /// Removes jobs that have ended, hot or archived, for good, and answers how each had ended (D5).
    ///
    /// Nothing is left but its idempotency key, which keeps answering with its id and how it ended (L10). No event
    /// tells of it, and no count includes it, except the sums of incidents.
    ///
    /// With `only`, a job that has ended otherwise stays: a dead letter that was driven again and is done by now is no
    /// dead letter. Refused with [`Refusal::WrongState`] (`purged`) for such a job and for one that has not ended,
    /// [`Refusal::NoSuchJob`] for an unknown one.
    fn purge(&self, jobs: Vec<JobId>, only: Option<State>) -> Answer<'_, Vec<Result<State, Refusal>>>;

    /// How many archived jobs [`crate::WorkStore::prune`] would remove, counted up to `most`.
    fn prunable(&self, keep: Duration, most: usize) -> Answer<'_, usize>;

    /// Lists archived jobs, newest id first, by keyset.
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] for a page over `Limits::page`.
    fn archive_page(&self, page: PageRequest<JobId>) -> Answer<'_, Page<(JobId, Archived), JobId>>;

    /// Lanes with pending jobs on a served queue that no live worker knows the kind of (H10), over all
    /// priorities, by queue, kind and version.
    fn held_lanes(&self) -> Answer<'_, Vec<HeldLane>>;

    /// What is used of limits on runs (H5), in the order given. Jobs that are claimed are counted, whatever became of
    /// their worker.
    fn run_limits(&self, limits: Vec<RunLimit>) -> Answer<'_, Vec<RunLimitView>>;

    /// What keeps jobs that share something from starting, under these limits (H5, H6), in the order given; none where
    /// there is room.
    fn shared_holds(
        &self,
        jobs: Vec<SharingJob>,
        limits: Vec<RunLimit>,
    ) -> Answer<'_, Vec<Option<SharedHold>>>;

    /// How many jobs of these queues that share something are pending, and how many of them could start now under
    /// these limits (H9), by queue as it was asked for and then by kind; kinds without such jobs are left out. What
    /// limits say that count all runs together is not looked at.
    ///
    /// It looks at `most` jobs of a queue at most, and at [`crate::sharing::MOST_KEYS`] keys of a lane. Where that was
    /// not enough, all pending ones count as startable. It takes and locks nothing.
    fn sharing_work(
        &self,
        queues: Vec<String>,
        limits: Vec<RunLimit>,
        most: usize,
    ) -> Answer<'_, Vec<SharingWork>>;

    /// Lists the lines that have a head, by key (L21).
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] for a page over `Limits::page`.
    fn lines(&self, range: LineRange) -> Answer<'_, Page<LineView, String>>;

    /// What `doctor` says of this store.
    fn check(&self) -> Answer<'_, Vec<Finding>>;
}

//! Jobs, ledgers and incidents as they are shown.

use std::collections::BTreeMap;

use backstop_core::explain::{ExplainContext, Holder, KeyHolder};
use backstop_core::job::{Attempt, JobDetail, JobSummary, JobView};
use backstop_core::tenant::shown;
use backstop_core::{JobId, Limits, Timestamp};

use super::tables::{ModelJob, ModelWorker, Tables};
use crate::{Error, JobFilter, Page, PageRequest, Survey, SurveyGroup};

impl Tables {
    fn view(&self, id: JobId, row: &ModelJob, now: Timestamp) -> JobView {
        let record = &row.record;
        let latest = self.ledger.get(&(id, record.runs));
        let shown = latest.filter(|_| record.state.is_terminal());
        let failed = record.last_failed_run.and_then(|run| self.ledger.get(&(id, run)));
        JobView {
            job: (*row.job).clone(),
            record: record.clone(),
            waits_for_code: self.waits_for_code(row, now),
            held_by: None,
            last_failure: failed.and_then(|run| run.failure.clone()),
            result: shown.and_then(|run| run.result.clone()),
            warning: shown.and_then(|run| run.warning.clone()),
            started_at: record
                .hold
                .and_then(|hold| hold.started_at)
                .or_else(|| latest.map(|run| run.started_at)),
        }
    }

    /// The ended runs of one job, first to last.
    pub(super) fn runs(&self, job: JobId) -> impl DoubleEndedIterator<Item = &Attempt> {
        self.ledger.range((job, 0)..=(job, u32::MAX)).map(|(_, attempt)| attempt)
    }

    pub(super) fn detail(&self, id: JobId, now: Timestamp) -> Option<JobDetail> {
        let view = self.view(id, self.jobs.get(&id)?, now);
        let mut counters = BTreeMap::new();
        for attempt in self.runs(id) {
            *counters.entry(attempt.cause).or_default() += 1;
        }
        Some(JobDetail { view, counters, line: self.line_place(id) })
    }

    pub(super) fn job_summaries(&self, id: JobId) -> Option<JobSummary> {
        let record = &self.jobs.get(&id)?.record;
        let failed = record.last_failed_run.and_then(|run| self.ledger.get(&(id, run)));
        let failure = failed.and_then(|run| run.failure.as_ref());
        Some(JobSummary::new(record, failure.map(|failure| failure.fingerprint.clone())))
    }

    pub(super) fn list(
        &self,
        filter: &JobFilter,
        page: PageRequest<JobId>,
        now: Timestamp,
    ) -> Result<Page<JobView, JobId>, Error> {
        let views = self
            .jobs
            .iter()
            .rev()
            .filter(|(id, _)| page.after.is_none_or(|after| **id < after))
            .map(|(id, row)| self.view(*id, row, now))
            .filter(|view| matches(filter, view));
        cut(views, page.limit, |view| view.job.spec.id)
    }

    pub(super) fn attempts(&self, job: JobId, page: PageRequest<u32>) -> Result<Page<Attempt, u32>, Error> {
        let rows =
            self.runs(job).rev().filter(|run| page.after.is_none_or(|after| run.number < after)).cloned();
        cut(rows, page.limit, |run| run.number)
    }

    pub(super) fn surroundings(&self, id: JobId, now: Timestamp) -> Option<(JobView, ExplainContext)> {
        let row = self.jobs.get(&id)?;
        let spec = &row.job.spec;
        let (workers_on_queue, workers_for_kind) = self.crew(&spec.queue, &spec.kind, spec.version, now);
        let holder = row.record.hold.map(|hold| match self.workers.get(&hold.worker) {
            Some(known) => {
                Holder { worker: hold.worker, name: known.said.name.clone(), until: known.expires_at }
            }
            None => Holder { worker: hold.worker, name: "unknown".to_owned(), until: Timestamp::MIN },
        });
        let able = |worker: &&ModelWorker| {
            worker.is_live(now) && worker.serves(&spec.queue) && worker.knows(&spec.kind, spec.version)
        };
        let new_enough = |worker: &&ModelWorker| row.record.accepts_code(worker.said.code_version.as_deref());
        let key_holder = self.key_holder(spec.business_key.as_deref(), Some(id));
        let around = ExplainContext {
            now,
            queue_paused: self.is_paused(&spec.queue),
            pause_note: self.paused_queues.get(&*spec.queue).cloned().flatten().and_then(|pause| pause.0),
            workers_on_queue,
            workers_for_kind,
            workers_with_code: self.workers.values().filter(able).filter(new_enough).count(),
            key_holder: key_holder.map(|(job, row)| KeyHolder { job, state: row.record.state }),
            line: self.line_place(id),
            holder,
            last_decision: self.runs(id).next_back().and_then(|run| run.decision.clone()),
        };
        Some((self.view(id, row, now), around))
    }

    pub(super) fn survey(&self, filter: &JobFilter, most: usize, now: Timestamp) -> Survey {
        let mut views = self
            .jobs
            .iter()
            .rev()
            .map(|(id, row)| self.view(*id, row, now))
            .filter(|view| matches(filter, view));
        let mut groups: Vec<SurveyGroup> = Vec::new();
        for view in views.by_ref().take(most) {
            let group = SurveyGroup {
                queue: view.job.spec.queue.to_string(),
                kind: view.job.spec.kind.to_string(),
                reason: view.record.reason,
                fingerprint: view.last_failure.map(|failure| failure.fingerprint.into()),
                jobs: 1,
            };
            let same = |other: &&mut SurveyGroup| SurveyGroup { jobs: 1, ..(**other).clone() } == group;
            match groups.iter_mut().find(same) {
                Some(known) => known.jobs += 1,
                None => groups.push(group),
            }
        }
        let complete = views.next().is_none();
        Survey::of(groups, complete)
    }
}

fn matches(filter: &JobFilter, view: &JobView) -> bool {
    let (spec, record) = (&view.job.spec, &view.record);
    let created = view.job.created_at;
    let fingerprint = view.last_failure.as_ref().map(|failure| failure.fingerprint.as_ref());
    filter.queue.as_deref().is_none_or(|queue| queue == &*spec.queue)
        && filter.tenant.as_deref().is_none_or(|tenant| tenant == shown(&spec.queue))
        && filter.kind.as_deref().is_none_or(|kind| kind == &*spec.kind)
        && filter.state.is_none_or(|state| state == view.state())
        && filter.tag.as_ref().is_none_or(|tag| spec.tags.contains(tag))
        && filter.business_key.as_ref().is_none_or(|key| spec.business_key.as_ref() == Some(key))
        && filter.reason.is_none_or(|reason| record.reason == Some(reason))
        && filter.fingerprint.as_deref().is_none_or(|wanted| fingerprint == Some(wanted))
        && filter.created_after.is_none_or(|moment| created >= moment)
        && filter.created_before.is_none_or(|moment| created < moment)
        && filter.finished_after.is_none_or(|moment| record.finished_at.is_some_and(|end| end >= moment))
        && filter.finished_before.is_none_or(|moment| record.finished_at.is_some_and(|end| end < moment))
        && filter.id_from.is_none_or(|from| spec.id >= from)
}

/// One page of `rows`, with the key to go on from when more follow.
pub(super) fn cut<T, K>(
    rows: impl Iterator<Item = T>,
    limit: usize,
    key: impl Fn(&T) -> K,
) -> Result<Page<T, K>, Error> {
    let most = Limits::default().page;
    if limit > most {
        return Err(Error::TooMany { what: "the page", actual: limit, limit: most });
    }
    let mut rows = rows.peekable();
    let items: Vec<T> = rows.by_ref().take(limit).collect();
    let more = rows.peek().is_some();
    let next = items.last().map(key).filter(|_| more);
    Ok(Page { items, next })
}

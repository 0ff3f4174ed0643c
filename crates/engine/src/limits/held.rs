//! Which jobs limits, circuits and dependencies keep from starting, for whoever looks at them (H1, H3, H5).

use backstop_core::job::{JobView, State, WaitDetail, WaitReason};
use backstop_core::run_limit::{RunLimit, RunLimitView, SharingJob};
use backstop_store::{Error as StoreError, Store};

use crate::parts::EngineParts;
use crate::worker_reports::{self, could_run};

impl EngineParts {
    /// Says of each job whether a limit, a circuit or a dependency keeps it from starting. Nothing is asked but what
    /// may concern one of them.
    pub(crate) async fn mark_held<'a>(
        &self,
        views: impl IntoIterator<Item = &'a mut JobView>,
    ) -> Result<(), StoreError> {
        let pending = views.into_iter().filter(|view| view.record.state == State::Pending);
        let mut pending: Vec<&mut JobView> = pending.collect();
        if pending.is_empty() {
            return Ok(());
        }
        let limits = self.limits.fresh(&*self.store, &self.config).await?;
        let covers = |limit: &&RunLimit| pending.iter().any(|view| is_about(limit, view));
        let concerned: Vec<RunLimit> = limits.iter().filter(covers).cloned().collect();
        let seen = views_of(&*self.store, concerned).await?;
        self.mark_circuits(&mut pending).await?;
        self.mark_dependencies(&mut pending).await?;
        self.mark_sharing(&mut pending, &limits).await?;
        for view in pending.iter_mut().filter(|view| view.held_by.is_none()) {
            let due = |limit: &&RunLimitView| view.record.is_due(limit.now) && is_about(&limit.limit, view);
            view.held_by = seen.iter().filter(due).find_map(RunLimitView::holds);
        }
        Ok(())
    }

    /// Says of jobs that share something that there is no room for them (H5, H6).
    async fn mark_sharing(
        &self,
        pending: &mut [&mut JobView],
        limits: &[RunLimit],
    ) -> Result<(), StoreError> {
        let sharing = |view: &&mut &mut JobView| view.held_by.is_none() && view.job.spec.needs.is_some();
        let mut waiting: Vec<_> = pending.iter_mut().filter(sharing).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let now = self.store.now().await?;
        let mut waiting: Vec<_> = waiting
            .iter_mut()
            .filter(|view| view.record.is_due(now))
            .filter_map(|view| Some((SharingJob::of(&view.job.spec)?, view)))
            .collect();
        let jobs = waiting.iter().map(|(job, _)| job.clone()).collect();
        let holds = self.store.shared_holds(jobs, limits.to_vec()).await?;
        for ((_, view), hold) in waiting.iter_mut().zip(holds) {
            view.held_by = hold.map(Into::into);
        }
        Ok(())
    }

    /// Says of jobs that need something that its circuit is open (H3), unless their time comes later than that is tried
    /// again.
    async fn mark_circuits(&self, pending: &mut [&mut JobView]) -> Result<(), StoreError> {
        for view in pending.iter_mut() {
            let spec = &view.job.spec;
            let need = self.config.need_of(&spec.kind);
            let Some(key) = self.config.needed_by(spec, need.as_ref()) else { continue };
            let Some(until) = self.circuits.open_until(&self.into(), &key).await? else { continue };
            if view.record.run_at <= until.after(self.config.circuit(&key).spread(spec.id)) {
                let (reason, key, until) = (WaitReason::Circuit, key.to_string(), Some(until));
                view.held_by = Some(WaitDetail { reason, key, holder: None, until, position: None });
            }
        }
        Ok(())
    }

    /// Says of due jobs that every worker which could run them finds unavailable what their kind needs (H1).
    async fn mark_dependencies(&self, pending: &mut [&mut JobView]) -> Result<(), StoreError> {
        let needs = |view: &&mut &mut JobView| {
            view.held_by.is_none() && self.config.kind_dependencies.contains_key(&*view.job.spec.kind)
        };
        let mut needing: Vec<_> = pending.iter_mut().filter(needs).collect();
        if needing.is_empty() {
            return Ok(());
        }
        let now = self.store.now().await?;
        let workers = self.store.workers().await?;
        let reports = worker_reports::by_worker(worker_reports::all(&*self.store).await?, &workers);
        for view in needing.iter_mut().filter(|view| view.record.is_due(now)) {
            let spec = &view.job.spec;
            let able = workers.iter().filter(|worker| could_run(worker, spec));
            let red: Option<Vec<_>> =
                able.map(|worker| reports.get(&worker.id)?.red_for(&spec.kind)).collect();
            let Some(first) = red.iter().flatten().min_by_key(|red| red.since) else { continue };
            let (reason, key) = (WaitReason::Dependency, first.dependency.clone());
            view.held_by = Some(WaitDetail { reason, key, holder: None, until: None, position: None });
        }
        Ok(())
    }

    /// The limits that are about a job that has not started, as they stand.
    pub(crate) async fn limits_about(&self, view: &JobView) -> Result<Vec<RunLimitView>, StoreError> {
        if view.record.state != State::Pending {
            return Ok(Vec::new());
        }
        let limits = self.limits.fresh(&*self.store, &self.config).await?;
        views_of(&*self.store, limits.iter().filter(|limit| is_about(limit, view)).cloned().collect()).await
    }
}

async fn views_of(store: &dyn Store, limits: Vec<RunLimit>) -> Result<Vec<RunLimitView>, StoreError> {
    if limits.is_empty() { Ok(Vec::new()) } else { store.run_limits(limits).await }
}

fn is_about(limit: &RunLimit, view: &JobView) -> bool {
    limit.counts_all() && limit.covers(&view.job.spec.queue, &view.job.spec.kind)
}

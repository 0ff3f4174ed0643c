//! Which jobs limits keep from starting, for whoever looks at them (H5).

use backstop_core::job::{JobView, State};
use backstop_core::run_limit::{RunLimit, RunLimitView};
use backstop_store::{Error as StoreError, Store};

use crate::parts::EngineParts;

impl EngineParts {
    /// Says of each job whether a limit keeps it from starting. Only where due jobs that limits are about are among
    /// them is anything asked.
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
        for view in &mut pending {
            let due = |limit: &&RunLimitView| view.record.is_due(limit.now) && is_about(&limit.limit, view);
            view.held_by = seen.iter().filter(due).find_map(RunLimitView::holds);
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
    limit.covers(&view.job.spec.queue, &view.job.spec.kind)
}

//! Whose turn it is among the jobs of one ordering key (L21).

use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::job::{LinePlace, Spec, State};

use super::query::cut;
use super::tables::{ModelCommit, Tables};
use crate::line::MOST_COUNTED;
use crate::{Error, LineRange, LineView, Page};

/// The jobs of one ordering key.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelLine {
    /// Whose turn it is.
    head: Option<JobId>,
    /// The others, in the order of their submits.
    waiting: Vec<JobId>,
}

impl Tables {
    /// Puts a new job at the end of its line.
    pub(super) fn join_line(&mut self, spec: &Spec) {
        if let Some(key) = &spec.ordering_key {
            self.lines.entry(key.clone()).or_default().waiting.push(spec.id);
        }
    }

    /// Takes out who has left, and gives the turn to the next. Called after every verb.
    pub(super) fn advance_lines(&mut self, commit: &mut ModelCommit) {
        let Self { jobs, lines, .. } = self;
        for line in lines.values_mut() {
            let stays = |id: &JobId| jobs.get(id).is_some_and(|row| !row.record.leaves_line());
            line.head = line.head.filter(stays);
            line.waiting.retain(stays);
            if line.head.is_none() && !line.waiting.is_empty() {
                let next = line.waiting.remove(0);
                line.head = Some(next);
                if let Some(row) = jobs.get_mut(&next) {
                    row.record.take_turn();
                    commit.work_arrived |= row.record.state == State::Pending;
                }
            }
        }
        lines.retain(|_, line| line.head.is_some());
    }

    /// Where a job stands while it waits for its turn.
    pub(super) fn line_place(&self, id: JobId) -> Option<LinePlace> {
        let row = self.jobs.get(&id).filter(|row| row.record.waits_for_turn(&row.job.spec))?;
        let line = self.lines.get(row.job.spec.ordering_key.as_ref()?)?;
        let head = line.head.and_then(|head| Some((head, self.jobs.get(&head)?.record.state)));
        let before =
            line.waiting.iter().take_while(|other| **other != id).count() + usize::from(head.is_some());
        Some(LinePlace { head, before: capped(before) })
    }

    pub(super) fn lines_like(&self, range: &LineRange) -> Result<Page<LineView, String>, Error> {
        let view = |(key, line): (&Arc<str>, &ModelLine)| {
            let head = line.head?;
            let row = self.jobs.get(&head)?;
            Some(LineView {
                key: key.clone(),
                head,
                state: row.record.state,
                queue: row.job.spec.queue.clone(),
                kind: row.job.spec.kind.clone(),
                waiting: capped(line.waiting.len()),
            })
        };
        let span = range.span();
        let wanted = |view: &LineView| span.holds(&view.key) && (!range.blocked || view.is_blocked());
        let views = self.lines.iter().filter_map(view).filter(wanted);
        cut(views, range.limit, |view| view.key.to_string())
    }
}

fn capped(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX).min(MOST_COUNTED)
}

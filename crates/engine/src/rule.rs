//! Failure rules at run time (F18): kept in the store, tried on past failures, followed by every worker within a
//! second.

pub use backstop_core::failure::{Rule, RuleAction, RuleError, RuleId, RuleMatch};

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::failure::{RuleInput, RuleSet};
use backstop_core::job::{Attempt, JobView};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, JobFilter,
    PageRequest, Store,
};
use tokio::time::Instant;

use crate::engine::Backstop;

/// How old the rules that a worker follows may be. Only failures look at them, so an idle worker never asks.
const FRESH: Duration = Duration::from_secs(1);

/// Rules that a store holds at most: each failure may be compared with all of them.
const MOST: usize = 500;

/// The rules as this process last read them.
#[derive(Debug, Default)]
pub(crate) struct RuleCache {
    read: Mutex<Option<(Instant, Arc<RuleSet>)>>,
    /// One task reads, the others wait for it instead of asking too.
    reading: tokio::sync::Mutex<()>,
}

impl RuleCache {
    fn known(&self) -> Option<(Instant, Arc<RuleSet>)> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fresh(&self) -> Option<Arc<RuleSet>> {
        self.known().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, book)| book)
    }

    /// The rules in force. A store that is away leaves the ones that were read last: a failure is never kept waiting
    /// for the rule that might be about it.
    pub(crate) async fn book(&self, store: &dyn Store) -> Arc<RuleSet> {
        if let Some(book) = self.fresh() {
            return book;
        }
        let _one = self.reading.lock().await;
        if let Some(book) = self.fresh() {
            return book;
        }
        let book = match read(store).await {
            Ok(rules) => {
                let (book, left_out) = RuleSet::compile(rules);
                for (rule, error) in left_out {
                    tracing::warn!(%rule, %error, "a failure rule cannot be used and is skipped");
                }
                Arc::new(book)
            }
            Err(error) => {
                tracing::debug!(%error, "failure rules cannot be read; those that were read before stay in force");
                self.known().map(|(_, book)| book).unwrap_or_default()
            }
        };
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), book.clone()));
        book
    }

    fn forget(&self) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

async fn documents(store: &dyn Store) -> Result<Vec<Document>, StoreError> {
    Ok(store.documents(DocumentRange::first(Drawer::Rules, MOST)).await?.items)
}

/// Every rule; a document that is none is reported and passed by.
async fn read(store: &dyn Store) -> Result<Vec<Rule>, StoreError> {
    let parse = |document: Document| match serde_json::from_str(&document.body) {
        Ok(rule) => Some(rule),
        Err(error) => {
            tracing::warn!(key = document.key, %error, "a stored failure rule cannot be read and is skipped");
            None
        }
    };
    Ok(documents(store).await?.into_iter().filter_map(parse).collect())
}

/// What a rule would have done to a failure of the past.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Trial {
    /// The job.
    pub job: backstop_core::JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Which run failed.
    pub run: u32,
    /// When.
    pub at: Timestamp,
    /// The sanitized error.
    pub error: String,
    /// What was decided then.
    pub decided: String,
}

/// How a rule fared against past failures.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Rehearsal {
    /// Failed runs that were looked at.
    pub looked_at: usize,
    /// Those it would have decided about, newest job first.
    pub matched: Vec<Trial>,
}

/// Why a rule was not kept or changed.
#[derive(Debug, thiserror::Error)]
pub enum RuleProblem {
    /// It cannot be used.
    #[error(transparent)]
    Invalid(#[from] RuleError),
    /// Another one has its name.
    #[error("there is a rule `{0}` already; remove it first, or choose another name")]
    Exists(RuleId),
    /// There is none of this name.
    #[error("there is no rule `{0}`; `backstop rule list` shows those that exist")]
    Unknown(RuleId),
    /// Somebody else changed it at the same moment.
    #[error("rule `{0}` was changed by somebody else in the meantime; look at it and try again")]
    Changed(RuleId),
    /// There are too many.
    #[error("there are {MOST} rules already; remove some before adding another")]
    TooMany,
    /// The store is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The failure rules of a store: see [`Backstop::rules`].
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    engine: &'a Backstop,
}

impl Backstop {
    /// Failure rules: what operators say of failures while programs run (F18).
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::rule::{Rule, RuleAction, RuleMatch};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let rule = Rule {
    ///     id: "gone".parse()?,
    ///     note: "the shop has closed".into(),
    ///     matches: RuleMatch { text: Some("410 Gone".into()), ..RuleMatch::default() },
    ///     action: RuleAction::Permanent,
    ///     enabled: true,
    ///     position: 0,
    ///     created_at: backstop::Timestamp::EPOCH,
    ///     created_by: "ann".into(),
    /// };
    /// engine.rules().add(&rule).await?;
    /// assert_eq!(engine.rules().list().await?, [rule]);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn rules(&self) -> Rules<'_> {
        Rules { engine: self }
    }

    /// Pauses the queue of a job because a rule says so. It happens before the run's end is written, so that a crash in
    /// between leaves a paused queue and never an open one.
    pub(crate) async fn pause_by_rule(&self, queue: &str, rule: &RuleId) {
        let note = format!("failure rule `{rule}`");
        match self.inner.store.pause_queue(queue, true, Some(&note)).await {
            Ok(true) => tracing::warn!(queue, %rule, "a failure rule has paused a queue"),
            Ok(false) => {}
            Err(error) => tracing::error!(queue, %rule, %error, "a failure rule could not pause a queue"),
        }
    }
}

impl Rules<'_> {
    /// Every failure rule, in the order they are asked (F18).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<Rule>, StoreError> {
        let mut rules = read(&*self.engine.inner.store).await?;
        rules.sort_by(|a, b| (a.position, &a.id).cmp(&(b.position, &b.id)));
        Ok(rules)
    }

    /// Keeps a new failure rule. Every worker follows it within a second, this process at once.
    ///
    /// # Errors
    /// When it cannot match or do anything, its name is taken, or the store is away.
    pub async fn add(self, rule: &Rule) -> Result<(), RuleProblem> {
        rule.validate()?;
        if documents(&*self.engine.inner.store).await?.len() >= MOST {
            return Err(RuleProblem::TooMany);
        }
        let body = serde_json::to_string(rule).expect("a rule is plain data");
        match self.write(&rule.id, Expect::Absent, Some(body)).await? {
            true => Ok(()),
            false => Err(RuleProblem::Exists(rule.id.clone())),
        }
    }

    /// Removes a failure rule.
    ///
    /// # Errors
    /// When there is none of this name, or the store is away.
    pub async fn remove(self, id: &RuleId) -> Result<Rule, RuleProblem> {
        self.change(id, |_| None).await
    }

    /// Switches a failure rule on or off, and answers it as it is now.
    ///
    /// # Errors
    /// When there is none of this name, or the store is away.
    pub async fn enable(self, id: &RuleId, enabled: bool) -> Result<Rule, RuleProblem> {
        self.change(id, |rule| Some(Rule { enabled, ..rule })).await
    }

    async fn change(
        self,
        id: &RuleId,
        change: impl FnOnce(Rule) -> Option<Rule>,
    ) -> Result<Rule, RuleProblem> {
        let unknown = || RuleProblem::Unknown(id.clone());
        let shelf = DocumentRange::first(Drawer::Rules, 1).under(id.as_str());
        let found = self.engine.inner.store.documents(shelf).await?.items.pop();
        let document = found.filter(|document| document.key == id.as_str()).ok_or_else(unknown)?;
        let rule: Rule = serde_json::from_str(&document.body).map_err(|error| StoreError::Corrupt {
            location: self.engine.inner.store.info().location,
            problem: format!("rule `{id}`: {error}"),
        })?;
        let changed = change(rule.clone());
        let body = changed.as_ref().map(|rule| serde_json::to_string(rule).expect("a rule is plain data"));
        match self.write(id, Expect::Revision(document.revision), body).await? {
            true => Ok(changed.unwrap_or(rule)),
            false => Err(RuleProblem::Changed(id.clone())),
        }
    }

    async fn write(self, id: &RuleId, expect: Expect, body: Option<String>) -> Result<bool, StoreError> {
        let edit = Edit { drawer: Drawer::Rules, key: id.to_string(), expect, body: body.map(Into::into) };
        let amended = self.engine.inner.store.amend(Amend { edits: vec![edit], ..Amend::default() }).await?;
        self.engine.inner.rules.forget();
        Ok(matches!(amended, Amended::Done { .. }))
    }

    /// Tries a rule on the latest failures of the newest jobs, without changing anything.
    ///
    /// It looks at the latest failed run of up to `most` jobs that `filter` finds and that have failed.
    ///
    /// # Errors
    /// When the rule cannot be used, or the store is away.
    pub async fn rehearse(
        self,
        rule: &Rule,
        filter: JobFilter,
        most: usize,
    ) -> Result<Rehearsal, RuleProblem> {
        rule.validate()?;
        let (book, _) = RuleSet::compile(vec![Rule { enabled: true, ..rule.clone() }]);
        let mut rehearsal = Rehearsal { looked_at: 0, matched: Vec::new() };
        let mut page = PageRequest::first(most.min(500));
        while rehearsal.looked_at < most {
            let found = self.engine.inner.store.list(filter.clone(), page).await?;
            for view in found.items.iter().filter(|view| view.record.last_failed_run.is_some()) {
                if rehearsal.looked_at == most {
                    break;
                }
                if let Some(run) = self.failed_run(view).await? {
                    rehearsal.looked_at += 1;
                    rehearsal.matched.extend(try_on(&book, view, &run));
                }
            }
            page.after = found.next;
            if found.next.is_none() {
                break;
            }
        }
        Ok(rehearsal)
    }

    async fn failed_run(self, view: &JobView) -> Result<Option<Attempt>, StoreError> {
        let Some(number) = view.record.last_failed_run else { return Ok(None) };
        let page = PageRequest { limit: 1, after: number.checked_add(1) };
        Ok(self.engine.inner.store.attempts(view.job.spec.id, page).await?.items.pop())
    }
}

fn try_on(book: &RuleSet, view: &JobView, run: &Attempt) -> Option<Trial> {
    let failure = run.failure.as_ref()?;
    let facts = RuleInput {
        kind: &view.job.spec.kind,
        queue: &view.job.spec.queue,
        cause: run.cause,
        error_type: &failure.error_type,
        message: &failure.message,
    };
    book.judge(&facts)?;
    let decided = run.decision.as_ref().map_or("nothing", |decision| decision.verdict.word());
    Some(Trial {
        job: view.job.spec.id,
        kind: view.job.spec.kind.to_string(),
        queue: view.job.spec.queue.to_string(),
        run: run.number,
        at: run.finished_at,
        error: failure.message.clone(),
        decided: decided.to_owned(),
    })
}

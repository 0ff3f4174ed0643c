//! Failure rules at run time (F18): kept in the store, tried on past failures, followed by every worker within a
//! second.

pub use backstop_core::failure::{Rule, RuleAction, RuleError, RuleId, RuleMatch};

pub(crate) mod cache;

use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_core::failure::{RuleInput, RuleSet};
use backstop_core::job::{Attempt, JobView};
use backstop_store::{
    Amend, Amended, DocumentRange, Drawer, Edit, Error as StoreError, Expect, JobFilter, PageRequest,
};

use self::cache::MOST;
use crate::engine::Backstop;
use crate::parts::EngineParts;

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
    parts: &'a Arc<EngineParts>,
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
        Rules { parts: &self.parts }
    }
}

impl Rules<'_> {
    /// Every failure rule, in the order they are asked (F18).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<Rule>, StoreError> {
        let mut rules = cache::read(&*self.parts.store).await?;
        rules.sort_by(|a, b| (a.position, &a.id).cmp(&(b.position, &b.id)));
        Ok(rules)
    }

    /// Keeps a new failure rule. Every worker follows it within a second, this process at once.
    ///
    /// # Errors
    /// When it cannot match or do anything, its name is taken, or the store is away.
    pub async fn add(self, rule: &Rule) -> Result<(), RuleProblem> {
        rule.validate()?;
        if cache::documents(&*self.parts.store).await?.len() >= MOST {
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
        let range = DocumentRange::first(Drawer::Rules, 1).under(id.as_str());
        let found = self.parts.store.documents(range).await?.items.pop();
        let document = found.filter(|document| document.key == id.as_str()).ok_or_else(unknown)?;
        let rule: Rule = serde_json::from_str(&document.body).map_err(|error| StoreError::Corrupt {
            location: self.parts.store.info().location,
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
        let amended = self.parts.store.amend(Amend { edits: vec![edit], ..Amend::default() }).await?;
        self.parts.rules.forget();
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
            let found = self.parts.store.list(filter.clone(), page).await?;
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
        Ok(self.parts.store.attempts(view.job.spec.id, page).await?.items.pop())
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

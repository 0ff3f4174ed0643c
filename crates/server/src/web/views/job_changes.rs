//! The same change of all jobs that a list finds: what will happen to how many, and the button that does it.

use axum::http::StatusCode;
use axum::response::Response;
use backstop::State;
use backstop_core::job::JobChangeVerb;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::jobs::KEPT;
use crate::shape::{ChangedJobs, JobSurvey, PurgeAnswer};
use crate::web::actions::{DEAD_PURGE, JOBS_CHANGE, PageAction};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, number, short};

/// What is shown of the groups.
const GROUPS: usize = 12;

/// What can be done to all jobs of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListChange {
    /// They stay, in another state.
    Change(JobChangeVerb),
    /// They leave for good (D5).
    Purge,
}

impl ListChange {
    const ALL: [Self; 4] = [
        Self::Change(JobChangeVerb::Cancel),
        Self::Change(JobChangeVerb::Pause),
        Self::Change(JobChangeVerb::Resume),
        Self::Purge,
    ];

    /// What can be done to jobs in this state.
    pub(super) fn of(status: State) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |one| match one {
            Self::Change(verb) => verb.leads_out_of(status),
            Self::Purge => status == State::Failed,
        })
    }

    /// Its name in an address.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Change(verb) => verb.as_str(),
            Self::Purge => "purge",
        }
    }

    /// The first words of a button.
    pub(super) const fn words(self) -> [&'static str; 2] {
        match self {
            Self::Change(JobChangeVerb::Cancel) => ["Cancel", ""],
            Self::Change(JobChangeVerb::Pause) => ["Pause", ""],
            Self::Change(JobChangeVerb::Resume) => ["Resume", ""],
            Self::Purge => ["Remove", " for good"],
        }
    }

    /// What makes it.
    pub(super) const fn action(self) -> &'static PageAction {
        match self {
            Self::Change(_) => &JOBS_CHANGE,
            Self::Purge => &DEAD_PURGE,
        }
    }

    /// Jobs that one call changes at most.
    const fn at_once(self) -> u64 {
        match self {
            Self::Change(_) => backstop::job_changes::MOST_CHANGED,
            Self::Purge => 500,
        }
    }

    /// What that means for them.
    const fn meaning(self) -> &'static str {
        match self {
            Self::Change(JobChangeVerb::Cancel) => {
                "They are canceled for good; those that run are told to stop. This cannot be undone."
            }
            Self::Change(JobChangeVerb::Pause) => "They are held back until somebody resumes them.",
            Self::Change(JobChangeVerb::Resume) => "They go on where they were.",
            Self::Purge => "Nothing is kept of them, not even in the archive. This cannot be undone.",
        }
    }

    /// Counts what it would change.
    async fn count(self, visit: &PageVisit, wanted: &Map<String, Value>) -> Result<JobSurvey, PageProblem> {
        let mut dry_run = wanted.clone();
        dry_run.insert("dry_run".to_owned(), Value::from(true));
        let (_, path) = self.action().route.split_once(' ').unwrap_or_default();
        let dry_run = Value::Object(dry_run);
        let survey = match self {
            Self::Change(_) => visit.calls.ask::<ChangedJobs>(path, &dry_run).await?.survey,
            Self::Purge => visit.calls.ask::<PurgeAnswer>(path, &dry_run).await?.survey,
        };
        Ok(survey.unwrap_or(JobSurvey { groups: Vec::new(), complete: true }))
    }
}

pub(in crate::web) async fn show(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Jobs, "Change jobs", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let asked = visit.asked("change").unwrap_or_default();
    let change = ListChange::ALL.into_iter().find(|change| change.name() == asked).ok_or_else(|| {
        PageProblem::new(StatusCode::NOT_FOUND, "there is no such change", "go back to the list of jobs")
    })?;
    let mut wanted = Map::new();
    for name in KEPT {
        if let Some(value) = visit.asked(name) {
            wanted.insert(name.to_owned(), Value::from(value.into_owned()));
        }
    }
    // The state alone narrows nothing down.
    let is_all = wanted.keys().all(|name| name == "status");
    match change {
        ListChange::Change(verb) => drop(wanted.insert("change".to_owned(), Value::from(verb.as_str()))),
        // It is about dead letters only.
        ListChange::Purge => drop(wanted.remove("status")),
    }
    let survey = change.count(visit, &wanted).await?;
    if is_all {
        wanted.insert("all".to_owned(), Value::from("true"));
    }
    let back = visit.path("/jobs", &KEPT, &[]);
    let lead = html! { "All that the list finds: " a href=(back) { "look at it" } "." };
    let [word, more] = change.words();
    Ok(html! {
        (heading(&format!("{word} jobs{more}"), &lead, &html! {}))
        @if survey.jobs() > 0 {
            (found(&survey))
            (make(visit, change, &wanted, &survey, &back))
        } @else { section.will { p.lead { "There is nothing to change." } } }
    })
}

fn found(survey: &JobSurvey) -> Markup {
    let more = survey.groups.len().saturating_sub(GROUPS);
    html! {
        div.found role="status" {
            ul.plain { @for group in survey.groups.iter().take(GROUPS) {
                li {
                    (number(group.jobs)) " on " code { (short(&group.queue, 60)) } ", "
                    code { (short(&group.kind, 60)) }
                }
            } }
            @if more > 0 { p { "and " (counted(more as u64, "more group")) } }
        }
    }
}

/// What will happen, and the button that does it.
fn make(
    visit: &PageVisit,
    change: ListChange,
    wanted: &Map<String, Value>,
    survey: &JobSurvey,
    back: &str,
) -> Markup {
    let (jobs, at_least) = (survey.jobs(), if survey.complete { "" } else { "at least " });
    let ([word, more], jobs_said) = (change.words(), counted(jobs, "job"));
    let guarded = survey.complete && change != ListChange::Purge;
    let fields = html! {
        @for (name, value) in wanted {
            input type="hidden" name=(name) value=(value.as_str().unwrap_or_default());
        }
        @if guarded { input type="hidden" name="expected" value=(jobs); }
        @if change == ListChange::Change(JobChangeVerb::Cancel) {
            (form::text("note", "Reason", "", "kept with each job"))
        }
    };
    html! {
        section.will {
            h2 { "What will happen" }
            p.lead {
                (word) " " (at_least) (jobs_said) (more) ". " (change.meaning())
                @if guarded { " Nothing happens if there are more of them by then." }
            }
            @if jobs > change.at_once() {
                p { "The newest " (number(change.at_once())) " go first; do it again for the others." }
            }
            (visit.form_then(change.action(), &fields, back, &format!("{word} {jobs_said}{more}")))
        }
    }
}

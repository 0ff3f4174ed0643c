//! What can be asked of a store, and how it answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use backstop_core::depth::DepthScope;
use backstop_core::failure::{Fingerprint, TerminalReason};
use backstop_core::incident::{Incident, IncidentState};
use backstop_core::job::{Attempt, JobDetail, Spec, State};
use backstop_core::{JobId, Limits, Timestamp, WorkerId, tenant};
use serde::{Deserialize, Serialize};

use crate::KnownKind;

/// Which jobs to list; all conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// On this queue.
    pub queue: Option<String>,
    /// On a queue of this tenant; [`NO_TENANT`](backstop_core::tenant::NO_TENANT) for the queues of none.
    pub tenant: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// In this state, as it is shown: a pending job in a held lane is waiting.
    pub state: Option<State>,
    /// With this tag.
    pub tag: Option<String>,
    /// With this business key.
    pub business_key: Option<String>,
    /// Dead for this reason.
    pub reason: Option<TerminalReason>,
    /// Last failed with this fingerprint.
    pub fingerprint: Option<String>,
    /// Stored at or after this moment.
    pub created_after: Option<Timestamp>,
    /// Stored before this moment.
    pub created_before: Option<Timestamp>,
    /// Ended at or after this moment. A job that has not ended does not match; a paused dead letter has.
    pub finished_after: Option<Timestamp>,
    /// Ended before this moment, likewise.
    pub finished_before: Option<Timestamp>,
    /// With this id or a higher one. Together with [`PageRequest::after`], it reads no more than the ids between the
    /// two.
    pub id_from: Option<JobId>,
}

/// Which incidents to list; all conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IncidentFilter {
    /// In this state.
    pub state: Option<IncidentState>,
    /// With dead letters that are here now.
    pub open: bool,
    /// Without any.
    pub closed: bool,
    /// Of this tenant's jobs.
    pub tenant: Option<String>,
    /// Behind this one: the incidents of a list go by when they were last seen, latest first, then by fingerprint.
    pub after: Option<(Timestamp, Fingerprint)>,
}

impl IncidentFilter {
    /// What the stored text of a standing is like in the state asked for, as a pattern of SQL's LIKE: it begins with
    /// its state. One that is not stored is new, as `{"state":"new"`.
    #[must_use]
    pub fn standing_like(&self) -> Option<String> {
        self.state.map(|state| format!("{{\"state\":\"{state}\"%"))
    }

    /// True when an incident is one of these.
    #[must_use]
    pub fn finds(&self, incident: &Incident) -> bool {
        let of_tenant = |tenant: &String| incident.kind.starts_with(&tenant::incident_prefix(tenant));
        self.state.is_none_or(|state| incident.standing.state == state)
            && (!self.open || incident.open > 0)
            && (!self.closed || incident.open == 0)
            && self.tenant.as_ref().is_none_or(of_tenant)
            && self.after.as_ref().is_none_or(|(last_seen, fingerprint)| {
                incident.last_seen < *last_seen
                    || (incident.last_seen == *last_seen && incident.fingerprint > *fingerprint)
            })
    }
}

/// How many jobs a filter finds, by what they have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// The groups, largest first, then by queue, kind, reason and fingerprint.
    pub groups: Vec<SurveyGroup>,
    /// False when there are more jobs than were to be counted: then the sums are lower bounds.
    pub complete: bool,
}

impl Survey {
    /// A survey of these groups, in their order.
    #[must_use]
    pub fn of(mut groups: Vec<SurveyGroup>, complete: bool) -> Self {
        let name = |group: &SurveyGroup| {
            let reason = group.reason.map(TerminalReason::as_str);
            (group.queue.clone(), group.kind.clone(), reason, group.fingerprint.clone())
        };
        groups.sort_by_cached_key(|group| (std::cmp::Reverse(group.jobs), name(group)));
        Self { groups, complete }
    }

    /// How many jobs there are in all groups.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        self.groups.iter().map(|group| group.jobs).sum()
    }
}

/// Jobs of a survey that have everything in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SurveyGroup {
    /// Their queue.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// Why they are dead, if they are.
    pub reason: Option<TerminalReason>,
    /// The fingerprint of their latest failure.
    pub fingerprint: Option<String>,
    /// How many.
    pub jobs: u64,
}

/// A page to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest<K> {
    /// Rows at most.
    pub limit: usize,
    /// The key of the last row of the page before.
    pub after: Option<K>,
}

impl<K> PageRequest<K> {
    /// The first page.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// A page that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, K> {
    /// The rows.
    pub items: Vec<T>,
    /// The key to ask for the next page with; none on the last one.
    pub next: Option<K>,
}

/// A job that has left the hot tables (L16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// When it left.
    pub archived_at: Timestamp,
    /// How it had ended.
    pub state: State,
    /// False when no run of it was ever started: then it is never removed by age (L16).
    pub ran: bool,
    /// All that was known of it, as JSON text: `job` and `attempts`, both as every interface shows them, the runs
    /// oldest first; and what [`Archived::submitted`] reads.
    pub document: Arc<str>,
}

impl Archived {
    /// What is kept of a job that leaves at `archived_at` with these runs, oldest first.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn new(
        job: &JobDetail,
        attempts: &[Attempt],
        archived_at: Timestamp,
    ) -> Result<Self, serde_json::Error> {
        #[derive(Serialize)]
        struct Document<'a> {
            job: &'a JobDetail,
            attempts: &'a [Attempt],
            #[serde(skip_serializing_if = "Option::is_none")]
            submitted: Option<&'a Spec>,
        }
        let (spec, record) = (&job.view.job.spec, &job.view.record);
        let is_step = spec.part_of().is_some_and(|part| part.node.is_some());
        let may_run_yet = is_step && record.state == State::Canceled && record.runs == 0;
        let submitted = may_run_yet.then_some(spec);
        let document = serde_json::to_string(&Document { job, attempts, submitted })?.into();
        Ok(Self { archived_at, state: job.view.record.state, ran: job.view.record.runs > 0, document })
    }

    /// What was submitted, of a step of a workflow that was called off before it ran: it runs after all, as another
    /// job, when the dead step before it is driven again (W4). None of any other job.
    #[must_use]
    pub fn submitted(&self) -> Option<Spec> {
        #[derive(Deserialize)]
        struct Submitted {
            submitted: Option<Spec>,
        }
        serde_json::from_str::<Submitted>(&self.document).ok()?.submitted
    }
}

/// A queue with its kept counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Queue))]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// True when claims pass it by.
    pub paused: bool,
    /// Who or what paused it, in words, if that was said.
    pub pause_note: Option<String>,
    /// Jobs that may be claimed now or later; those of held lanes are not counted here.
    pub pending: u64,
    /// Those of them that share something while they run: a key, a name, permits (H5, H6). It says whether
    /// [`crate::InspectStore::sharing_work`] has anything to tell, and is not shown.
    #[serde(skip)]
    pub sharing: u64,
    /// Jobs held for a dependency, a signal or code.
    pub waiting: u64,
    /// Jobs that workers hold.
    pub running: u64,
    /// Jobs that people hold back.
    pub paused_jobs: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Dead letters.
    pub failed: u64,
    /// Jobs that were canceled.
    pub canceled: u64,
    /// When the longest-waiting due job became due.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub oldest_due: Option<Timestamp>,
    /// Live workers that serve it.
    pub workers: u64,
}

/// Which queues to list, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueRange {
    /// How their names begin; empty for all.
    pub prefix: String,
    /// The last name of the page before.
    pub after: Option<String>,
    /// How many at most; none for all.
    pub limit: Option<usize>,
}

impl QueueRange {
    /// The queues whose names begin like this.
    #[must_use]
    pub fn under(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// The queues of a tenant.
    #[must_use]
    pub fn of_tenant(tenant: &str) -> Self {
        Self::under(tenant::queue_prefix(tenant))
    }

    /// True when a queue of this name is in it.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        name.starts_with(&self.prefix) && self.after.as_deref().is_none_or(|after| name > after)
    }

    /// The names that it is about, whatever its page.
    #[must_use]
    pub fn span(&self) -> NameRange {
        NameRange::under(&self.prefix).behind(self.after.as_deref())
    }
}

/// Names in the order of their bytes, from one on and below another. Stores read it by an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRange {
    /// The first one, if it is there.
    pub from: String,
    /// The first one that is not in it.
    pub end: String,
}

impl Default for NameRange {
    /// All names.
    fn default() -> Self {
        Self { from: String::new(), end: behind_all() }
    }
}

impl NameRange {
    /// The names that begin with `prefix`.
    #[must_use]
    pub fn under(prefix: &str) -> Self {
        let mut end: Vec<char> = prefix.chars().collect();
        while let Some(last) = end.pop() {
            // The order of bytes in UTF-8 is that of the characters' numbers.
            if let Some(next) = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32) {
                end.push(next);
                return Self { from: prefix.to_owned(), end: end.into_iter().collect() };
            }
        }
        Self { from: prefix.to_owned(), end: behind_all() }
    }

    /// The names of the queues whose jobs are counted there.
    #[must_use]
    pub fn of_depth(scope: &DepthScope) -> Self {
        match scope {
            DepthScope::Queue(name) => Self::one(name),
            DepthScope::Tenant(tenant) => QueueRange::of_tenant(tenant).span(),
        }
    }

    /// This name alone.
    #[must_use]
    pub fn one(name: &str) -> Self {
        Self { from: name.to_owned(), end: just_after(name) }
    }

    /// Those of them that come after a name, if one is given.
    #[must_use]
    pub fn behind(mut self, name: Option<&str>) -> Self {
        if let Some(name) = name {
            self.from = self.from.max(just_after(name));
        }
        self
    }

    /// True when every name is in it.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.from.is_empty() && self.end == behind_all()
    }

    /// True when a name is in it.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        *self.from <= *name && *name < *self.end
    }
}

/// A text that comes after every name: none is so long, and no character comes after this one.
fn behind_all() -> String {
    char::MAX.to_string().repeat(Limits::default().name_chars + 1)
}

/// A text between a name and all that come after it: control characters are in none of them.
fn just_after(name: &str) -> String {
    format!("{name}\u{1}")
}

impl JobFilter {
    /// The names of the queues in which it can find something.
    #[must_use]
    pub fn queue_names(&self) -> NameRange {
        match (&self.queue, &self.tenant) {
            (Some(queue), _) => NameRange::one(queue),
            (None, Some(tenant)) if tenant != tenant::NO_TENANT => QueueRange::of_tenant(tenant).span(),
            (None, _) => NameRange::default(),
        }
    }
}

/// What a tenant has, as far as its limits count it (E13).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Its queues with lanes that are not retired, or that were ever paused.
    pub queues: BTreeSet<String>,
    /// The kinds of the jobs of such lanes.
    pub kinds: BTreeSet<String>,
    /// Its incidents.
    pub incidents: usize,
}

/// A worker as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerView {
    /// This incarnation.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// The version of its code.
    pub code_version: Option<String>,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// What it can run.
    pub kinds: Vec<KnownKind>,
    /// When it made itself known.
    pub started_at: Timestamp,
    /// Until when it may be silent.
    pub expires_at: Timestamp,
    /// True while its lease runs.
    pub live: bool,
    /// Jobs it holds.
    pub running: u64,
}

/// Pending jobs that no live worker of their queue knows (H10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldLane {
    /// Their queue.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// Their payload version.
    pub version: u32,
    /// How many.
    pub jobs: u64,
}

/// What a store is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreInfo {
    /// `sqlite`, `postgres`, `mysql` or `memory`.
    pub backend: &'static str,
    /// Where it is, without credentials.
    pub location: String,
}

/// One sentence of `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at.
    pub subject: String,
    /// What was found.
    pub message: String,
    /// What to do, when there is something to do.
    pub hint: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Warning,
    /// An acknowledged job could be lost, or work cannot go on.
    Bad,
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_core::incident::{IncidentUpdate, IncidentVerb, Standing};

    #[test]
    fn a_span_holds_the_names_that_begin_alike() {
        // E13
        let acme = NameRange::under("acme/");
        assert_eq!((&*acme.from, &*acme.end), ("acme/", "acme0"));
        for (name, inside) in
            [("acme/", true), ("acme/\u{10ffff}", true), ("acme", false), ("acme-b/x", false)]
        {
            assert_eq!(acme.holds(name), inside, "{name}");
            assert_eq!(QueueRange::under("acme/").holds(name), inside, "{name}");
        }
        assert!(NameRange::under("").is_all() && NameRange::under("").holds("\u{10ffff}"));
        assert_eq!(NameRange::under("a\u{10ffff}").end, "b");
        assert_eq!(NameRange::under("\u{d7ff}").end, "\u{e000}", "there is nothing in between");
        assert!(NameRange::under("\u{10ffff}").holds("\u{10ffff}\u{10ffff}"));
        let one = NameRange::one("mail");
        assert!(one.holds("mail") && !one.holds("mail s") && !one.holds("mai"));
        let rest = QueueRange { after: Some("acme/b".into()), ..QueueRange::under("acme/") }.span();
        assert!(!rest.holds("acme/b") && rest.holds("acme/b c") && !rest.holds("b"));
    }

    #[test]
    fn a_stored_standing_begins_with_its_state() {
        // D2: stores look for it there.
        for state in IncidentState::ALL {
            let filter = IncidentFilter { state: Some(state), ..IncidentFilter::default() };
            let pattern = filter.standing_like().expect("a state is asked for");
            let (begin, end) = pattern.split_at(pattern.len() - 1);
            let mut standing = Standing::default();
            let note = Some("\"state\":\"muted\"".to_owned());
            standing.say(
                &IncidentUpdate { verb: IncidentVerb::Reopen, by: "ann".into(), note },
                Timestamp::EPOCH,
            );
            let text = Standing { state, ..standing }.to_text().expect("somebody spoke");
            assert!(end == "%" && text.starts_with(begin), "{text}");
        }
    }
}

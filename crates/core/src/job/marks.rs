//! What else is remembered of a job that died or was driven again. Most jobs never have any of it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LogLines, Record, SignalWait, Spec, StepHistory, WorkflowMark};
use crate::failure::Fingerprint;
use crate::reject::RejectTally;
use crate::time::Timestamp;

/// For how long the same failure of the same job is not told again (D3).
pub const ALERT_WINDOW: Duration = Duration::from_secs(60 * 60);

/// Marks on a job's record. They are stored as one JSON text, so that a new one needs no new column.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Marks {
    /// The incident that counts this job among its dead letters (D2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<Fingerprint>,
    /// The latest alert about it (D3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<AlertMark>,
    /// The plan that drove it again last (D4).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanId>,
    /// Only code of this version or a later one may run it (D7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<String>,
    /// What the run that is under way has logged so far (F15); it goes into the ledger with the run's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logged: Option<LogLines>,
    /// When it was due for the first time since it was charged last, of a job that may not be deferred for ever (H7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred_since: Option<Timestamp>,
    /// The workflow or batch that it is a part of (W1-W6), as its job says; none once that workflow has called it off,
    /// which is no end to be noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowMark>,
    /// What is stored of its steps and effects (W7, W8); it stays as long as the job.
    #[serde(default, skip_serializing_if = "StepHistory::is_empty")]
    pub steps: StepHistory,
    /// The step at which its last run died (W7), of a dead letter whose run said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_at_step: Option<u32>,
    /// The signal that it waits for (W10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalWait>,
    /// How many of its items were rejected (W9); it stays as long as the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects: Option<RejectTally>,
}

/// The latest alert about a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertMark {
    /// What it was about: the failure's fingerprint, or the terminal reason of a job that no run killed.
    pub about: String,
    /// When it was raised.
    pub at: Timestamp,
    /// Repeats since then that were counted and not told (D3).
    pub suppressed: u32,
}

impl Marks {
    /// The marks as stores keep them; none when there are none.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        // A struct of texts and numbers has no way to fail.
        (*self != Self::default()).then(|| serde_json::to_string(self).unwrap_or_default())
    }

    /// The marks of a job that has succeeded, as stores keep them that read them beside the job: without what it says
    /// itself. So most parts of workflows have none to keep. [`Record::beside`] reads it.
    #[must_use]
    pub fn to_text_beside_job(&self) -> Option<String> {
        match self.workflow {
            Some(_) => Self { workflow: None, ..self.clone() }.to_text(),
            None => self.to_text(),
        }
    }

    /// Reads what [`Marks::to_text`] wrote.
    ///
    /// # Errors
    /// When the text is something else.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl Record {
    /// Sets or changes a mark; a record without any stays as small as it was.
    pub(super) fn mark(&mut self, change: impl FnOnce(&mut Marks)) {
        let mut marks = self.marks.take().unwrap_or_default();
        change(&mut marks);
        self.marks = (*marks != Marks::default()).then_some(marks);
    }

    /// The record of a job that has succeeded, with what [`Marks::to_text_beside_job`] has left to the job to say.
    #[must_use]
    pub fn beside(mut self, spec: &Spec) -> Self {
        if let Some(part) = spec.part_of() {
            self.mark(|marks| marks.workflow = Some(part.mark()));
        }
        self
    }

    /// Counts an entry into the dead letters as an alert, or as a repeat of the latest one (D3).
    pub(super) fn note_alert(&mut self, about: &str, now: Timestamp) {
        self.mark(|marks| match &mut marks.alert {
            Some(latest) if latest.about == about && now < latest.at.after(ALERT_WINDOW) => {
                latest.suppressed = latest.suppressed.saturating_add(1);
            }
            latest => *latest = Some(AlertMark { about: about.to_owned(), at: now, suppressed: 0 }),
        });
    }

    /// The incident that counts this job among its dead letters (D2).
    #[must_use]
    pub fn incident(&self) -> Option<&Fingerprint> {
        self.marks.as_ref().and_then(|marks| marks.incident.as_ref())
    }

    /// The latest alert about this job (D3).
    #[must_use]
    pub fn alert(&self) -> Option<&AlertMark> {
        self.marks.as_ref().and_then(|marks| marks.alert.as_ref())
    }

    /// The plan that drove it again last (D4).
    #[must_use]
    pub fn plan(&self) -> Option<&PlanId> {
        self.marks.as_ref().and_then(|marks| marks.plan.as_ref())
    }

    /// The version of the code that may run it, or a later one (D7).
    #[must_use]
    pub fn needs(&self) -> Option<&str> {
        self.marks.as_ref().and_then(|marks| marks.needs.as_deref())
    }

    /// True when code of this version may run it (D7).
    #[must_use]
    pub fn accepts_code(&self, version: Option<&str>) -> bool {
        self.needs().is_none_or(|needs| version.is_some_and(|have| crate::version::at_least(have, needs)))
    }
}

/// The identity of a re-drive plan (D4): `rd-` and 8 to 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlanId(String);

/// A text is not the id of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not the id of a re-drive plan; copy one that `backstop redrive list` shows, such as rd-1f0c9a22"
)]
pub struct InvalidPlanId(String);

impl PlanId {
    /// The id of a number, which is made outside.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(format!("rd-{number:08x}"))
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for PlanId {
    type Err = InvalidPlanId;

    fn from_str(text: &str) -> Result<Self, InvalidPlanId> {
        let digits = text.strip_prefix("rd-").unwrap_or_default();
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if is_hex && (8..=16).contains(&digits.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidPlanId(crate::text::truncate_chars(text, 40).into_owned()))
        }
    }
}

impl TryFrom<String> for PlanId {
    type Error = InvalidPlanId;

    fn try_from(text: String) -> Result<Self, InvalidPlanId> {
        text.parse()
    }
}

impl From<PlanId> for String {
    fn from(id: PlanId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::PartOf;
    use crate::{JobId, WorkflowId};

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn record() -> Record {
        Record::new(&Spec::new(JobId::from_u128(1), "work", "{}"), NOW)
    }

    #[test]
    fn the_same_alert_within_an_hour_is_counted_and_not_told() {
        // D3
        let mut record = record();
        record.note_alert("aaaa", NOW);
        let told = record.alert().cloned().unwrap();
        assert_eq!((told.at, told.suppressed), (NOW, 0));
        let almost = NOW.after(ALERT_WINDOW - Duration::from_micros(1));
        record.note_alert("aaaa", almost);
        assert_eq!(record.alert().map(|alert| (alert.at, alert.suppressed)), Some((NOW, 1)));
        record.note_alert("aaaa", NOW.after(ALERT_WINDOW));
        assert_eq!(
            record.alert().map(|alert| (alert.at, alert.suppressed)),
            Some((NOW.after(ALERT_WINDOW), 0))
        );
    }

    #[test]
    fn another_failure_of_the_same_job_is_told_at_once() {
        // D3
        let mut record = record();
        record.note_alert("aaaa", NOW);
        record.note_alert("bbbb", NOW.after(Duration::from_secs(1)));
        assert_eq!(record.alert().map(|alert| (alert.about.as_str(), alert.suppressed)), Some(("bbbb", 0)));
    }

    #[test]
    fn marks_go_round_and_none_are_nothing() {
        assert_eq!(Marks::default().to_text(), None);
        let mut record = record();
        record.note_alert("aaaa", NOW);
        record.mark(|marks| {
            marks.plan = Some(PlanId::from_number(7));
            marks.needs = Some("1.4".into());
        });
        let marks = *record.marks.clone().unwrap();
        assert_eq!(Marks::from_text(&marks.to_text().unwrap()).unwrap(), marks);
        record.mark(|marks| *marks = Marks::default());
        assert_eq!(record.marks, None, "empty marks are not kept");
    }

    #[test]
    fn what_a_job_says_itself_is_not_kept_beside_it() {
        // W1
        let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
        let id = WorkflowId::from_u128(7);
        let part = PartOf { id, node: None, number: 0, follows: false, renewed: false, payload_from: None };
        spec.provenance_mut().part_of = Some(part.clone());
        let mut record = Record::new(&spec, NOW);
        let marks = record.marks.clone().unwrap();
        assert_eq!(marks.workflow, Some(part.mark()));
        assert_eq!(marks.to_text_beside_job(), None, "a part has nothing else");
        assert_eq!(Record { marks: None, ..record.clone() }.beside(&spec), record);
        assert_eq!(record.clone().beside(&spec), record, "also when an earlier version has kept it");

        record.note_alert("aaaa", NOW);
        let text = record.marks.as_ref().unwrap().to_text_beside_job().unwrap();
        assert!(text.contains("aaaa") && !text.contains("workflow"), "{text}");
        let read = Record { marks: Marks::from_text(&text).ok().map(Box::new), ..record.clone() };
        assert_eq!(read.beside(&spec), record);
        let plain = Record { marks: None, ..record };
        assert_eq!(plain.clone().beside(&Spec::new(JobId::from_u128(2), "work", "{}")), plain);
    }

    #[test]
    fn only_new_enough_code_is_accepted() {
        // D7
        let mut record = record();
        assert!(record.accepts_code(None), "a job without the mark takes any code");
        record.mark(|marks| marks.needs = Some("1.4".into()));
        for (version, accepted) in
            [(None, false), (Some("1.3.9"), false), (Some("1.4.0"), true), (Some("2"), true)]
        {
            assert_eq!(record.accepts_code(version), accepted, "{version:?}");
        }
    }

    #[test]
    fn a_plan_id_is_parsed_only_when_it_is_one() {
        assert_eq!("rd-00000007".parse(), Ok(PlanId::from_number(7)));
        assert_eq!(PlanId::from_number(u64::MAX).as_str().parse(), Ok(PlanId::from_number(u64::MAX)));
        for text in
            ["", "rd-", "rd-1234567", "rd-0000000G", "rd-ABCDEF00", "xx-12345678", "rd-12345678901234567"]
        {
            assert!(text.parse::<PlanId>().is_err(), "{text}");
        }
    }
}

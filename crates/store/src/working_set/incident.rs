//! Failures that a transaction counts, and what follows from the sums once they are written (D2, D7).

use std::collections::{BTreeMap, HashMap};

use backstop_core::event::{self, Event};
use backstop_core::failure::{Fingerprint, Verdict};
use backstop_core::incident::Standing;
use backstop_core::job::Ending;
use backstop_core::{JobId, Timestamp, version};

/// Failures of one fingerprint in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentCount {
    /// What they have in common.
    pub fingerprint: Fingerprint,
    /// The kind of job, of the first one.
    pub kind: String,
    /// The error's type, of the first one.
    pub error_type: String,
    /// The sanitized text, of the first one.
    pub message: String,
    /// The version of the code, of the first one.
    pub first_version: Option<String>,
    /// The last version that one of them told.
    pub last_version: Option<String>,
    /// The latest version among them, as versions are compared.
    pub top_version: Option<String>,
    /// How many.
    pub failures: i64,
    /// Of these, dead letters.
    pub dead: i64,
    /// The latest job.
    pub sample_job: JobId,
}

/// What is read of an incident after this transaction has counted its failures.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Which one.
    pub fingerprint: String,
    /// All its failures by now.
    pub failures: i64,
    /// What people said of it, as it is stored.
    pub standing: Option<String>,
}

/// What follows from counting failures.
#[derive(Debug, Default)]
pub struct Aftermath {
    /// What is to be stored of incidents that came back.
    pub standings: Vec<(String, String)>,
    /// What to tell after everything else of the commit.
    pub events: Vec<Event>,
}

impl Aftermath {
    /// Judges what was read of every incident that was counted.
    #[must_use]
    pub fn of(counts: &[IncidentCount], seen: Vec<Seen>, now: Timestamp) -> Self {
        let mut seen: HashMap<String, Seen> =
            seen.into_iter().map(|row| (row.fingerprint.clone(), row)).collect();
        let mut aftermath = Self::default();
        for count in counts {
            let Some(row) = seen.remove(count.fingerprint.as_str()) else { continue };
            if row.failures == count.failures {
                aftermath.events.push(event::incident_opened(
                    count.fingerprint.clone(),
                    count.kind.clone(),
                    now,
                ));
                continue;
            }
            let Some(text) = &row.standing else { continue };
            let mut standing = Standing::from_text(text);
            if standing.recur(count.top_version.as_deref(), now) {
                aftermath.standings.extend(standing.to_text().map(|text| (row.fingerprint, text)));
                let (fingerprint, version) = (count.fingerprint.clone(), count.top_version.clone());
                let kind = count.kind.clone();
                aftermath.events.push(event::incident_regressed(fingerprint, kind, version, now));
            }
        }
        aftermath
    }
}

impl IncidentCount {
    /// Adds the failure of a run to what a transaction has counted so far, by fingerprint.
    pub fn add(counts: &mut BTreeMap<String, Self>, job: JobId, kind: &str, ending: &Ending) {
        let Some(failure) = ending.incident() else { return };
        let seen_in = ending.code_version.as_deref();
        let count = counts.entry(failure.fingerprint.to_string()).or_insert_with(|| Self {
            fingerprint: failure.fingerprint.clone(),
            kind: kind.to_owned(),
            error_type: failure.error_type.clone(),
            message: failure.message.clone(),
            first_version: seen_in.map(ToOwned::to_owned),
            last_version: None,
            top_version: None,
            failures: 0,
            dead: 0,
            sample_job: job,
        });
        count.failures += 1;
        count.dead += i64::from(matches!(ending.decision.verdict, Verdict::Dead { .. }));
        count.sample_job = job;
        if let Some(seen_in) = seen_in {
            let top = count.top_version.as_deref().map_or(seen_in, |top| version::later(top, seen_in));
            count.top_version = Some(top.to_owned());
            count.last_version = Some(seen_in.to_owned());
        }
    }
}

//! Incidents: counted with every failure, spoken of by people, told when they open or come back (D2, D7).

use std::time::Duration;

use backstop_core::alert::Notice;
use backstop_core::event;
use backstop_core::failure::{Fingerprint, Verdict};
use backstop_core::incident::{Incident, IncidentUpdate, Standing};
use backstop_core::job::{Ending, FailureRecord, Record};
use backstop_core::{JobId, Timestamp, version};

use super::lanes::count;
use super::tables::{ModelCommit, ModelJob, Tables};
use crate::{Drawer, Duty, Error, IncidentFilter, Term, retire};

impl Tables {
    pub(super) fn count_incident(
        &mut self,
        job: JobId,
        kind: &str,
        ending: &Ending,
        commit: &mut ModelCommit,
    ) {
        let Some(failure) = ending.incident() else { return };
        let (fingerprint, seen_in) = (&failure.fingerprint, ending.code_version.as_deref());
        let sighting = commit.incidents.entry(fingerprint.clone()).or_default();
        sighting.kind.get_or_insert_with(|| kind.to_owned());
        if let Some(seen_in) = seen_in {
            let latest = sighting.version.get_or_insert_with(|| seen_in.to_owned());
            *latest = version::later(latest, seen_in).to_owned();
        }
        let incident = self.incidents.entry(fingerprint.clone()).or_insert_with(|| {
            sighting.opened = true;
            first(job, kind, failure, seen_in, commit.now)
        });
        incident.failures += 1;
        incident.dead += u64::from(matches!(ending.decision.verdict, Verdict::Dead { .. }));
        incident.last_seen = commit.now;
        incident.last_version = seen_in.map(ToOwned::to_owned).or(incident.last_version.take());
        incident.sample_job = job;
    }

    /// After all failures of a commit: which incidents came back, and what to tell.
    pub(super) fn settle_incidents(&mut self, commit: &mut ModelCommit) {
        for (fingerprint, sighting) in std::mem::take(&mut commit.incidents) {
            let Some(incident) = self.incidents.get_mut(&fingerprint) else { continue };
            let (kind, now) = (sighting.kind.unwrap_or_default(), commit.now);
            if sighting.opened {
                commit.events.push(event::incident_opened(fingerprint, kind, now));
            } else if incident.standing.recur(sighting.version.as_deref(), now) {
                commit.events.push(event::incident_regressed(fingerprint, kind, sighting.version, now));
            }
        }
    }

    /// Puts a raised alert into its drawer (D3).
    pub(super) fn raise_alert(
        &mut self,
        row: &ModelJob,
        failure: Option<&FailureRecord>,
        code_version: Option<&str>,
        commit: &ModelCommit,
    ) {
        if !commit.wants.alerts {
            return;
        }
        if let Some(notice) = Notice::of(&row.job, &row.record, failure, code_version, commit.now) {
            let body = serde_json::to_string(&notice).expect("a notice is plain data");
            self.documents.insert((Drawer::Alerts, notice.key()), (1, body.into()));
        }
    }

    /// An incident as it is shown: the model counts its open dead letters on every question.
    fn shown(&self, incident: &Incident) -> Incident {
        let marked = |record: &Record| record.incident() == Some(&incident.fingerprint);
        let open = count(self.jobs.values().filter(|row| marked(&row.record)));
        Incident { open, ..incident.clone() }
    }

    pub(super) fn incidents(&self, filter: &IncidentFilter, limit: usize) -> Result<Vec<Incident>, Error> {
        let shown = self.incidents.values().map(|incident| self.shown(incident));
        let mut incidents: Vec<_> = shown.filter(|incident| filter.finds(incident)).collect();
        // The map is by fingerprint and the sort is stable.
        incidents.sort_by_key(|incident| std::cmp::Reverse(incident.last_seen));
        super::query::cut(incidents.into_iter(), limit, |_| ()).map(|page| page.items)
    }

    pub(super) fn incidents_of(&self, fingerprints: &[Fingerprint]) -> Vec<Option<Incident>> {
        let find = |fingerprint| self.incidents.get(fingerprint).map(|incident| self.shown(incident));
        fingerprints.iter().map(find).collect()
    }

    pub(super) fn retire_incidents(
        &mut self,
        term: &Term,
        fingerprints: &[Fingerprint],
        keep: Duration,
        now: Timestamp,
    ) -> Result<usize, Error> {
        self.expect_term(term, Duty::Prune, now)?;
        let Some(cutoff) = retire::cutoff(keep, now) else { return Ok(0) };
        let before = self.incidents.len();
        for incident in self.incidents_of(fingerprints).into_iter().flatten() {
            if incident.is_outworn(cutoff) {
                self.incidents.remove(&incident.fingerprint);
            }
        }
        Ok(before - self.incidents.len())
    }

    pub(super) fn say(
        &mut self,
        fingerprints: &[Fingerprint],
        statement: &IncidentUpdate,
        now: Timestamp,
    ) -> Vec<Option<Incident>> {
        for fingerprint in fingerprints {
            if let Some(incident) = self.incidents.get_mut(fingerprint) {
                incident.standing.say(statement, now);
            }
        }
        self.incidents_of(fingerprints)
    }
}

fn first(job: JobId, kind: &str, failure: &FailureRecord, version: Option<&str>, now: Timestamp) -> Incident {
    Incident {
        fingerprint: failure.fingerprint.clone(),
        kind: kind.to_owned(),
        error_type: failure.error_type.clone(),
        message: failure.message.clone(),
        failures: 0,
        dead: 0,
        open: 0,
        first_seen: now,
        last_seen: now,
        first_version: version.map(ToOwned::to_owned),
        last_version: None,
        sample_job: job,
        standing: Standing::default(),
    }
}

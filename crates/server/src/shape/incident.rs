//! Incidents as they are shown, and what may be said of them.

use backstop::{JobId, Timestamp};
use backstop_core::incident::Incident;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An incident together with some of its dead letters.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct IncidentShown {
    /// The incident.
    #[serde(flatten)]
    pub incident: Incident,
    /// Its latest dead letters, a few of them.
    pub sample_jobs: Vec<JobId>,
    /// The same with the moment each of them died.
    pub samples: Vec<IncidentSample>,
}

/// A dead letter of an incident.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Sample)]
pub struct IncidentSample {
    /// The job.
    pub id: JobId,
    /// When it died.
    pub finished_at: Option<Timestamp>,
}

/// What a person says of an incident, beyond the verb.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "note": "looking into it" }))]
#[schema(as = Saying)]
pub struct IncidentNote {
    /// In which words.
    pub note: Option<String>,
    /// Who says it, when the caller speaks for somebody else. A token's own name stays in front of it.
    pub by: Option<String>,
}

/// What a person says of an incident that is fixed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "version": "1.4.0", "note": "the null check was missing" }))]
#[schema(as = SayingFixed)]
pub struct IncidentFix {
    /// The first version of the code without the bug; without it any further failure is a regression.
    pub version: Option<String>,
    /// In which words.
    pub note: Option<String>,
    /// Who says it, when the caller speaks for somebody else. A token's own name stays in front of it.
    pub by: Option<String>,
}

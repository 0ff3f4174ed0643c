//! What a job has that most jobs do not have, as stores keep it: one JSON text, so that a new part needs no new column.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Provenance, SharingNeeds, Spec};

/// The column `papers` of a stored job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobExtras {
    #[serde(flatten)]
    provenance: Provenance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ordering_key: Option<Arc<str>>,
    #[serde(flatten)]
    needs: SharingNeeds,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dependency: Option<Arc<str>>,
}

impl JobExtras {
    /// Those of a job as text; none when it has none.
    #[must_use]
    pub fn text_of(spec: &Spec) -> Option<String> {
        let provenance = spec.provenance.as_deref().filter(|provenance| !provenance.is_empty());
        let needs = spec.needs.as_deref().filter(|needs| !needs.is_empty());
        let has_keys = spec.ordering_key.is_some() || spec.dependency.is_some();
        if provenance.is_none() && !has_keys && needs.is_none() {
            return None;
        }
        let extras = Self {
            provenance: provenance.cloned().unwrap_or_default(),
            ordering_key: spec.ordering_key.clone(),
            needs: needs.cloned().unwrap_or_default(),
            dependency: spec.dependency.clone(),
        };
        // A struct of texts has no way to fail.
        serde_json::to_string(&extras).ok()
    }

    /// What a job shares, out of its extras as text; nothing where they cannot be read.
    #[must_use]
    pub fn needs_in(text: &str) -> SharingNeeds {
        serde_json::from_str::<Self>(text).map(|extras| extras.needs).unwrap_or_default()
    }

    /// Gives a job what was read of it.
    pub fn put_into(self, spec: &mut Spec) {
        let Self { provenance, ordering_key, needs, dependency } = self;
        spec.provenance = (!provenance.is_empty()).then(|| Box::new(provenance));
        spec.ordering_key = ordering_key;
        spec.needs = (!needs.is_empty()).then(|| Box::new(needs));
        spec.dependency = dependency;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::JobId;

    #[test]
    fn extras_read_back_as_they_were() {
        let plain = Spec::new(JobId::from_u128(1), "work", "{}");
        assert_eq!(JobExtras::text_of(&plain), None, "most jobs have none");
        let mut traced = plain.clone();
        traced.provenance_mut().trace = Some("00-a-b-01".into());
        let mut ordered = plain.clone();
        ordered.ordering_key = Some("account 7".into());
        let mut dependent = plain.clone();
        dependent.dependency = Some("partner".into());
        let mut both = traced.clone();
        both.ordering_key.clone_from(&ordered.ordering_key);
        let mut sharing = traced.clone();
        sharing.needs_mut().limit_key = Some("tenant 7".into());
        let mut everything = plain.clone();
        *everything.needs_mut() = SharingNeeds {
            limit_key: Some("tenant 7".into()),
            single_instance: Some("nightly".into()),
            permits: [("gpu".into(), 2)].into(),
        };
        for spec in [traced, ordered, dependent, both, sharing, everything] {
            let text = JobExtras::text_of(&spec).expect("it has some");
            let mut read = plain.clone();
            serde_json::from_str::<JobExtras>(&text).expect("written above").put_into(&mut read);
            assert_eq!(read, spec, "{text}");
        }
    }

    #[test]
    fn what_a_later_program_wrote_beside_them_is_passed_by() {
        let extras: JobExtras =
            serde_json::from_str(r#"{"trace":"t","later":{"deep":[1]}}"#).expect("readable");
        assert_eq!(extras.provenance.trace.as_deref(), Some("t"));
    }
}

//! Columns of a stored job that cannot be read: noted on the job, so that one such row stops nobody else (C7).
//!
//! A store may hold anything: a later program wrote a word that this one does not know, a restore lost half of a text.
//! The job is listed and claimed like every other, and ends its run before its handler is asked.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::Spec;

/// What could not be read of one job so far.
#[derive(Debug, Default)]
pub struct Damage(Option<Arc<str>>);

impl Damage {
    /// Decodes a column that may be absent; one that cannot be read is noted, and counts as absent.
    pub fn decode<T: DeserializeOwned>(&mut self, column: &str, text: Option<&str>) -> Option<T> {
        let decoded = serde_json::from_str(text?);
        decoded.map_err(|problem| self.note(column, &problem.to_string())).ok()
    }

    /// Notes a column that is not even text. The first one is told.
    pub fn note(&mut self, column: &str, problem: &str) {
        self.0.get_or_insert_with(|| format!("its stored `{column}` cannot be read: {problem}").into());
    }

    /// Writes what was noted on the job.
    pub fn mark(self, spec: &mut Spec) {
        if let Some(damage) = self.0 {
            spec.provenance_mut().damage = Some(damage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::JobId;

    #[test]
    fn the_first_column_that_cannot_be_read_is_told() {
        // C7
        let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
        let mut damage = Damage::default();
        assert_eq!(damage.decode::<u32>("policy", Some("7")), Some(7));
        assert_eq!(damage.decode::<u32>("policy", None), None);
        Damage::default().mark(&mut spec);
        assert_eq!(spec.damage(), None);
        assert_eq!(damage.decode::<u32>("policy", Some("seven")), None);
        assert_eq!(damage.decode::<u32>("tags", Some("")), None);
        damage.mark(&mut spec);
        assert!(spec.damage().is_some_and(|damage| damage.starts_with("its stored `policy` cannot be read")));
        assert_eq!(super::super::JobExtras::text_of(&spec), None, "it is never written");
    }
}

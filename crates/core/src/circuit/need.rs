//! What jobs of a kind need that may be away: one thing for all of them, or one of several, as the payload says.

use std::sync::Arc;

use serde_json::Value;

use super::check_key;
use crate::limits::Limits;
use crate::refusal::Refusal;

/// Stands between the name of a dependency and what the payload says.
const BETWEEN: char = ':';

/// The longest pointer.
const LONGEST: usize = 256;

/// What jobs of a kind need that may be away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindDependency {
    /// Its name.
    pub name: Arc<str>,
    /// Where the payload says which one of several it is: a JSON pointer, such as `/host`.
    pub from: Option<Arc<str>>,
}

impl KindDependency {
    /// What a job with this payload needs: `NAME:VALUE`, or only `NAME` when the payload has no text and no whole
    /// number there, or one that is too long for a name.
    #[must_use]
    pub fn key_in(&self, payload: &str, limits: &Limits) -> Arc<str> {
        self.named(payload).filter(|key| check_key(key, limits).is_ok()).unwrap_or_else(|| self.name.clone())
    }

    fn named(&self, payload: &str) -> Option<Arc<str>> {
        let pointer = self.from.as_deref()?;
        let payload: Value = serde_json::from_str(payload).ok()?;
        let value = match payload.pointer(pointer)? {
            Value::String(text) if !text.trim().is_empty() => text.clone(),
            Value::Number(number) if !number.is_f64() => number.to_string(),
            _ => return None,
        };
        Some(format!("{}{BETWEEN}{value}", self.name).into())
    }

    /// True when jobs of the kind may need this.
    #[must_use]
    pub fn may_be(&self, key: &str) -> bool {
        *self.name == *key || (self.from.is_some() && is_one_of(key, &self.name))
    }

    /// Checks a pointer.
    ///
    /// # Errors
    /// A [`Refusal`] that names what is wrong.
    pub fn check_pointer(pointer: &str) -> Result<(), Refusal> {
        let refused = |problem| Err(Refusal::invalid("dependency_from", problem));
        if pointer.len() > LONGEST {
            return refused("it is longer than 256 bytes");
        }
        if !pointer.starts_with('/') {
            return refused("it is a JSON pointer: write \"/host\" for the field `host` of the payload");
        }
        Ok(())
    }
}

/// True when `key` is one of several that `name` stands for.
#[must_use]
pub fn is_one_of(key: &str, name: &str) -> bool {
    key.strip_prefix(name).is_some_and(|rest| rest.starts_with(BETWEEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_which_one_of_several_is_needed() {
        // H3
        let need = KindDependency { name: "partner".into(), from: Some("/to/host".into()) };
        let limits = Limits::default();
        let key = |payload: &str| need.key_in(payload, &limits).to_string();
        assert_eq!(key(r#"{"to":{"host":"eu.example:8080"}}"#), "partner:eu.example:8080");
        assert_eq!(key(r#"{"to":{"host":7}}"#), "partner:7");
        let long = format!(r#"{{"to":{{"host":"{}"}}}}"#, "x".repeat(200));
        for plain in [
            "{}",
            "not json",
            r#"{"to":{"host":""}}"#,
            r#"{"to":{"host":" "}}"#,
            r#"{"to":{"host":null}}"#,
            r#"{"to":{"host":1.5}}"#,
            r#"{"to":{"host":["a"]}}"#,
            r#"{"to":{"host":"a\u0000b"}}"#,
            &long,
        ] {
            assert_eq!(key(plain), "partner", "{plain}");
        }
        let fixed = KindDependency { from: None, ..need.clone() };
        assert_eq!(&*fixed.key_in(r#"{"to":{"host":"eu"}}"#, &limits), "partner");
        assert!(need.may_be("partner") && need.may_be("partner:eu") && !need.may_be("partners"));
        assert!(fixed.may_be("partner") && !fixed.may_be("partner:eu"));
    }

    #[test]
    fn a_pointer_begins_with_a_slash() {
        // H3
        for (pointer, good) in [("/host", true), ("/", true), ("", false), ("host", false), ("$.host", false)]
        {
            assert_eq!(KindDependency::check_pointer(pointer).is_ok(), good, "{pointer}");
        }
        assert!(KindDependency::check_pointer(&format!("/{}", "x".repeat(256))).is_err());
    }
}

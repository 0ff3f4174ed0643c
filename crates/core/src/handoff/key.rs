//! The key by which the receiver admits a published job once.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::short;

/// What the keys of published jobs begin with, at the receiver.
const PREFIX: &str = "handoff:";

/// Characters of the last part of a key. Before it stand the prefix, a name of 64 and, where it is kept, a tenant of
/// 32: together they fit the limit of an idempotency key.
const MOST_CHARS: usize = 120;

/// Why a text names no field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no field: write the name of a field, or a JSON pointer such as /order/id")]
pub struct KeyFieldError(String);

/// A field of a result or a payload: its name, or a JSON pointer that begins with `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyField(String);

impl KeyField {
    /// Reads the name of a field.
    ///
    /// # Errors
    /// When it is empty, or a pointer with an escape that is none.
    pub fn parse(text: &str) -> Result<Self, KeyFieldError> {
        let escaped = |part: &str| part.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        let sound = !text.is_empty() && (!text.starts_with('/') || escaped(text));
        if sound { Ok(Self(text.to_owned())) } else { Err(KeyFieldError(text.to_owned())) }
    }

    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        let found = if self.0.starts_with('/') { value.pointer(&self.0) } else { value.get(&self.0) };
        found.filter(|value| !value.is_null())
    }
}

impl fmt::Display for KeyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for KeyField {
    type Error = KeyFieldError;

    fn try_from(text: String) -> Result<Self, KeyFieldError> {
        Self::parse(&text)
    }
}

impl From<KeyField> for String {
    fn from(field: KeyField) -> Self {
        field.0
    }
}

/// What a key was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOrigin {
    /// The named fields.
    Fields,
    /// The id under which the job itself came: none were named, or one is missing.
    Incoming,
}

/// What keys are made of.
#[derive(Debug, Clone, Copy)]
pub struct KeySource<'a> {
    /// The idempotency key of the job, or its id.
    pub incoming: &'a str,
    /// What it returned: looked at first.
    pub result: Option<&'a Value>,
    /// What it was given.
    pub payload: Option<&'a Value>,
}

impl KeySource<'_> {
    /// The values of all fields; none when one is missing.
    fn values(&self, fields: &[KeyField]) -> Option<Vec<&Value>> {
        let look = |field: &KeyField| {
            let places = [self.result, self.payload];
            places.into_iter().flatten().find_map(|value| field.of(value))
        };
        fields.iter().map(look).collect()
    }

    /// True when the result alone has every field.
    #[must_use]
    pub fn result_is_enough(result: Option<&Value>, fields: &[KeyField]) -> bool {
        KeySource { incoming: "", result, payload: None }.values(fields).is_some()
    }
}

/// The idempotency key of a published job at the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOffKey {
    /// The key.
    pub text: String,
    /// What it was made of.
    pub origin: KeyOrigin,
}

impl HandOffKey {
    /// The key of a job that is published under this name.
    ///
    /// Fields are one JSON list, so `1` and `"1"` differ and no value can pretend to be two. A job that lacks a field
    /// has the incoming id as its key: a key with a hole would make one job of many, and that would be losing them.
    #[must_use]
    pub fn new(publication: &str, fields: &[KeyField], source: KeySource<'_>) -> Self {
        let values = if fields.is_empty() { None } else { source.values(fields) };
        let (origin, part) = match values {
            // Texts, numbers and objects with sorted names have no way to fail.
            Some(values) => (KeyOrigin::Fields, serde_json::to_string(&values).unwrap_or_default()),
            None => (KeyOrigin::Incoming, format!("@{}", source.incoming)),
        };
        // Neither a list nor `@` begins with `#`, so a short form is never somebody's long one.
        let part = if part.chars().count() <= MOST_CHARS { part } else { format!("#{}", short(&part)) };
        Self { text: format!("{PREFIX}{publication}:{part}"), origin }
    }
}

/// The publication that a job with this idempotency key was handed off under; none for other keys.
#[must_use]
pub fn publication_of(key: &str) -> Option<&str> {
    let (name, rest) = key.strip_prefix(PREFIX)?.split_once(':')?;
    let known = rest.starts_with(['[', '@', '#']) && super::is_name(name);
    known.then_some(name)
}

//! Masks JSON: values under sensitive names at any depth, and secrets inside every other text.
//!
//! Must not change the shape of what it leaves readable.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{FALLBACK, MARKER, Redactor, StandardRedactor, is_sensitive_key, redact_guarded};

/// How deep values are looked at. What lies deeper is replaced whole: nobody reads it, and recursion needs an
/// end.
pub const MAX_JSON_DEPTH: usize = 64;

/// Numbers below this have fewer digits than any card.
const SMALLEST_CARD: u64 = 1_000_000_000_000;

/// A copy of `value` to be shown, masked with the built-in families: see [`mask_json`].
///
/// ```
/// use backstop_core::failure::redact::mask;
/// use serde_json::json;
/// let payload = json!({ "to": "Ann", "smtp": { "password": "hunter2" } });
/// assert_eq!(mask(&payload), json!({ "to": "Ann", "smtp": { "password": "[redacted]" } }));
/// ```
#[must_use]
pub fn mask(value: &Value) -> Value {
    let mut shown = value.clone();
    mask_json(&mut shown, &StandardRedactor::default());
    shown
}

/// Stored JSON text as it may be shown: masked by [`mask_json`], and left as it was written when it holds no
/// secret. Text that is no JSON, or nests deeper than a parser follows, goes through `redactor` as it is.
pub fn mask_text<'t>(text: &'t str, redactor: &dyn Redactor) -> Cow<'t, str> {
    let Ok(stored) = serde_json::from_str::<Value>(text) else {
        return changed(redactor, text).map_or(Cow::Borrowed(text), Cow::Owned);
    };
    let mut shown = stored.clone();
    mask_json(&mut shown, redactor);
    if shown == stored { Cow::Borrowed(text) } else { Cow::Owned(shown.to_string()) }
}

/// Masks `value` in place. Under a sensitive name everything becomes the marker, except `null`, booleans and
/// empty text, which tell that something was or was not set. Everywhere else texts (names of fields included)
/// go through `redactor`; should it panic, the text is replaced by [`FALLBACK`].
pub fn mask_json(value: &mut Value, redactor: &dyn Redactor) {
    mask_at(value, redactor, 0);
}

fn mask_at(value: &mut Value, redactor: &dyn Redactor, depth: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= MAX_JSON_DEPTH => *value = Value::from(MARKER),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_at(item, redactor, depth + 1)),
        Value::Object(fields) => mask_fields(fields, redactor, depth),
        Value::String(text) => {
            if let Some(redacted) = changed(redactor, text) {
                *text = redacted;
            }
        }
        Value::Number(number) if number.as_u64().is_some_and(|number| number >= SMALLEST_CARD) => {
            if changed(redactor, &number.to_string()).is_some() {
                *value = Value::from(MARKER);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn mask_fields(fields: &mut Map<String, Value>, redactor: &dyn Redactor, depth: usize) {
    // Lists of settings spell a field as two: {"name": "DB_PASSWORD", "value": "..."}.
    let names_a_secret = ["name", "key"]
        .iter()
        .any(|label| fields.get(*label).and_then(Value::as_str).is_some_and(is_sensitive_key));
    for (name, value) in fields.iter_mut() {
        // A report of tests counts what did pass.
        let is_count = name == "pass" && value.is_number();
        if is_sensitive_key(name) && !is_count || (names_a_secret && name == "value") {
            hide(value);
        } else {
            mask_at(value, redactor, depth + 1);
        }
    }
    if fields.keys().any(|name| changed(redactor, name).is_some()) {
        rename_fields(fields, redactor);
    }
}

/// Data sometimes is its own field name: {"ann@example.org": 3}. Renamed fields never replace one another.
fn rename_fields(fields: &mut Map<String, Value>, redactor: &dyn Redactor) {
    let mut copies = 1;
    for (name, value) in std::mem::take(fields) {
        let plain = changed(redactor, &name).unwrap_or(name);
        let mut unique = plain.clone();
        // One counter for all names: with a counter each, a thousand addresses would ask a million times.
        while fields.contains_key(&unique) {
            copies += 1;
            unique = format!("{plain} {copies}");
        }
        fields.insert(unique, value);
    }
}

fn hide(value: &mut Value) {
    let is_telling =
        matches!(value, Value::Null | Value::Bool(_)) || value.as_str().is_some_and(str::is_empty);
    if !is_telling {
        *value = Value::from(MARKER);
    }
}

/// The redacted text, if it differs.
fn changed(redactor: &dyn Redactor, text: &str) -> Option<String> {
    match redact_guarded(redactor, text) {
        Some(redacted) => (redacted != text).then(|| redacted.into_owned()),
        None => Some(FALLBACK.to_owned()),
    }
}

//! Masks JSON: values under sensitive names at any depth, and secrets inside every other text.
//!
//! Must not change the shape of what it leaves readable.

use serde_json::{Map, Value};

use super::{FALLBACK, MARKER, Redactor, is_sensitive_key, redact_guarded};

/// How deep values are looked at. What lies deeper is replaced whole: nobody reads it, and recursion needs an
/// end.
pub const MAX_JSON_DEPTH: usize = 64;

/// Numbers below this have fewer digits than any card.
const SMALLEST_CARD: u64 = 1_000_000_000_000;

/// Masks `value` in place. Under a sensitive name everything becomes the marker, except `null`, booleans and
/// empty text, which tell that something was or was not set. Everywhere else texts (names of fields included)
/// go through `redactor`; should it panic, the text is replaced by [`FALLBACK`].
pub fn mask_json(value: &mut Value, redactor: &dyn Redactor) {
    mask(value, redactor, 0);
}

fn mask(value: &mut Value, redactor: &dyn Redactor, depth: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= MAX_JSON_DEPTH => *value = Value::from(MARKER),
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, redactor, depth + 1)),
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
            mask(value, redactor, depth + 1);
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

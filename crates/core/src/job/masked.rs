//! What people may see of a job's data: payload, params and results, with secrets masked (F11) and sealed data closed
//! (E12).
//!
//! They are stored as they are, because the handler needs them; every interface passes what it shows through here.
//! Keys, tags and ids are shown as they are, because people look jobs up by them; errors were sanitized before they
//! were stored. It must not open anything: see [`crate::sealing`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::followed::{followed, stands_for_data};
use super::{Attempt, JobDetail, JobView};
use crate::failure::redact::{MARKER, MAX_JSON_DEPTH, Redactor, mask_json};
use crate::sealing;

/// The parts of a job's document that hold what its submitter and its handler wrote.
const DATA: [&str; 3] = ["payload", "params", "result"];

/// What is shown of data that cannot be looked through.
const HIDDEN: &str = "[hidden]";

/// Stands for every kind.
const EVERY_KIND: &str = "*";

/// Fields that nobody sees, by kind: on top of what looks like a secret anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Masking {
    fields: BTreeMap<String, BTreeSet<String>>,
}

impl Masking {
    /// Hides the fields of these names, at any depth and whatever their case, in the data of `kind`; `*` is every kind.
    #[must_use]
    pub fn hide<S: AsRef<str>>(mut self, kind: &str, fields: impl IntoIterator<Item = S>) -> Self {
        let names = fields.into_iter().map(|name| name.as_ref().to_lowercase());
        self.fields.entry(kind.to_owned()).or_default().extend(names);
        self
    }

    /// True when nothing is hidden.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.values().all(BTreeSet::is_empty)
    }

    /// The fields of a kind. Of an unknown one those of all kinds: better too much is hidden than too little.
    fn of(&self, kind: Option<&str>) -> Vec<&BTreeSet<String>> {
        let about = |name: &str| kind.is_none_or(|kind| kind == name) || name == EVERY_KIND;
        self.fields
            .iter()
            .filter(|(name, fields)| about(name) && !fields.is_empty())
            .map(|(_, f)| f)
            .collect()
    }
}

/// Through which everything passes that is shown.
#[derive(Clone, Copy)]
pub struct Mask<'a> {
    /// What takes secrets out of text.
    pub redactor: &'a dyn Redactor,
    /// What is hidden by name.
    pub masking: &'a Masking,
}

impl Mask<'_> {
    /// Stored JSON text of a job of `kind`, as it may be shown.
    #[must_use]
    pub fn text(&self, kind: Option<&str>, stored: &Arc<str>) -> Arc<str> {
        if sealing::is_sealed(stored) {
            return Value::from(sealing::SHOWN).to_string().into();
        }
        // What no reader can follow (too deep, a number beyond all bounds) nobody can look through either.
        let Some(written) = followed(stored) else {
            return Value::from(HIDDEN).to_string().into();
        };
        let mut shown = written.clone();
        self.value(kind, &mut shown);
        if shown == written { stored.clone() } else { shown.to_string().into() }
    }

    /// The same for a value that was decoded, in place.
    pub fn value(&self, kind: Option<&str>, value: &mut Value) {
        if sealing::is_sealed_value(value) {
            *value = Value::from(sealing::SHOWN);
            return;
        }
        if value.as_str().is_some_and(stands_for_data) {
            *value = Value::from(HIDDEN);
            return;
        }
        hide(value, &self.masking.of(kind), 0);
        mask_json(value, self.redactor);
    }

    /// The document of an archived job and of its runs, in place; see [`super::read_document`].
    pub fn document(&self, document: &mut Value) {
        let kind = document.pointer("/job/kind").and_then(Value::as_str).map(str::to_owned);
        let kind = kind.as_deref();
        if let Some(job) = document.get_mut("job") {
            self.fields(kind, job);
            let is_callback = job.get("callback_of").is_some_and(|parent| !parent.is_null());
            if let Some(params) = job.get_mut("params").filter(|_| is_callback) {
                self.value(None, params);
            }
        }
        for run in document.get_mut("attempts").and_then(Value::as_array_mut).into_iter().flatten() {
            self.fields(kind, run);
        }
    }

    fn fields(&self, kind: Option<&str>, part: &mut Value) {
        for name in DATA {
            if let Some(data) = part.get_mut(name) {
                self.value(kind, data);
            }
        }
    }
}

/// Replaces what stands under one of the names. What lies deeper than anybody looks is replaced by `mask_json`.
fn hide(value: &mut Value, named: &[&BTreeSet<String>], depth: usize) {
    if named.is_empty() || depth >= MAX_JSON_DEPTH {
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, named, depth + 1)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.to_lowercase();
                if named.iter().any(|names| names.contains(&name)) {
                    *value = Value::from(MARKER);
                } else {
                    hide(value, named, depth + 1);
                }
            }
        }
        _ => {}
    }
}

impl JobView {
    /// The job as it may be shown.
    #[must_use]
    pub fn masked(&self, mask: &Mask<'_>) -> Self {
        let mut shown = self.clone();
        let spec = &mut shown.job.spec;
        let kind = Some(&*self.job.spec.kind);
        spec.payload = mask.text(kind, &spec.payload);
        // The params of a callback hold data of its parent, of another kind: what is hidden anywhere is hidden.
        let of_params = kind.filter(|_| spec.callback_of.is_none());
        spec.params = spec.params.as_ref().map(|params| mask.text(of_params, params));
        shown.result = shown.result.as_ref().map(|result| mask.text(kind, result));
        for callback in [&mut spec.on_success, &mut spec.on_failure].into_iter().flatten() {
            callback.payload = mask.text(Some(&callback.kind), &callback.payload);
        }
        shown
    }
}

impl JobDetail {
    /// The job as it may be shown.
    #[must_use]
    pub fn masked(&self, mask: &Mask<'_>) -> Self {
        Self { view: self.view.masked(mask), counters: self.counters.clone(), line: self.line }
    }
}

impl Attempt {
    /// The run as it may be shown; `kind` is that of its job, if it is known.
    #[must_use]
    pub fn masked(&self, kind: Option<&str>, mask: &Mask<'_>) -> Self {
        Self { result: self.result.as_ref().map(|result| mask.text(kind, result)), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::failure::redact::StandardRedactor;

    const SEALED: &str = r#"{"$sealed":{"key":"k1","nonce":"AA","data":"BB"}}"#;

    fn shown(masking: &Masking, kind: Option<&str>, text: &str) -> String {
        let redactor = StandardRedactor::default();
        Mask { redactor: &redactor, masking }.text(kind, &text.into()).to_string()
    }

    #[test]
    fn what_cannot_be_looked_through_is_hidden() {
        // F11, E12
        let deep = |levels: usize| {
            format!("{}{}{}", "{\"a\":".repeat(levels), r#"{"password":"hunter2"}"#, "}".repeat(levels))
        };
        let digits = format!(r#"{{"password":"hunter2","n":{}}}"#, "9".repeat(400));
        for text in [deep(127), deep(500), digits, r#"{"password":"hunter2""#.to_owned()] {
            for masking in [Masking::default(), Masking::default().hide("*", ["password"])] {
                assert_eq!(shown(&masking, Some("mail"), &text), "\"[hidden]\"");
            }
        }
        assert!(!shown(&Masking::default(), None, &deep(100)).contains("hunter2"));
    }

    #[test]
    fn named_fields_are_hidden_by_kind() {
        // E12
        let masking = Masking::default().hide("mail", ["Iban", "notes"]).hide("*", ["ssn"]);
        let table = [
            (
                Some("mail"),
                r#"{"iban":"DE00","a":[{"NOTES":{"x":1}}],"to":"ann"}"#,
                r#"{"iban":"[redacted]","a":[{"NOTES":"[redacted]"}],"to":"ann"}"#,
            ),
            (Some("print"), r#"{"iban":1, "ssn":2}"#, r#"{"iban":1,"ssn":"[redacted]"}"#),
            (Some("print"), r#"{"iban":1,  "x":2}"#, r#"{"iban":1,  "x":2}"#),
            (None, r#"{"iban":1,"ssn":2}"#, r#"{"iban":"[redacted]","ssn":"[redacted]"}"#),
            (Some("mail"), "no JSON", "\"[hidden]\""),
            (Some("mail"), r#"{"iban":"DE00","n":1e999}"#, "\"[hidden]\""),
            (None, r#"{"password":"hunter2","n":-1e999}"#, "\"[hidden]\""),
            (Some("mail"), SEALED, "\"[encrypted]\""),
            (
                Some("mail"),
                r#"{"password":"hunter2","iban":null}"#,
                r#"{"password":"[redacted]","iban":"[redacted]"}"#,
            ),
        ];
        for (kind, text, expected) in table {
            let found: Value =
                serde_json::from_str(&shown(&masking, kind, text)).unwrap_or(Value::from("no JSON"));
            let expected: Value = serde_json::from_str(expected).unwrap_or(Value::from("no JSON"));
            assert_eq!(found, expected, "{kind:?} {text}");
        }
        let as_written = r#"{"b":1,  "a":2}"#;
        assert_eq!(shown(&masking, Some("mail"), as_written), as_written, "what hides nothing is left alone");
        assert_eq!(shown(&Masking::default(), None, as_written), as_written);
    }

    #[test]
    fn data_that_a_document_holds_as_text_is_hidden() {
        // F11, E12
        let (masking, redactor) = (Masking::default().hide("mail", ["iban"]), StandardRedactor::default());
        let mask = Mask { redactor: &redactor, masking: &masking };
        let deep = format!("{}{}{}", "[".repeat(200), r#"{"iban":"DE00"}"#, "]".repeat(200));
        for text in [r#"{"iban":"DE00","n":1e999}"#, &deep, &format!(r#"["DE00",{}]"#, "9".repeat(400))] {
            let mut document =
                json!({ "job": { "kind": "mail", "payload": text }, "attempts": [{ "result": text }] });
            mask.document(&mut document);
            let expected =
                json!({ "job": { "kind": "mail", "payload": HIDDEN }, "attempts": [{ "result": HIDDEN }] });
            assert_eq!(document, expected, "{text:.40}");
        }
        let mut plain = json!("[INFO] it went well");
        mask.value(Some("mail"), &mut plain);
        assert_eq!(plain, "[INFO] it went well");
    }

    #[test]
    fn documents_and_runs_are_masked_too() {
        // E12, F11
        let (masking, redactor) = (Masking::default().hide("mail", ["iban"]), StandardRedactor::default());
        let mask = Mask { redactor: &redactor, masking: &masking };
        let sealed: Value = serde_json::from_str(SEALED).expect("JSON");
        let mut document = json!({
            "job": { "kind": "mail", "payload": sealed, "params": { "iban": 1 }, "result": null, "iban": "a key" },
            "attempts": [{ "result": { "iban": 2, "token": "abc" } }, { "result": sealed }],
        });
        mask.document(&mut document);
        assert_eq!(
            document,
            json!({
                "job": { "kind": "mail", "payload": "[encrypted]", "params": { "iban": "[redacted]" }, "result": null,
                         "iban": "a key" },
                "attempts": [
                    { "result": { "iban": "[redacted]", "token": "[redacted]" } },
                    { "result": "[encrypted]" },
                ],
            })
        );
    }
}

//! Stored JSON as values that every reader can follow, and the documents of archived jobs read part by part.
//!
//! A number beyond all bounds and nesting without end are legal JSON and are kept as they were sent, but no reader
//! follows them. In an answer such data stands as its text: nothing else in that answer is lost with it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Levels that data shown as a value has at most. Readers follow some 128, and answers add a few of their own.
const MOST_LEVELS: usize = 100;

/// Stored text as a value; none when a reader could not follow it.
pub(super) fn followed(text: &str) -> Option<Value> {
    let value = serde_json::from_str(text).ok()?;
    fits(&value, MOST_LEVELS).then_some(value)
}

fn fits(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| fits(item, levels - 1)),
        Value::Object(fields) => levels > 0 && fields.values().all(|field| fits(field, levels - 1)),
        _ => true,
    }
}

/// Stored text as a value, or as text when that cannot be.
pub(crate) fn value_or_text(text: &str) -> Value {
    followed(text).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// True for a text that [`value_or_text`] has put in the place of data.
pub(super) fn stands_for_data(text: &str) -> bool {
    followed(text).is_none() && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The document of an archived job (L16) as a value: `job` and `attempts`, read field by field, so that deep data
/// hides nothing but itself. None for a text that is no such document.
#[must_use]
pub fn read_document(text: &str) -> Option<Value> {
    #[derive(Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        job: BTreeMap<String, &'a RawValue>,
        #[serde(borrow, default)]
        attempts: Vec<BTreeMap<String, &'a RawValue>>,
    }
    let part = |fields: BTreeMap<String, &RawValue>| {
        let fields = fields.into_iter().map(|(name, text)| (name, value_or_text(text.get())));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    let Parts { job, attempts } = serde_json::from_str(text).ok()?;
    let attempts = attempts.into_iter().map(part).collect();
    Some(Value::Object(Map::from_iter([
        ("job".to_owned(), part(job)),
        ("attempts".to_owned(), Value::Array(attempts)),
    ])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deep(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn what_no_reader_follows_stands_as_text() {
        // L20
        for text in [deep(101), deep(127), deep(128), deep(10_000), "[1e999]".to_owned(), "9".repeat(400)] {
            assert_eq!(value_or_text(&text), Value::from(text.clone()), "{text:.40}");
            assert!(stands_for_data(&text), "{text:.40}");
        }
        for text in [deep(100), "{\"a\":[1e300]}".to_owned(), "\"[1e999\"".to_owned(), "null".to_owned()] {
            assert!(followed(&text).is_some() && !stands_for_data(&text), "{text:.40}");
        }
        assert!(!stands_for_data("no JSON") && !stands_for_data("[1e999"));
    }

    #[test]
    fn a_document_is_read_although_its_data_is_deep() {
        // L16
        let text = format!(
            r#"{{"job":{{"queue":"a/mail","payload":{}}},"attempts":[{{"number":1,"result":{}}}]}}"#,
            deep(126),
            deep(500)
        );
        let document = read_document(&text).expect("a document");
        assert_eq!(document["job"], json!({ "queue": "a/mail", "payload": deep(126) }));
        assert_eq!(document["attempts"], json!([{ "number": 1, "result": deep(500) }]));
        assert_eq!(read_document("[]"), None);
    }
}

//! What of a job's data a list shows: small data as it is, large data with its size, and its beginning if that is asked
//! for. Whoever needs all of it asks for that one job.

use std::collections::BTreeMap;

use backstop_core::job::{JobJson, JobView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Bytes up to which data is shown as it is.
const SMALL: usize = 1_024;

/// How much of large data a list shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "u32")]
#[schema(minimum = 0, maximum = 65536, default = 0)]
pub struct DataLimit(u32);

impl DataLimit {
    /// The most bytes of one field that a list shows.
    pub const MOST: u32 = 64 << 10;

    fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl TryFrom<u32> for DataLimit {
    type Error = String;

    fn try_from(bytes: u32) -> Result<Self, String> {
        if bytes <= Self::MOST { Ok(Self(bytes)) } else { Err(format!("{bytes} is over {}", Self::MOST)) }
    }
}

/// A job in a list: `show` masks its secrets, before anything is cut.
pub(crate) fn listed(
    mut view: JobView,
    limit: DataLimit,
    show: impl FnOnce(&JobView) -> Option<JobJson>,
) -> Option<JobJson> {
    let mut left_out = BTreeMap::new();
    if limit == DataLimit::default() {
        // What is not shown at all need not be read and masked.
        let spec = &mut view.job.spec;
        let result = view.result.as_mut();
        let fields =
            [("payload", Some(&mut spec.payload)), ("params", spec.params.as_mut()), ("result", result)];
        for (name, text) in fields.into_iter().filter_map(|(name, text)| Some((name, text?))) {
            if text.len() > SMALL {
                left_out.insert(name.to_owned(), u64::try_from(text.len()).unwrap_or(u64::MAX));
                *text = "null".into();
            }
        }
    }
    let mut job = show(&view)?;
    let fields = [("payload", Some(&mut job.payload)), ("params", Some(&mut job.params))];
    for (name, value) in fields.into_iter().chain([("result", job.result.as_mut())]) {
        if let Some(bytes) = value.and_then(|value| cut(value, limit)) {
            left_out.insert(name.to_owned(), bytes);
        }
    }
    job.left_out = left_out;
    Some(job)
}

/// The same for the document of a job.
pub(crate) fn trim_document(job: &mut Value, limit: DataLimit) {
    let Some(fields) = job.as_object_mut() else { return };
    let mut left_out = serde_json::Map::new();
    for name in ["payload", "params", "result"] {
        if let Some(bytes) = fields.get_mut(name).and_then(|value| cut(value, limit)) {
            left_out.insert(name.to_owned(), bytes.into());
        }
    }
    if !left_out.is_empty() {
        fields.insert("left_out".to_owned(), left_out.into());
    }
}

/// Cuts a value that is large, and answers how many bytes it had.
fn cut(value: &mut Value, limit: DataLimit) -> Option<u64> {
    let text = value.to_string();
    if text.len() <= SMALL.max(limit.bytes()) {
        return None;
    }
    let end = (0..=limit.bytes()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    *value = if end == 0 { Value::Null } else { Value::from(&text[..end]) };
    u64::try_from(text.len()).ok()
}

/// About how many bytes a job has that was read for a list.
pub(crate) fn bytes_of(view: &JobView) -> usize {
    let spec = &view.job.spec;
    let result = view.result.as_ref().map_or(0, |result| result.len());
    let failure = view.last_failure.as_ref().map_or(0, |failure| failure.message.len());
    1_024 + spec.payload.len() + spec.params.as_ref().map_or(0, |params| params.len()) + result + failure
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn small_data_stays_and_large_data_is_told_by_its_size() {
        let small =
            json!({ "payload": { "a": "x".repeat(1_000) }, "result": null, "queue": "x".repeat(9_999) });
        let mut job = small.clone();
        trim_document(&mut job, DataLimit::default());
        assert_eq!(job, small);
        let mut job = json!({ "payload": { "a": "ä".repeat(1_000) }, "params": {}, "result": [1] });
        trim_document(&mut job, DataLimit::default());
        assert_eq!(
            job,
            json!({ "payload": null, "params": {}, "result": [1], "left_out": { "payload": 2_008 } })
        );
        let mut job = json!({ "payload": { "a": "ä".repeat(1_000) } });
        trim_document(&mut job, DataLimit(7));
        // Seven bytes would end within a letter.
        assert_eq!(job["payload"], r#"{"a":""#);
        let mut job = json!({ "payload": { "a": "ä".repeat(1_000) } });
        trim_document(&mut job, DataLimit(2_008));
        assert!(job["payload"].is_object() && job.get("left_out").is_none());
    }

    #[test]
    fn more_than_the_most_is_refused() {
        assert_eq!(DataLimit::try_from(65_537).unwrap_err(), "65537 is over 65536");
        assert!(DataLimit::try_from(65_536).is_ok() && DataLimit::try_from(0).is_ok());
    }
}

//! The job that follows another one's end (F14): which one it is, and what it is told of its parent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{FailureRecord, NewJob, Provenance, Record, Spec, StoredJob};
use crate::failure::TerminalReason;
use crate::id::JobId;
use crate::sealing;

/// What only the end of the parent says, beside what follows from the parent itself.
const REASON: &str = "reason";
const ATTEMPTS: &str = "attempts";

/// How a job ended, as its callback reads it in its params.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParentEnd {
    /// The job that ended.
    #[serde(rename = "callback_of")]
    pub id: JobId,
    /// Which callback this is: `on_success` or `on_failure`.
    #[serde(rename = "callback")]
    pub role: String,
    /// The kind of the job that ended.
    pub kind: String,
    /// Its payload, unless it was sealed or too large.
    #[serde(default)]
    pub payload: Option<Value>,
    /// Its params.
    #[serde(default)]
    pub params: Option<Value>,
    /// What it came to, unless that was sealed or too large.
    #[serde(default)]
    pub result: Option<Value>,
    /// The sanitized error of its last run.
    #[serde(default)]
    pub error: Option<ParentError>,
    /// Why it is dead.
    #[serde(default)]
    pub reason: Option<String>,
    /// How many attempts it had.
    #[serde(default)]
    pub attempts: u32,
    /// What had no room: read it by the job's id.
    #[serde(default)]
    pub left_out: Vec<String>,
}

/// The sanitized error of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentError {
    /// Its type.
    #[serde(rename = "type")]
    pub error_type: String,
    /// Its text.
    pub message: String,
}

/// What is known of a job's end when its callback is made.
#[derive(Debug, Clone, Copy)]
pub struct CallbackInput<'a> {
    /// Attempts it had, the last one included.
    pub attempts: u32,
    /// Why it is dead; none for a success.
    pub reason: Option<TerminalReason>,
    /// The evidence of its last run.
    pub failure: Option<&'a FailureRecord>,
    /// Its result, as it is stored.
    pub result: Option<&'a str>,
    /// Bytes that the params of a job may have.
    pub room: usize,
}

impl CallbackInput<'_> {
    /// Writes it into the params of the callback. What has no room is left out and named.
    pub fn write(&self, parent: &Spec, callback: &mut Spec) {
        let mut params = object(callback.params.as_deref());
        params.insert(ATTEMPTS.to_owned(), self.attempts.into());
        if let Some(reason) = self.reason {
            params.insert(REASON.to_owned(), reason.as_str().into());
        }
        if let Some(FailureRecord { error_type, message, .. }) = self.failure {
            params.insert("error".to_owned(), json!({ "type": error_type, "message": message }));
        }
        let mut left_out = Vec::new();
        let mut size = Value::Object(params.clone()).to_string().len();
        let given = [
            ("params", parent.params.as_deref()),
            ("result", self.result),
            ("payload", Some(&*parent.payload)),
        ];
        for (name, text) in given {
            let Some(text) = text.filter(|text| !sealing::is_sealed(text)) else { continue };
            let Ok(value) = serde_json::from_str::<Value>(text) else { continue };
            // Name, quotes, colon, comma, and room for the list of what is left out.
            let needs = text.len() + name.len() + 64;
            if size + needs > self.room {
                left_out.push(name);
                continue;
            }
            size += needs;
            params.insert(name.to_owned(), value);
        }
        if !left_out.is_empty() {
            params.insert("left_out".to_owned(), json!(left_out));
        }
        callback.params = Some(Value::Object(params).to_string().into());
    }
}

fn object(text: Option<&str>) -> Map<String, Value> {
    match serde_json::from_str(text.unwrap_or("{}")) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

impl StoredJob {
    /// The callback to submit together with this job's final outcome, if it asked for one.
    ///
    /// Its params tell which job ended; [`CallbackInput::write`] adds how. Of a record that died without a run, as one
    /// that expired, they tell why. Its id follows from that job, so it exists once.
    #[must_use]
    pub fn follow_up(&self, record: &Record, succeeded: bool) -> Option<NewJob> {
        let (role, callback) = if succeeded {
            ("on_success", self.spec.on_success.as_ref()?)
        } else {
            ("on_failure", self.spec.on_failure.as_ref()?)
        };
        let id = self.spec.id.callback(role, record.redrives);
        let mut spec = Spec::new(id, callback.kind.clone(), callback.payload.clone());
        spec.version = callback.version;
        spec.queue = callback.queue.clone();
        spec.correlation_id = self.spec.correlation_id.clone();
        spec.callback_of = Some(self.spec.id);
        // The callback belongs to the same trace. Its parent's signature does not speak for it.
        spec.provenance = self
            .spec
            .trace()
            .map(|trace| Box::new(Provenance { trace: Some(trace.clone()), ..Provenance::default() }));
        let mut params = json!({ "callback_of": self.spec.id, "callback": role, "kind": &*self.spec.kind });
        if let Some(reason) = record.reason {
            params[REASON] = reason.as_str().into();
            params[ATTEMPTS] = record.attempt.into();
        }
        spec.params = Some(params.to_string().into());
        Some(NewJob::new(spec))
    }

    /// Rounds of a parent's life that are looked at for a callback: what is stored of them is nobody's word.
    const MOST_ROUNDS: u32 = 1_000;

    /// True when this job, with this record, asks for exactly this callback, whatever signature that carries (E9).
    ///
    /// Only a store makes callbacks without a signature, of jobs that expired; of how the parent ended they say that
    /// and how many attempts it had, and nobody vouches for that number.
    #[must_use]
    pub fn declares(&self, record: &Record, callback: &Spec) -> bool {
        let (told, reason) = without_end(callback.params.as_deref());
        if reason.is_some_and(|reason| reason != TerminalReason::Expired.as_str()) {
            return false;
        }
        let asked = |round: u32, succeeded: bool| {
            let role = if succeeded { "on_success" } else { "on_failure" };
            if self.spec.id.callback(role, round) != callback.id {
                return false;
            }
            let then = Record { redrives: round, reason: None, ..record.clone() };
            let mut found = callback.clone();
            found.provenance = callback
                .trace()
                .map(|trace| Box::new(Provenance { trace: Some(trace.clone()), ..Provenance::default() }));
            self.follow_up(&then, succeeded).is_some_and(|declared| {
                let same = without_end(declared.spec.params.as_deref()).0 == told;
                found.params.clone_from(&declared.spec.params);
                same && callback.params.is_some() && declared.spec == found
            })
        };
        let earliest = record.redrives.saturating_sub(Self::MOST_ROUNDS);
        (earliest..=record.redrives).any(|round| asked(round, true) || asked(round, false))
    }
}

/// The params of a callback without what only the parent's end says, and the reason among that.
fn without_end(params: Option<&str>) -> (Map<String, Value>, Option<String>) {
    let mut params = object(params);
    params.remove(ATTEMPTS);
    let reason = params.remove(REASON).map(|reason| reason.as_str().unwrap_or_default().to_owned());
    (params, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::fingerprint::fingerprint;
    use crate::job::{Callback, Trigger, next};
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn parent() -> StoredJob {
        let callback = Callback { kind: "after".into(), version: 1, queue: "q".into(), payload: "{}".into() };
        let mut spec = Spec::new(JobId::from_u128(7), "charge", r#"{"cents":990}"#);
        spec.params = Some(r#"{"shop":"a"}"#.into());
        spec.on_success = Some(callback.clone());
        spec.on_failure = Some(callback);
        StoredJob { spec, created_at: NOW }
    }

    fn read(spec: &Spec) -> ParentEnd {
        serde_json::from_str(spec.params.as_deref().expect("params")).expect("they read as an end")
    }

    #[test]
    fn a_callback_is_told_how_its_parent_ended() {
        // F14
        let (job, record) = (parent(), Record::new(&parent().spec, NOW));
        let told =
            CallbackInput { attempts: 1, reason: None, failure: None, result: Some("[1,2]"), room: 16_384 };
        let mut good = job.follow_up(&record, true).expect("asked for").spec;
        told.write(&job.spec, &mut good);
        let end = read(&good);
        assert_eq!(
            (end.id, end.role.as_str(), end.kind.as_str(), end.attempts),
            (job.spec.id, "on_success", "charge", 1)
        );
        assert_eq!(
            (end.result, end.params, end.payload),
            (Some(json!([1, 2])), Some(json!({ "shop": "a" })), Some(json!({ "cents": 990 })))
        );
        let failure = FailureRecord {
            error_type: "CardError".into(),
            message: "declined".into(),
            fingerprint: fingerprint("charge", "CardError", "declined"),
        };
        let reason = Some(TerminalReason::NonRetryable);
        let told = CallbackInput { attempts: 3, reason, failure: Some(&failure), result: None, room: 16_384 };
        let mut bad = job.follow_up(&record, false).expect("asked for").spec;
        told.write(&job.spec, &mut bad);
        let end = read(&bad);
        assert_eq!(
            (end.role.as_str(), end.reason.as_deref(), end.attempts),
            ("on_failure", Some("non_retryable"), 3)
        );
        assert_eq!(end.error.expect("an error").message, "declined");
    }

    #[test]
    fn what_is_sealed_or_too_large_is_left_out() {
        // F14, E12, L20
        let mut job = parent();
        job.spec.payload = r#"{"$sealed":{"key":"k1","nonce":"AA","data":"BB"}}"#.into();
        let large = format!("\"{}\"", "x".repeat(600));
        let told =
            CallbackInput { attempts: 1, reason: None, failure: None, result: Some(&large), room: 512 };
        let mut spec = job.follow_up(&Record::new(&job.spec, NOW), true).expect("asked for").spec;
        told.write(&job.spec, &mut spec);
        assert!(spec.params.as_ref().is_some_and(|params| params.len() <= 512));
        let end = read(&spec);
        assert_eq!((end.payload, end.result, end.left_out), (None, None, vec!["result".to_owned()]));
    }

    #[test]
    fn the_callback_of_an_expired_job_says_so_and_its_parent_declares_it() {
        // F14, L19, E9
        let job = parent();
        let mut record = Record::new(&job.spec, NOW);
        record.state = next(record.state, Trigger::Expire).expect("pending jobs expire");
        record.reason = Some(TerminalReason::Expired);
        let spec = job.follow_up(&record, false).expect("asked for").spec;
        assert_eq!(read(&spec).reason.as_deref(), Some("expired"));
        let driven_again = Record { redrives: 1, reason: None, ..record };
        assert!(job.declares(&driven_again, &spec));
        let mut forged = spec.clone();
        forged.params = Some(forged.params.expect("params").replace("expired", "poisoned").into());
        assert!(!job.declares(&driven_again, &forged));
        let mut forged = spec;
        forged.params = Some(r#"{"result":1}"#.into());
        assert!(!job.declares(&driven_again, &forged));
    }
}

//! A span, and the JSON in which OTLP over HTTP takes it.
//!
//! Owns the field names of the protocol: ids in hexadecimal, moments as decimal text of nanoseconds, enums as numbers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstop::Cause;
use backstop_core::job::StoredJob;
use backstop_server::AnsweredRequest;
use serde_json::{Value, json};

/// `SPAN_KIND_SERVER` and `SPAN_KIND_CONSUMER`.
const SERVER: u8 = 2;
const CONSUMER: u8 = 5;

/// `STATUS_CODE_OK` and `STATUS_CODE_ERROR`.
const OK: u8 = 1;
const ERROR: u8 = 2;

/// One span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TraceSpan {
    trace: String,
    id: String,
    parent: Option<String>,
    name: String,
    kind: u8,
    start: SystemTime,
    took: Duration,
    attributes: Vec<Value>,
    failed: Option<&'static str>,
}

/// Where a span belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    trace: String,
    parent: Option<String>,
}

impl TraceSpan {
    /// The span of a run; none when the trace it belongs to is not recorded.
    ///
    /// Every run of a job without a trace belongs to a trace of that job's own, so that its attempts stand together.
    pub(crate) fn run(
        job: &StoredJob,
        run: u32,
        cause: Cause,
        start: SystemTime,
        took: Duration,
    ) -> Option<Self> {
        let spec = &job.spec;
        let place = match spec.trace().map(|trace| parent(trace)) {
            Some(Parent::Recorded(place)) => place,
            Some(Parent::Left) => return None,
            Some(Parent::None) | None => Place { trace: hex(&spec.id.to_string()), parent: None },
        };
        Some(Self {
            trace: place.trace,
            id: new_id(),
            parent: place.parent,
            name: format!("run {}", spec.kind),
            kind: CONSUMER,
            start,
            took,
            attributes: vec![
                text("messaging.system", "backstop"),
                text("messaging.destination.name", &spec.queue),
                text("backstop.kind", &spec.kind),
                text("backstop.job.id", &spec.id.to_string()),
                // Whole numbers are decimal text in this protocol.
                json!({ "key": "backstop.run", "value": { "intValue": run.to_string() } }),
                text("backstop.cause", cause.as_str()),
            ],
            failed: cause.is_failure().then(|| cause.as_str()),
        })
    }

    /// The span of a request that was answered at `end`; none when it belongs to a trace that is not recorded, or to
    /// none: whoever calls without one did not ask for it.
    pub(crate) fn request(answered: &AnsweredRequest, end: SystemTime) -> Option<Self> {
        let Some(Parent::Recorded(place)) = answered.trace_parent.as_deref().map(parent) else { return None };
        Some(Self {
            trace: place.trace,
            id: new_id(),
            parent: place.parent,
            name: answered.route.clone(),
            kind: SERVER,
            start: end - answered.took,
            took: answered.took,
            attributes: vec![
                text("http.route", &answered.route),
                json!({ "key": "http.response.status_code", "value": { "intValue": answered.status.to_string() } }),
            ],
            failed: (answered.status >= 500).then_some("the server failed"),
        })
    }

    fn json(&self) -> Value {
        let end = self.start + self.took;
        let status = match self.failed {
            Some(message) => json!({ "code": ERROR, "message": message }),
            None => json!({ "code": OK }),
        };
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.id,
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(end),
            "attributes": self.attributes,
            "status": status,
        });
        if let Some(parent) = &self.parent {
            span["parentSpanId"] = json!(parent);
        }
        span
    }
}

/// The body of one request.
pub(crate) fn body(spans: &[TraceSpan]) -> String {
    let spans: Vec<Value> = spans.iter().map(TraceSpan::json).collect();
    let version = env!("CARGO_PKG_VERSION");
    let resource = [text("service.name", "backstop"), text("service.version", version)];
    let scope = json!({ "name": "backstop", "version": version });
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
    .to_string()
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanos(moment: SystemTime) -> String {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

fn hex(id: &str) -> String {
    id.replace('-', "")
}

/// Eight random bytes: the end of an id of ours, which is its random part.
fn new_id() -> String {
    let id = hex(&backstop::job_id().to_string());
    id.get(16..).unwrap_or_default().to_owned()
}

/// What a text says of the trace that a span belongs to.
enum Parent {
    /// It is no `traceparent`.
    None,
    /// Whoever began the trace does not record it.
    Left,
    Recorded(Place),
}

/// Reads a `traceparent` of W3C Trace Context, version 00.
fn parent(text: &str) -> Parent {
    let parts: Vec<&str> = text.split('-').collect();
    let ["00", trace, span, flags] = parts[..] else { return Parent::None };
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, length| is_hex(part, length) && part.bytes().any(|b| b != b'0');
    if !is_id(trace, 32) || !is_id(span, 16) || !is_hex(flags, 2) {
        return Parent::None;
    }
    if u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 0) {
        return Parent::Left;
    }
    Parent::Recorded(Place { trace: trace.to_owned(), parent: Some(span.to_owned()) })
}

#[cfg(test)]
mod tests {
    use backstop::{JobId, Timestamp};
    use backstop_core::job::Spec;

    use super::*;

    #[test]
    fn a_span_holds_no_data_of_its_job() {
        // E12
        let mut spec = Spec::new(JobId::from_u128(7), "mail", r#"{"password":"hunter2"}"#);
        spec.params = Some(r#"{"note":"hunter2"}"#.into());
        spec.tags = vec!["hunter2".to_owned()];
        let job = StoredJob { spec, created_at: Timestamp::EPOCH };
        let span = TraceSpan::run(&job, 1, Cause::Error, UNIX_EPOCH, Duration::ZERO).expect("it is recorded");
        let told = body(&[span]);
        assert!(told.contains("run mail") && !told.contains("hunter2"), "{told}");
    }

    #[test]
    fn a_parent_is_followed_left_or_none() {
        // V3
        let shown = |text: &str| match parent(text) {
            Parent::None => "none",
            Parent::Left => "left",
            Parent::Recorded(_) => "recorded",
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
        for (text, expected) in [
            (format!("00-{trace}-01"), "recorded"),
            (format!("00-{trace}-03"), "recorded"),
            (format!("00-{trace}-00"), "left"),
            (format!("01-{trace}-01"), "none"),
            (format!("00-{trace}-01-x"), "none"),
            (format!("00-{}-01", trace.to_uppercase()), "none"),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), "none"),
            (format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16)), "none"),
            ("order-7".to_owned(), "none"),
            (String::new(), "none"),
        ] {
            assert_eq!(shown(&text), expected, "{text}");
        }
    }
}

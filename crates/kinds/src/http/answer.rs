//! What an answer means for the job (E5), and what is kept of it.

use std::time::{Duration, SystemTime};

use backstop::{BoxError, Outcome};
use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::{Map, Value, json};

use super::connect::HttpFailed;
use super::exchange::HttpResponse;
use super::target::Target;

/// Headers that are kept with a result.
const KEPT: [&str; 6] =
    ["content-type", "content-length", "etag", "last-modified", "location", "x-request-id"];
/// Bytes of a kept body as JSON: a result must fit into the engine's limit of 64 KiB, with all around it.
const RESULT_MAX: usize = 56 * 1024;
/// Characters of a kept header.
const HEADER_CHARS: usize = 500;

/// A server that says 0 would be asked again and again at no cost to the job.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// A server that says more is not worth waiting for longer.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The result of a request that was answered well, or what the answer means.
pub(super) fn of(target: &Target, answer: &HttpResponse) -> Result<Value, BoxError> {
    let host = target.host.shown();
    let told = format!("`{host}` answered {}", answer.status.as_u16());
    match (answer.status.as_u16(), retry_after(&answer.headers, SystemTime::now())) {
        (200..300, _) => Ok(result(answer)),
        (429, Some(wait)) => Err(Outcome::rate_limited(host, wait).into()),
        (503, Some(wait)) => {
            Err(Outcome::retry_in(wait, Outcome::transient_from(host, HttpFailed(told))).into())
        }
        // A limit that does not say how long it lasts is waited out by the job's backoff.
        (408 | 429 | 500.., _) => Err(HttpFailed(told).into()),
        _ => Err(Outcome::permanent(told).into()),
    }
}

/// How long the server asks us to wait: in seconds, or until a moment.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let moment = SystemTime::from(DateTimeParser::new().parse_timestamp(text).ok()?);
        moment.duration_since(now).unwrap_or_default()
    };
    Some(asked.clamp(WAIT_MIN, WAIT_MAX))
}

fn result(answer: &HttpResponse) -> Value {
    let mut headers = Map::new();
    for name in KEPT {
        if let Some(value) = answer.headers.get(name).and_then(|value| value.to_str().ok()) {
            headers.insert(name.to_owned(), value.chars().take(HEADER_CHARS).collect::<String>().into());
        }
    }
    let (body, cut) = body(answer);
    let mut result = json!({ "status": answer.status.as_u16(), "headers": headers, "body": body });
    if cut {
        result["truncated"] = true.into();
    }
    if body_is_lost(&result["body"], answer) {
        result["body_bytes"] = answer.body.len().into();
    }
    result
}

/// True when there was a body that is no text.
fn body_is_lost(kept: &Value, answer: &HttpResponse) -> bool {
    kept.is_null() && !answer.body.is_empty() && std::str::from_utf8(&answer.body).is_err()
}

/// The body as JSON if it is some, else as text; nothing when it is neither. True when it was cut.
fn body(answer: &HttpResponse) -> (Value, bool) {
    if answer.body.is_empty() || answer.status == StatusCode::NO_CONTENT {
        return (Value::Null, answer.cut);
    }
    let whole = if answer.cut { None } else { serde_json::from_slice::<Value>(&answer.body).ok() };
    if let Some(value) = whole.filter(|value| value.to_string().len() <= RESULT_MAX) {
        return (value, false);
    }
    let text = match std::str::from_utf8(&answer.body) {
        Ok(text) => text,
        // The cut may have hit a character; anything else that is no text is none.
        Err(problem) if answer.cut && problem.error_len().is_none() => {
            std::str::from_utf8(&answer.body[..problem.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return (Value::Null, answer.cut),
    };
    let mut bytes = 0;
    let end = text.char_indices().find(|(_, c)| {
        bytes += escaped(*c);
        bytes > RESULT_MAX
    });
    match end {
        None => (text.into(), answer.cut),
        Some((at, _)) => (text[..at].into(), true),
    }
}

/// Bytes of a character in JSON, at most.
const fn escaped(c: char) -> usize {
    match c {
        '\0'..='\x1f' => 6,
        '"' | '\\' => 2,
        _ => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().expect("a value"));
        // Sun, 06 Nov 1994 08:49:37 GMT
        retry_after(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn a_wait_is_read_in_both_forms_and_bounded() {
        // E5
        for (text, seconds) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("0", Some(1)),
            ("99999999999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:40:37 GMT", Some(1)),
            ("Sat, 06 Nov 2094 08:40:37 GMT", Some(86_400)),
            ("soon", None),
            ("-1", None),
            ("1.5", None),
            ("", None),
        ] {
            assert_eq!(wait(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    fn kept(body: &[u8], cut: bool) -> Value {
        result(&HttpResponse { status: StatusCode::OK, headers: HeaderMap::new(), body: body.to_vec(), cut })
    }

    #[test]
    fn a_body_is_kept_as_json_as_text_or_not_at_all() {
        // E5
        assert_eq!(kept(b"{\"a\":1}", false)["body"], json!({ "a": 1 }));
        assert_eq!(kept(b"plain", false)["body"], json!("plain"));
        assert_eq!(kept(b"", false)["body"], Value::Null);
        let binary = kept(b"\x1f\x8b\xff", false);
        assert_eq!((&binary["body"], &binary["body_bytes"]), (&Value::Null, &json!(3)));
        let cut = kept("aé".as_bytes().split_last().expect("bytes").1, true);
        assert_eq!((&cut["body"], &cut["truncated"]), (&json!("a"), &json!(true)));
        for body in ["\u{1}".repeat(60_000), "é".repeat(32_000), "\"".repeat(64_000)] {
            let kept = kept(body.as_bytes(), false);
            assert!(kept.to_string().len() <= 64 * 1024 && kept["truncated"] == json!(true));
        }
    }
}

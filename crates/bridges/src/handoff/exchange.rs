//! What is posted for a page of finished jobs, and what its answer means for each.

use std::time::Duration;

use backstop::handoffs::{
    HandOff, HandOffCause, HandOffPage, HandOffRefusal, HandOffRound, ItemAnswer, KeyOrigin, RequestAnswer,
};
use backstop::sinks::{HandedOff, OutboxMessage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::ReceiverAnswer;

/// Characters of what a receiver says that are kept.
const MESSAGE_CHARS: usize = 300;

/// One job on its way.
pub(super) struct SentJob {
    /// The id of its message.
    id: String,
    job: String,
    /// True when its key should have been made of fields, and one is missing.
    keyless: bool,
    body: Value,
}

impl SentJob {
    fn new(hand_off: &HandOff, message: &OutboxMessage, body: &HandedOff) -> Self {
        let key = HandOffPage::key(&hand_off.name, &hand_off.key, body);
        let job = message.job.map_or_else(String::new, |job| job.to_string());
        let from = json!({ "publication": hand_off.name, "job": job, "kind": message.kind });
        let mut posted = json!({
            "kind": hand_off.kind,
            "payload": body.result,
            "idempotency_key": key.text,
            "params": { "handoff": from },
        });
        let queue = hand_off.queue.as_deref();
        let others = [
            ("queue", queue),
            ("correlation_id", HandOffPage::correlation_id(message)),
            ("trace_parent", body.trace_parent.as_deref()),
        ];
        for (name, text) in others {
            if let Some(text) = text {
                posted[name] = text.into();
            }
        }
        let keyless = key.origin == KeyOrigin::Incoming && !hand_off.key.is_empty();
        Self { id: message.id.clone(), job, keyless, body: posted }
    }
}

/// The first jobs of a page, so many at most.
pub(super) fn posted(hand_off: &HandOff, page: &HandOffPage, most: usize) -> Vec<SentJob> {
    let jobs = page.jobs().take(most);
    jobs.map(|(message, body)| SentJob::new(hand_off, message, body)).collect()
}

/// The request that carries these jobs, and the id that it is signed under.
pub(super) fn request(jobs: &[SentJob]) -> (String, Vec<u8>) {
    let bodies: Vec<&Value> = jobs.iter().map(|job| &job.body).collect();
    let id = jobs.first().map_or_else(String::new, |job| job.id.clone());
    (id, json!({ "jobs": bodies, "partial": true }).to_string().into_bytes())
}

/// What a request came to.
#[derive(Debug, Default)]
pub(super) struct RequestResult {
    /// What is settled and counted.
    pub(super) round: HandOffRound,
    /// How long the receiver asks us to wait, if it takes nothing now.
    pub(super) asked: Option<Duration>,
    /// Why it stands still from now on.
    pub(super) refused: Option<HandOffRefusal>,
    /// The request was too large.
    pub(super) smaller: bool,
}

/// What the receiver answers in a body.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answered {
    Stored { deduplicated: bool },
    Refused { error: ErrorSaid },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorSaid {
    code: String,
    message: String,
    details: Value,
}

#[derive(Deserialize)]
struct AllAnswered {
    items: Vec<Answered>,
}

#[derive(Deserialize)]
struct WholeError {
    error: ErrorSaid,
}

/// Reads the answer to a request with these jobs.
pub(super) fn read(jobs: &[SentJob], answer: &ReceiverAnswer) -> RequestResult {
    let status = answer.status;
    let said = || -> ErrorSaid {
        serde_json::from_slice(&answer.body).map(|WholeError { error }| error).unwrap_or_default()
    };
    match RequestAnswer::of(status) {
        RequestAnswer::Each => match serde_json::from_slice::<AllAnswered>(&answer.body) {
            Ok(all) if all.items.len() == jobs.len() => each(status, jobs, all.items),
            _ => stopped(status, "not_backstop", "the answer is not that of a Backstop", None),
        },
        RequestAnswer::Smaller if jobs.len() > 1 => {
            RequestResult { smaller: true, ..RequestResult::default() }
        }
        RequestAnswer::Pressure => {
            pressed(status, &said(), answer.retry_after.or_else(|| asked(&said())), HandOffCause::Pressure)
        }
        RequestAnswer::Away => pressed(status, &said(), answer.retry_after, HandOffCause::Unreachable),
        RequestAnswer::Smaller | RequestAnswer::Refused => {
            let ErrorSaid { code, message, .. } = said();
            let job = jobs.first().filter(|_| jobs.len() == 1).map(|job| job.job.clone());
            stopped(status, &code, &message, job)
        }
    }
}

fn each(status: u16, jobs: &[SentJob], answers: Vec<Answered>) -> RequestResult {
    let mut all = RequestResult::default();
    for (job, answer) in jobs.iter().zip(answers) {
        match answer {
            Answered::Stored { deduplicated } => {
                let place = if deduplicated { &mut all.round.duplicates } else { &mut all.round.admitted };
                place.insert(job.id.clone());
                all.round.keyless += u64::from(job.keyless);
            }
            Answered::Refused { error } => match ItemAnswer::of_code(&error.code) {
                ItemAnswer::Pressure => {
                    let said = pressed(status, &error, asked(&error), HandOffCause::Pressure);
                    all.asked = all.asked.max(said.asked);
                    (all.round.trouble, all.round.problem) = (said.round.trouble, said.round.problem);
                }
                _ if all.refused.is_none() => {
                    let said = stopped(status, &error.code, &error.message, Some(job.job.clone()));
                    all.refused = said.refused;
                    all.round.refused = true;
                }
                _ => {}
            },
        }
    }
    if let Some(refused) = &all.refused {
        all.round.problem = Some(words(refused));
    }
    all
}

/// How long a refusal asks to wait, where it has no header for that.
fn asked(said: &ErrorSaid) -> Option<Duration> {
    said.details.get("retry_after_ms").and_then(Value::as_u64).map(Duration::from_millis)
}

fn pressed(status: u16, said: &ErrorSaid, asked: Option<Duration>, trouble: HandOffCause) -> RequestResult {
    let problem = format!("the receiver answered {status}{}", tail(&said.code, &said.message));
    // How long the wait is decides whoever knows how often it was tried.
    let round = HandOffRound {
        trouble: Some((trouble, Duration::ZERO)),
        problem: Some(problem),
        ..HandOffRound::default()
    };
    RequestResult { round, asked, ..RequestResult::default() }
}

fn stopped(status: u16, code: &str, message: &str, job: Option<String>) -> RequestResult {
    let cut =
        |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE_CHARS).collect();
    let refused = HandOffRefusal { status, code: cut(code), message: cut(message), job };
    let round = HandOffRound { refused: true, problem: Some(words(&refused)), ..HandOffRound::default() };
    RequestResult { round, refused: Some(refused), ..RequestResult::default() }
}

fn words(refused: &HandOffRefusal) -> String {
    format!("the receiver answered {}{}", refused.status, tail(&refused.code, &refused.message))
}

fn tail(code: &str, message: &str) -> String {
    match (code, message) {
        ("", "") => String::new(),
        ("", message) => format!(": {message}"),
        (code, message) => format!(" {code}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(count: usize) -> Vec<SentJob> {
        let one = |number: usize| SentJob {
            id: format!("m{number}"),
            job: format!("j{number}"),
            keyless: number == 0,
            body: Value::Null,
        };
        (0..count).map(one).collect()
    }

    fn answer(status: u16, body: &Value) -> ReceiverAnswer {
        let retry_after = (status == 429).then_some(Duration::from_secs(7));
        ReceiverAnswer { status, retry_after, body: body.to_string().into_bytes().into() }
    }

    fn refusal(code: &str) -> Value {
        json!({ "error": { "code": code, "message": "no", "hint": null, "details": { "retry_after_ms": 1_000 } } })
    }

    #[test]
    fn each_job_has_its_own_answer() {
        // B7
        let stored =
            |deduplicated: bool| json!({ "id": "x", "status": "pending", "deduplicated": deduplicated });
        let body =
            json!({ "items": [stored(false), stored(true), refusal("queue_full")], "next_cursor": null });
        let read = read(&jobs(3), &answer(207, &body));
        assert_eq!(read.round.admitted.iter().collect::<Vec<_>>(), ["m0"]);
        assert_eq!(read.round.duplicates.iter().collect::<Vec<_>>(), ["m1"]);
        assert_eq!((read.round.keyless, read.round.refused), (1, false));
        assert_eq!(read.round.trouble.map(|(trouble, _)| trouble), Some(HandOffCause::Pressure));
        assert_eq!((read.asked, read.refused), (Some(Duration::from_secs(1)), None));
        let body = json!({ "items": [refusal("invalid"), stored(false), refusal("queue_full")] });
        let read = super::read(&jobs(3), &answer(207, &body));
        let refused = read.refused.expect("one is refused for good");
        assert_eq!((refused.code.as_str(), refused.job.as_deref()), ("invalid", Some("j0")));
        assert_eq!((read.round.admitted.len(), read.round.refused), (1, true));
        assert_eq!(read.round.problem.as_deref(), Some("the receiver answered 207 invalid: no"));
    }

    #[test]
    fn a_whole_request_is_pressed_refused_or_too_large() {
        // B7
        let pressure = read(&jobs(2), &answer(429, &refusal("queue_full")));
        assert_eq!((pressure.asked, pressure.refused), (Some(Duration::from_secs(7)), None));
        assert_eq!(pressure.round.problem.as_deref(), Some("the receiver answered 429 queue_full: no"));
        let away = read(&jobs(2), &answer(502, &json!("<html>")));
        assert_eq!(away.round.trouble.map(|(trouble, _)| trouble), Some(HandOffCause::Unreachable));
        assert_eq!(away.round.problem.as_deref(), Some("the receiver answered 502"));
        let refused = read(&jobs(2), &answer(401, &refusal("unauthorized")));
        assert!(refused.round.refused && refused.refused.is_some_and(|refused| refused.job.is_none()));
        assert!(read(&jobs(2), &answer(413, &refusal("too_large"))).smaller);
        let one = read(&jobs(1), &answer(413, &refusal("too_large"))).refused.expect("it is the job itself");
        assert_eq!(one.job.as_deref(), Some("j0"));
    }

    #[test]
    fn an_answer_of_somebody_else_is_a_refusal() {
        // B7
        let short = json!({ "items": [] });
        for body in [json!("hello"), json!({}), short, json!({ "items": [{}, {}] })] {
            let read = read(&jobs(2), &answer(200, &body));
            assert_eq!(read.refused.map(|refused| refused.code), Some("not_backstop".to_owned()), "{body}");
        }
    }
}

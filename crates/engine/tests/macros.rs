//! `#[derive(JobError)]` and `#[job]` as a user meets them: on a real engine, seen through its ledger.

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, Growth, Jitter, State, TerminalReason, Verdict};
use backstop_core::job::Attempt;
use backstop_store::PageRequest;

#[derive(Debug, thiserror::Error, JobError)]
enum SmtpError {
    #[error("no such mailbox")]
    #[job(permanent = "a mailbox does not appear by retrying")]
    NoMailbox,
    #[error("greylisted")]
    #[job(retry_in = "90s")]
    Greylisted,
    #[error("odd answer")]
    Odd,
}

#[derive(Debug, thiserror::Error, JobError)]
#[error("the template is broken")]
#[job(invalid)]
struct BrokenTemplate;

#[derive(Debug, thiserror::Error, JobError)]
enum MailError {
    #[error("not an address: {0}")]
    #[job(permanent)]
    BadAddress(String),
    #[error("smtp is away")]
    #[job(transient = "smtp")]
    Away(#[source] SmtpError),
    #[error(transparent)]
    Smtp(#[from] SmtpError),
    #[error(transparent)]
    Shared(Arc<SmtpError>),
    #[error(transparent)]
    Other(BoxError),
    #[error("rendering failed")]
    Render { source: Box<BrokenTemplate> },
    #[error("reading failed")]
    Read(#[from] std::io::Error),
    #[error("no luck")]
    Plain,
}

/// A job that fails as it is told; its parameter has the function's name on purpose.
#[job(max_retries = 2)]
async fn fail(fail: String) -> Result<(), MailError> {
    Err(match fail.as_str() {
        "bad address" => MailError::BadAddress("nobody".to_owned()),
        "away" => MailError::Away(SmtpError::NoMailbox),
        "from" => SmtpError::NoMailbox.into(),
        "from plain" => SmtpError::Odd.into(),
        "shared" => MailError::Shared(Arc::new(SmtpError::Greylisted)),
        "boxed" => MailError::Other(SmtpError::NoMailbox.into()),
        "boxed twice" => MailError::Other(MailError::from(SmtpError::NoMailbox).into()),
        "boxed stranger" => MailError::Other("something else".into()),
        "source" => MailError::Render { source: Box::new(BrokenTemplate) },
        "inside io" => MailError::Read(std::io::Error::other(SmtpError::NoMailbox)),
        _ => MailError::Plain,
    })
}

/// Submits the job, runs it once and returns what the ledger says.
async fn run_once<C: Send + Sync + 'static, J: Job<Context = C>>(app: C, job: J) -> Attempt {
    let engine = Backstop::open("memory:").await.expect("a store in memory");
    let id = engine.enqueue(job).submit().await.expect("a good job").id;
    let queue = J::defaults().queue.unwrap_or("default");
    let worker = engine.worker(app).register::<J>().queue(queue, 1).inline().expect("a good worker");
    assert_eq!(worker.run_next().await.expect("a run").map(|ran| ran.job), Some(id));
    engine.attempts(id, PageRequest::first(1)).await.expect("a ledger").items.remove(0)
}

async fn check(case: &str, cause: Cause, error_type: &str) -> Attempt {
    let attempt = run_once((), Fail { fail: case.to_owned() }).await;
    let failure = attempt.failure.as_ref().expect("a failure");
    assert_eq!((attempt.cause, failure.error_type.as_str()), (cause, error_type), "{case}");
    attempt
}

#[tokio::test]
async fn marks_are_found_wherever_they_are() {
    // F6
    for (case, cause, error_type) in [
        ("bad address", Cause::Permanent, "MailError::BadAddress"),
        ("from", Cause::Permanent, "SmtpError::NoMailbox"),
        ("from plain", Cause::Error, "SmtpError::Odd"),
        ("boxed", Cause::Permanent, "SmtpError::NoMailbox"),
        ("boxed twice", Cause::Permanent, "SmtpError::NoMailbox"),
        ("boxed stranger", Cause::Error, "MailError"),
        ("source", Cause::Invalid, "BrokenTemplate"),
        ("inside io", Cause::Permanent, "SmtpError::NoMailbox"),
        ("plain", Cause::Error, "MailError::Plain"),
    ] {
        check(case, cause, error_type).await;
    }
}

#[tokio::test]
async fn a_permanent_error_is_dead_at_once_and_keeps_its_reason() {
    // F6
    let attempt = check("boxed", Cause::Permanent, "SmtpError::NoMailbox").await;
    let decision = attempt.decision.expect("a decision");
    assert_eq!(decision.verdict, Verdict::Dead { reason: TerminalReason::NonRetryable });
    let trace = format!("{:?}", decision.trace);
    assert!(trace.contains("a mailbox does not appear by retrying"), "{trace}");
}

#[tokio::test]
async fn the_outer_mark_wins_over_an_inner_one() {
    let attempt = check("away", Cause::Rejected, "MailError::Away").await;
    let trace = format!("{:?}", attempt.decision.expect("a decision").trace);
    assert!(trace.contains("smtp"), "{trace}");
}

#[tokio::test]
async fn an_error_can_say_when_to_try_again() {
    // F9
    let attempt = check("shared", Cause::Error, "SmtpError::Greylisted").await;
    let verdict = attempt.decision.expect("a decision").verdict;
    assert!(matches!(verdict, Verdict::Retry { delay } if delay >= Duration::from_secs(90)), "{verdict:?}");
}

struct App {
    greeting: &'static str,
}

/// Greets somebody.
#[job(kind = "greeting", version = 3, queue = "mail", priority = "high", max_retries = 7, timeout = "2m")]
async fn greet(name: String, cx: JobContext<App>, #[serde(default)] mut times: u32) -> JobResult<String> {
    times += 1;
    Ok(format!("{} {name} x{times}", cx.app().greeting))
}

#[job]
async fn tick() {}

#[job(
    max_crashes = 2,
    backoff(linear, base = "2s", cap = "1m", jitter = "20%"),
    delay = "5s",
    max_wait = "1h",
    expires_in = "1d"
)]
async fn patient() {}

#[job(backoff(fixed, base = "2m"))]
async fn steady() {}

#[tokio::test]
async fn a_function_runs_as_a_job_with_its_context() {
    let attempt = run_once(App { greeting: "hello" }, Greet { name: "ada".to_owned(), times: 1 }).await;
    assert_eq!((attempt.cause, attempt.result.as_deref()), (Cause::Succeeded, Some(r#""hello ada x2""#)));
    assert_eq!(run_once((), Tick {}).await.cause, Cause::Succeeded);
}

#[tokio::test]
async fn the_keys_reach_the_stored_job() {
    let engine = Backstop::open("memory:").await.expect("a store in memory");
    let submitted =
        engine.enqueue(Greet { name: "ada".to_owned(), times: 0 }).submit().await.expect("a good job");
    assert_eq!(submitted.state, State::Pending);
    let spec = engine.job(submitted.id).await.expect("a lookup").expect("the job").view.job.spec;
    assert_eq!((&*spec.kind, spec.version, &*spec.queue), ("greeting", 3, "mail"));
    assert_eq!((spec.priority, spec.policy.max_retries), (Priority::High, 7));
    assert_eq!(spec.policy.timeout, Some(Duration::from_secs(120)));
    assert_eq!(&*spec.payload, r#"{"name":"ada","times":0}"#);
}

#[test]
fn waits_and_times_are_said_one_by_one() {
    // L19, F8
    let said = Patient::defaults().jobs;
    let secs = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!((said.growth, said.base, said.cap), (Some(Growth::Linear), secs(2), secs(60)));
    assert_eq!((said.jitter, said.max_crashes), (Some(Jitter::Percent(20)), Some(2)));
    assert_eq!((said.delay, said.max_wait, said.expires_in), (secs(5), secs(3_600), secs(86_400)));
    assert_eq!((said.max_retries, said.timeout), (None, None), "what is left out is said by others");
    let said = Steady::defaults().jobs;
    assert_eq!((said.base, said.cap), (secs(120), secs(120)), "a fixed wait is not cut by the engine's cap");
}

#[test]
fn attributes_of_parameters_reach_the_fields() {
    let job: Greet = serde_json::from_str(r#"{"name":"ada"}"#).expect("the other field has a default");
    assert_eq!(format!("{job:?}"), r#"Greet { name: "ada", times: 0 }"#);
    assert_eq!((Tick::KIND, Tick::VERSION, Tick::defaults()), ("tick", 1, Defaults::default()));
}

#[tokio::test]
async fn the_function_can_still_be_called() {
    assert!(matches!(fail("away".to_owned()).await, Err(MailError::Away(SmtpError::NoMailbox))));
}

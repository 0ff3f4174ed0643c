//! Errors that no retry can fix say so once. Run it with: cargo run -p backstop-examples --example permanent
//!
//! `#[derive(JobError)]` marks the variants of an error type. The mark is found anywhere in the source chain of what
//! a handler returns, so code in between can wrap errors as it likes.

use backstop::prelude::*;
use backstop::{State, TerminalReason};

#[derive(Debug, thiserror::Error)]
#[error("the mail server does not answer")]
struct SmtpError;

#[derive(Debug, thiserror::Error, JobError)]
enum MailError {
    #[error("not an address: {0}")]
    #[job(permanent = "a bad address cannot be fixed by retrying")]
    BadAddress(String),
    #[error(transparent)]
    #[job(transient = "smtp")]
    Smtp(#[from] SmtpError),
}

struct Mailer {
    server_is_up: bool,
}

impl Mailer {
    fn send(&self, to: &str) -> Result<(), MailError> {
        if !to.contains('@') {
            return Err(MailError::BadAddress(to.to_owned()));
        }
        if !self.server_is_up {
            return Err(SmtpError.into());
        }
        Ok(())
    }
}

#[job(max_retries = 5)]
async fn send_email(cx: JobContext<Mailer>, to: String) -> Result<(), MailError> {
    cx.app().send(&to)
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let bad = engine.enqueue(SendEmail { to: "nobody".into() }).submit().await?.id;
    let good = engine.enqueue(SendEmail { to: "ada@example.org".into() }).submit().await?.id;
    let worker = engine.worker(Mailer { server_is_up: false });
    worker.register::<SendEmail>().queue("default", 1).inline()?.drain(2).await?;

    // F6: dead at once, with the reason that the author of the error wrote.
    let (view, explanation) = engine.explain(bad).await?.ok_or("a dead letter is never lost")?;
    println!("to nobody: {} after {} of 6 runs", view.state(), view.record.runs);
    println!("  because: {}", explanation.because);
    for check in explanation.last_decision.iter().flat_map(|decision| &decision.trace) {
        println!("  check {}: {}", check.check, check.answer);
    }
    assert_eq!(view.record.reason, Some(TerminalReason::NonRetryable));
    assert_eq!((view.state(), view.record.runs), (State::Failed, 1));

    // F3: the other one is nobody's fault. It goes back, and has all its attempts still.
    let view = engine.job(good).await?.ok_or("a job is never lost")?.view;
    println!("to ada: {}, {} attempts used", view.state(), view.record.attempt);
    assert_eq!((view.state(), view.record.attempt, view.record.deferrals), (State::Pending, 0, 1));
    Ok(())
}

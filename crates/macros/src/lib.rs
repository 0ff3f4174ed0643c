//! Derive and attribute macros of Backstop.
//!
//! Owns the parsing of what users write and the code it turns into; it must not know how the engine works. All paths
//! in generated code start at `::backstop`, so a user's crate needs no other dependency.
//!
//! # Layout
//! - `job_error`: `#[derive(JobError)]`
//! - `job_fn`: `#[job]` on an `async fn`
//! - `payload`: `#[derive(Serialize, Deserialize)]`
//! - `attrs`: keys and values inside `#[job(...)]`, and the messages for wrong ones
//! - `duration`: texts such as `30s`

mod attrs;
mod duration;
mod job_error;
mod job_fn;
mod payload;

use proc_macro::TokenStream;

/// Tells Backstop what the values of an error type mean for the job that returns them.
///
/// A mark goes on a variant, on a struct, or on a whole enum for all variants without one of their own, below the
/// derive:
/// - `#[job(permanent)]`, `#[job(permanent = "reason")]`: no retry can fix it
/// - `#[job(invalid)]`, `#[job(invalid = "reason")]`: the input can never be handled
/// - `#[job(transient = "dependency")]`: a dependency is away for the moment
/// - `#[job(retry_in = "30s")]`: try again after this long (`ms`, `s`, `m`, `h` or `d`)
///
/// Marks count anywhere in the source chain of what a handler returns. A variant without a mark lets its source
/// decide, also behind thiserror's `#[error(transparent)]`; if it has none it is retried by the job's backoff.
///
/// ```ignore
/// #[derive(Debug, thiserror::Error, JobError)]
/// enum MailError {
///     #[error("not an address: {0}")]
///     #[job(permanent = "a bad address cannot be fixed by retrying")]
///     BadAddress(String),
///     #[error("the mail server is away")]
///     #[job(transient = "smtp")]
///     Smtp(#[from] SmtpError),
/// }
/// ```
#[proc_macro_derive(JobError, attributes(job))]
pub fn derive_job_error(input: TokenStream) -> TokenStream {
    finish(job_error::expand(input.into()))
}

/// Serde's `Serialize` for payloads, without a dependency on serde: `use backstop::prelude::*;` is enough.
///
/// Attributes of serde work as ever. For generic types, derive `serde::Serialize` itself.
#[proc_macro_derive(Serialize, attributes(serde))]
pub fn derive_serialize(input: TokenStream) -> TokenStream {
    finish(payload::expand(input.into(), payload::DerivedTrait::Serialize))
}

/// Serde's `Deserialize` for payloads, without a dependency on serde: `use backstop::prelude::*;` is enough.
///
/// Attributes of serde work as ever. For generic types, derive `serde::Deserialize` itself.
#[proc_macro_derive(Deserialize, attributes(serde))]
pub fn derive_deserialize(input: TokenStream) -> TokenStream {
    finish(payload::expand(input.into(), payload::DerivedTrait::Deserialize))
}

/// Makes a job out of an `async fn`: its parameters become the fields of a struct that implements `Job`.
///
/// The struct has the function's name in CamelCase, its visibility and its documentation; the function stays and can
/// be called as before. A parameter of type `JobContext<App>` gets the context; all others are stored with the job, so
/// they are owned and implement serde's traits. Attributes on them, such as `#[serde(default)]`, go to the fields.
///
/// | key, all optional | meaning |
/// |---|---|
/// | `kind = "send_email"` | the name that it is stored under; the function's name |
/// | `version = 2` | the shape of its payload; 1 |
/// | `queue = "mail"` | where its jobs wait; `default` |
/// | `priority = "high"` | `lowest`, `low`, `normal`, `high` or `critical` |
/// | `dependency = "smtp"` | what it needs that may be away; while that is red on a worker, none is claimed there |
/// | `dependency_from = "/host"` | where the payload says which one of several it needs: then it is `smtp:VALUE` |
/// | `isolate = "always"`, `memory_limit = "256MB"`, `cpu_limit = "30s"` | runs have processes of their own |
/// | `max_retries = 5`, `max_crashes = 3` | runs after the first; crashes that are forgiven |
/// | `backoff(fixed, base = "5s")`, `backoff(exponential, base = "1s", cap = "10m", jitter = "full")` | see below |
/// | `timeout = "30s"` | how long one run may take |
/// | `delay = "5m"` | how long after its submit it becomes due |
/// | `max_wait = "1h"` | how long it may wait to start, each time it is due |
/// | `expires_in = "1d"` | the latest start, counted from when it may first run |
///
/// Waits between runs are `none`, `fixed`, `linear` or `exponential`, from `base` up to `cap`; the jitter is `none`,
/// `full`, `equal` or percents such as `20%`. Each part may be left out.
///
/// What is left out is said by the settings of the queue, then by the engine; what a submit says goes before all.
///
/// ```ignore
/// /// Sends one mail.
/// #[job(queue = "mail", max_retries = 5, backoff(base = "10s", cap = "5m"), timeout = "30s")]
/// async fn send_email(cx: JobContext<App>, to: String, subject: String) -> Result<(), MailError> {
///     cx.app().mailer.send(&to, &subject).await
/// }
///
/// engine.enqueue(SendEmail { to, subject }).submit().await?;
/// ```
///
/// Every job that is made like this is in a list of the program, from which `WorkerBuilder::register_all` takes those
/// that a worker can run.
#[proc_macro_attribute]
pub fn job(args: TokenStream, item: TokenStream) -> TokenStream {
    finish(job_fn::expand(args.into(), item.into()))
}

fn finish(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}

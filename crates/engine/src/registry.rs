//! The kinds a worker can run, with their types erased once.

use std::any::{Any, type_name};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use backstop_core::failure::{Cause, Failure, HookAnswer};

use crate::bulk::handler::BulkHandler;
use crate::context::{JobContext, Run};
use crate::error::Error;
use crate::isolate::settings::IsolationSettings;
use crate::job::Job;
use crate::outcome::{Failed, IntoReply, Reply};
use crate::sealing::ShownPayload;

/// What a handler comes to, once it has run.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// The queue of a job whose kind and submit name none.
const DEFAULT_QUEUE: &str = "default";

/// One kind of job, erased.
pub(crate) trait Handler<C>: Send + Sync {
    /// The highest payload version it reads.
    fn version(&self) -> u32;
    /// The queue of its jobs when a submit names none.
    fn queue(&self) -> &'static str;
    /// Decodes, validates and runs.
    fn run(&self, payload: Arc<str>, cx: JobContext<C>) -> ReplyFuture;
    /// Asks the kind's retry policy (F7).
    fn ask(&self, attempt: u32, failure: &Failure) -> HookAnswer;
    /// Which of its runs have a process of their own, by the code (E2).
    fn isolation(&self) -> IsolationSettings;
    /// What it needs that may be away, by the code (H1).
    fn dependency(&self) -> Option<&'static str>;
    /// Where its payload says which one of several that is, by the code (H3).
    fn dependency_from(&self) -> Option<&'static str>;
    /// The type that implements the job, for messages.
    fn implemented_by(&self) -> &'static str;
    /// How many of its jobs are handled in one call; none when each has its own (W12).
    fn bulk(&self) -> Option<BulkHandler<C>> {
        None
    }
}

struct Typed<J>(PhantomData<fn() -> J>);

/// Runs a handler. When it panics, what it has rejected is written before the panic goes on: no other run may come
/// (W9).
async fn keeping_rejects<F: Future>(run: &Run, handler: F) -> F::Output {
    let mut handler = pin!(handler);
    let ended = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    });
    match ended.await {
        Ok(reply) => reply,
        Err(panic) => {
            // One that cannot be written is lost with the run: the panic is what people have to see.
            let _ = run.flush_rejects().await;
            resume_unwind(panic)
        }
    }
}

impl<C: Send + Sync + 'static, J: Job<Context = C>> Handler<C> for Typed<J> {
    fn version(&self) -> u32 {
        J::VERSION
    }

    fn queue(&self) -> &'static str {
        J::defaults().queue.unwrap_or(DEFAULT_QUEUE)
    }

    fn run(&self, payload: Arc<str>, cx: JobContext<C>) -> ReplyFuture {
        Box::pin(async move {
            match decode::<J>(&payload, || cx.shown_payload(&payload)) {
                Ok(job) => {
                    let run = cx.run();
                    let reply = run.settle_steps(keeping_rejects(&run, job.run(cx)).await.into_reply());
                    run.settle_rejects(reply).await
                }
                Err(failed) => Reply(Err(failed)),
            }
        })
    }

    fn ask(&self, attempt: u32, failure: &Failure) -> HookAnswer {
        let asked = catch_unwind(AssertUnwindSafe(|| {
            (J::should_retry(attempt, failure), J::delay(attempt, failure))
        }));
        match asked {
            Ok((should_retry, delay)) => {
                HookAnswer { should_retry: Some(should_retry), delay, panicked: false }
            }
            Err(_) => HookAnswer { panicked: true, ..HookAnswer::default() },
        }
    }

    fn isolation(&self) -> IsolationSettings {
        J::defaults().isolation
    }

    fn dependency(&self) -> Option<&'static str> {
        J::defaults().dependency
    }

    fn dependency_from(&self) -> Option<&'static str> {
        J::defaults().dependency_from
    }

    fn implemented_by(&self) -> &'static str {
        type_name::<J>()
    }

    fn bulk(&self) -> Option<BulkHandler<C>> {
        J::bulk_handler()
    }
}

/// A kind that shares nothing with others, run by a worker whose handlers share something.
struct WithoutContext(Arc<dyn Handler<()>>);

impl<C: Send + Sync + 'static> Handler<C> for WithoutContext {
    fn version(&self) -> u32 {
        self.0.version()
    }

    fn queue(&self) -> &'static str {
        self.0.queue()
    }

    fn run(&self, payload: Arc<str>, cx: JobContext<C>) -> ReplyFuture {
        self.0.run(payload, cx.without_app())
    }

    fn ask(&self, attempt: u32, failure: &Failure) -> HookAnswer {
        self.0.ask(attempt, failure)
    }

    fn isolation(&self) -> IsolationSettings {
        self.0.isolation()
    }

    fn dependency(&self) -> Option<&'static str> {
        self.0.dependency()
    }

    fn dependency_from(&self) -> Option<&'static str> {
        self.0.dependency_from()
    }

    fn implemented_by(&self) -> &'static str {
        self.0.implemented_by()
    }

    fn bulk(&self) -> Option<BulkHandler<C>> {
        self.0.bulk().map(BulkHandler::without_context)
    }
}

/// A job of this program that `#[job]` has made, in the list that all of them are in.
#[derive(Debug)]
pub struct RegistryEntry {
    kind: &'static str,
    /// The name of the context that it asks for.
    context: fn() -> &'static str,
    /// An `Arc<dyn Handler<C>>` of its own context `C`.
    handler: fn() -> Box<dyn Any>,
}

inventory::collect!(RegistryEntry);

impl RegistryEntry {
    /// The entry of `J`.
    #[must_use]
    pub const fn of<J: Job>() -> Self {
        Self { kind: J::KIND, context: type_name::<J::Context>, handler: || Box::new(erased::<J>()) }
    }
}

fn erased<J: Job>() -> Arc<dyn Handler<J::Context>> {
    Arc::new(Typed::<J>(PhantomData))
}

/// The second and third of the four points where invalid input is found (E11).
///
/// What the decoder says may quote the input, so it says no more than a view of the payload shows (F11, E12).
pub(crate) fn decode<J: Job>(payload: &str, shown: impl FnOnce() -> ShownPayload) -> Result<J, Box<Failed>> {
    let invalid = |error_type: &str, message: String| {
        Failed::plain(
            Failure::new(Cause::Invalid, error_type, message).because("the input can never be handled"),
        )
    };
    let job: J = serde_json::from_str(payload).map_err(|problem| {
        let told = match shown() {
            ShownPayload::Whole => problem.to_string(),
            ShownPayload::Masked => unquoted(&problem),
            ShownPayload::Sealed => place(&problem, "what was sealed"),
        };
        invalid("PayloadDecode", format!("the payload does not decode as {}: {told}", J::KIND))
    })?;
    job.validate().map_err(|problem| invalid("PayloadValidation", problem))?;
    Ok(job)
}

/// What a decoder says, without what stands in the payload: only forms that are known to quote nothing else are kept.
fn unquoted(problem: &serde_json::Error) -> String {
    const FOUND: [&str; 7] =
        ["string", "integer", "floating point", "boolean", "character", "map", "sequence"];
    let said = problem.to_string();
    if said.starts_with("missing field `") {
        return said;
    }
    let kept = || {
        let rest = said.strip_prefix("invalid type: ")?;
        let found = FOUND
            .into_iter()
            .find(|found| rest.strip_prefix(found).is_some_and(|rest| rest.starts_with([',', ' '])))?;
        // The last one: what is quoted before it may hold the same words.
        let expected = &rest[rest.rfind(", expected ")?..];
        Some(format!("invalid type: {found}{expected}"))
    };
    kept().unwrap_or_else(|| place(problem, "the payload, parts of which are not shown"))
}

fn place(problem: &serde_json::Error, of: &str) -> String {
    format!("see line {} column {} of {of}", problem.line(), problem.column())
}

/// Every kind a worker can run.
pub(crate) struct Registry<C> {
    handlers: HashMap<&'static str, Arc<dyn Handler<C>>>,
    /// Kinds that two types claim, with both types.
    clashes: Vec<(&'static str, [&'static str; 2])>,
    /// Jobs of the program that ask for another context, each with that.
    passed_by: BTreeMap<&'static str, &'static str>,
}

impl<C: Send + Sync + 'static> Registry<C> {
    pub(crate) fn new() -> Self {
        Self { handlers: HashMap::new(), clashes: Vec::new(), passed_by: BTreeMap::new() }
    }

    pub(crate) fn add<J: Job<Context = C>>(&mut self) {
        self.insert(J::KIND, erased::<J>());
    }

    pub(crate) fn add_without_context<J: Job<Context = ()>>(&mut self) {
        self.insert(J::KIND, Arc::new(WithoutContext(erased::<J>())));
    }

    /// Adds a kind whose name is made while the program runs. It is kept until the program ends.
    pub(crate) fn add_named(&mut self, kind: String, handler: Arc<dyn Handler<C>>) {
        self.insert(kind.leak(), handler);
    }

    /// Adds every job that `#[job]` has made in this program and that asks for this context or for none.
    pub(crate) fn add_all(&mut self) {
        for entry in inventory::iter::<RegistryEntry> {
            let handler = match (entry.handler)().downcast::<Arc<dyn Handler<C>>>() {
                Ok(handler) => Some(*handler),
                Err(other) => other.downcast::<Arc<dyn Handler<()>>>().ok().map(|handler| {
                    let handler: Arc<dyn Handler<C>> = Arc::new(WithoutContext(*handler));
                    handler
                }),
            };
            match handler {
                Some(handler) => self.insert(entry.kind, handler),
                None => {
                    self.passed_by.insert(entry.kind, (entry.context)());
                }
            }
        }
    }

    fn insert(&mut self, kind: &'static str, handler: Arc<dyn Handler<C>>) {
        let after = handler.implemented_by();
        if let Some(before) = self.handlers.insert(kind, handler).map(|handler| handler.implemented_by())
            && before != after
        {
            self.clashes.push((kind, [before, after]));
        }
    }

    /// Refuses kinds that a worker could not run: none at all, and one that two types claim.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some((kind, [first, second])) = self.clashes.first() {
            return Err(Error::TwoHandlers { kind, first, second });
        }
        if !self.handlers.is_empty() {
            return Ok(());
        }
        match self.passed_by.first_key_value() {
            None => Err(Error::NothingToDo { what: "kind of job", call: "register::<MyJob>()" }),
            Some((kind, context)) => Err(Error::OtherContext { kind, context, worker: type_name::<C>() }),
        }
    }

    /// The handlers, each with its kind.
    pub(crate) fn into_handlers(self) -> impl Iterator<Item = (&'static str, Arc<dyn Handler<C>>)> {
        self.handlers.into_iter()
    }

    /// The queues that jobs of these kinds go to, each with its kinds, in a stable order.
    pub(crate) fn queues(&self) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut queues: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (kind, handler) in &self.handlers {
            queues.entry(handler.queue()).or_default().insert(*kind);
        }
        queues
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Colour {
        Red,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only whether it can be decoded matters")]
    struct Input {
        number: u32,
        #[serde(default)]
        colour: Option<Colour>,
    }

    #[test]
    fn a_decoder_quotes_nothing_of_what_is_not_shown() {
        // F11, E11
        let aside = "see line 1 column";
        for (payload, told) in [
            ("{}", "missing field `number` at line 1 column 2"),
            (r#"{"number":"hunter2"}"#, "invalid type: string, expected u32 at line 1 column 19"),
            (r#"{"number":"x, expected hunter2"}"#, "invalid type: string, expected u32 at line 1 column 31"),
            (r#"{"number":["hunter2"]}"#, "invalid type: sequence, expected u32 at line 1 column 10"),
            (r#"{"number":1,"colour":"hunter2"}"#, aside),
            (r#"{"number":-7731}"#, aside),
            (r#"{"number":1e999,"note":"hunter2"}"#, aside),
            (r#"{"number":1"#, aside),
        ] {
            let problem = serde_json::from_str::<Input>(payload).expect_err(payload);
            let said = unquoted(&problem);
            assert!(
                said.starts_with(told) && !said.contains("hunter2") && !said.contains("7731"),
                "{payload}: {said}"
            );
        }
    }

    #[test]
    fn a_worker_whose_context_no_job_asks_for_names_one_that_asks_for_another() {
        let mut registry = Registry::<u8>::new();
        registry.passed_by.insert("send_email", "App");
        let error = registry.check().expect_err("nothing to run").to_string();
        let says =
            "no job of this program can run in a worker with context u8: `send_email`, for one, asks for App";
        assert_eq!(error, says);
    }
}

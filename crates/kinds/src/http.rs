//! The kind `http`: sends one request to an address that is open to jobs (E5).
//!
//! - `settings`: what is open. `target`: reads URLs strictly. `address`: what addresses are for.
//! - `connect`: resolves, checks every address, connects to one that was checked. `exchange`: request and answer.
//! - `answer`: what an answer means for the job. `message`: the same way out for messages that are no job's payload.
//!
//! It must not use a proxy of the environment, decompress anything, or tell a tenant which address a name led to.

mod address;
mod answer;
mod connect;
mod exchange;
mod message;
mod resolve;
mod settings;
mod target;

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use backstop::{BoxError, Job, JobContext, Outcome};
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use self::resolve::{ResolveFuture, Resolver, SystemResolver};
pub use self::settings::HttpSettings;

use self::exchange::{HttpRequest, HttpResponse};
use self::settings::METHODS;
use self::target::Target;
use crate::kinds::Kinds;
use crate::refusal::{PayloadRefusal, RefusalCode, brief, refused};

/// Headers of one request.
const HEADERS_MAX: usize = 64;

/// Headers that belong to the connection or to the signature, and not to a payload.
const RESERVED: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "expect",
    "te",
    "trailer",
    "http2-settings",
];

/// A job that sends a request. `C` is the worker's context.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "", deny_unknown_fields)]
pub struct Http<C = Kinds> {
    /// GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS.
    pub method: String,
    /// Where to: http or https.
    pub url: String,
    /// Headers to send.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What to send: a text as it is, anything else as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
    /// How long it may take, in milliseconds; at most what the worker allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The name of the secret to sign with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[serde(skip)]
    context: PhantomData<fn() -> C>,
}

impl<C> Http<C> {
    /// A job that sends a request without headers and body.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: BTreeMap::new(),
            body: None,
            timeout_ms: None,
            secret: None,
            context: PhantomData,
        }
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// The same with a body: a text as it is, anything else as JSON.
    ///
    /// # Errors
    /// When `value` is no JSON.
    pub fn body(mut self, value: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.body = Some(serde_json::value::to_raw_value(value)?);
        Ok(self)
    }

    /// The same with less time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// The same, signed with the secret of this name.
    #[must_use]
    pub fn signed_with(mut self, secret: impl Into<String>) -> Self {
        self.secret = Some(secret.into());
        self
    }

    /// All that can be read without settings.
    fn outgoing(&self) -> Result<HttpRequest, PayloadRefusal> {
        let method = METHODS.into_iter().find(|method| method.as_str() == self.method).ok_or_else(|| {
            let told = format!(
                "`{}` is not a method: use GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS",
                brief(&self.method)
            );
            PayloadRefusal::new(RefusalCode::HttpMethodUnknown, told)
        })?;
        if self.body.is_some() && matches!(method, Method::GET | Method::HEAD) {
            let told = format!("{method} takes no body: leave `body` out, or use POST");
            return Err(PayloadRefusal::new(RefusalCode::HttpBodyNotTaken, told));
        }
        if self.timeout_ms == Some(0) {
            let told = "`timeout_ms` is 0: nothing could be sent, leave it out or make it longer";
            return Err(PayloadRefusal::new(RefusalCode::HttpZeroTimeout, told));
        }
        if self.headers.len() > HEADERS_MAX {
            let told = format!("there are {} headers, the limit is {HEADERS_MAX}", self.headers.len());
            return Err(PayloadRefusal::new(RefusalCode::HttpTooManyHeaders, told));
        }
        let headers =
            self.headers.iter().map(|(name, value)| header(name, value)).collect::<Result<_, _>>()?;
        Ok(HttpRequest::new(method, headers, self.body.as_deref()))
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), PayloadRefusal> {
    let told = || format!("`{}` is not a valid header or value", brief(name));
    let wrong = || PayloadRefusal::new(RefusalCode::HttpHeaderInvalid, told());
    let read = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
    let reserved = RESERVED.contains(&read.as_str())
        || read.as_str().starts_with("proxy-")
        || read.as_str().starts_with("webhook-");
    if reserved {
        let told = format!("a payload may not set header `{}`: leave it out", brief(name));
        return Err(PayloadRefusal::new(RefusalCode::HttpHeaderReserved, told));
    }
    Ok((read, HeaderValue::from_str(value).map_err(|_| wrong())?))
}

impl<C: AsRef<Kinds> + Send + Sync + 'static> Job for Http<C> {
    const KIND: &'static str = "http";
    type Context = C;
    type Output = Result<Value, BoxError>;

    async fn run(self, cx: JobContext<C>) -> Result<Value, BoxError> {
        let settings = &cx.app().as_ref().http;
        let target = Target::parse(&self.url).map_err(refused)?;
        let mut outgoing = self.outgoing().map_err(refused)?;
        if !settings.methods.contains(&outgoing.method) {
            let told = format!("{} may not be sent: handlers.http.methods does not list it", outgoing.method);
            return Err(refused(PayloadRefusal::new(RefusalCode::HttpMethodNotAllowed, told)));
        }
        outgoing.sign_with(cx.effect_key(), self.secret.as_deref(), &target.host, settings)?;
        let limit = self.timeout_ms.map_or(settings.timeout, Duration::from_millis).min(settings.timeout);
        match tokio::time::timeout(limit, follow(target, outgoing, settings)).await {
            Ok(answered) => answered,
            Err(_) => Err(Outcome::timeout(limit).into()),
        }
    }
}

/// Sends a request, and follows as many redirects as are allowed. Each step is checked like the first one.
async fn follow(
    mut target: Target,
    mut outgoing: HttpRequest,
    settings: &HttpSettings,
) -> Result<Value, BoxError> {
    for left in (0..=settings.redirects).rev() {
        let answer = exchange::exchange(&target, &outgoing, settings).await?;
        let Some(location) = answer.redirect() else { return answer::of(&target, &answer) };
        if left == 0 {
            return Err(refused(PayloadRefusal::new(
                RefusalCode::HttpRedirectNotFollowed,
                stopped(&answer, settings),
            )));
        }
        let next = target.join(location).map_err(|problem| {
            let told = format!("the redirect of `{}` cannot be followed: {problem}", target.host.shown());
            refused(PayloadRefusal::new(RefusalCode::HttpRedirectInvalid, told))
        })?;
        if target.encrypted && !next.encrypted {
            let told =
                format!("`{}` redirects from https to http: that is not followed", target.host.shown());
            return Err(refused(PayloadRefusal::new(RefusalCode::HttpRedirectDowngrade, told)));
        }
        if !outgoing.redirected(answer.status, target.same_origin(&next), settings.redirects_carry) {
            let told =
                format!("`{}` redirects to another host, which the body is not for", target.host.shown());
            return Err(refused(PayloadRefusal::new(RefusalCode::HttpRedirectElsewhere, told)));
        }
        target = next;
    }
    Err(Outcome::permanent("no request was sent").into())
}

fn stopped(answer: &HttpResponse, settings: &HttpSettings) -> String {
    let code = answer.status.as_u16();
    match settings.redirects {
        0 => format!("the answer is {code}: redirects are not followed"),
        most => format!("the answer is {code} again: {most} redirects were followed, and no more are"),
    }
}

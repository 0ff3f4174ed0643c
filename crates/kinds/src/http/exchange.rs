//! One request and its answer, on a connection of its own. Of the answer only the start is read.

use std::time::{SystemTime, UNIX_EPOCH};

use backstop::BoxError;
use backstop::standard_webhooks::{ID, SIGNATURE, Secret, TIMESTAMP, signatures};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::connect::{connect, failed};
use super::settings::HttpSettings;
use super::target::{Host, Target};
use crate::refusal::{PayloadRefusal, RefusalCode, brief, refused};

/// Bytes that are read of an answer's body; it is left at that.
const BODY_MAX: usize = 64 * 1024;
/// Bytes that the head of an answer may have.
const HEAD_MAX: usize = 64 * 1024;

/// The name of the secrets that sign when a payload names none.
const DEFAULT_SECRET: &str = "default";

/// What is sent, wherever it goes.
#[derive(Debug)]
pub(super) struct HttpRequest {
    pub(super) method: Method,
    headers: HeaderMap,
    body: Bytes,
    signing: Option<(String, Vec<Secret>)>,
}

impl HttpRequest {
    pub(super) fn new(
        method: Method,
        given: Vec<(HeaderName, HeaderValue)>,
        body: Option<&RawValue>,
    ) -> Self {
        let mut headers = own_headers();
        let (body, kind) = match body.map(RawValue::get) {
            None => (Bytes::new(), None),
            // A text in JSON is sent as the text.
            Some(json) => match serde_json::from_str::<String>(json) {
                Ok(text) => (text.into(), Some("text/plain; charset=utf-8")),
                Err(_) => (json.to_owned().into(), Some("application/json")),
            },
        };
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        for (name, value) in given {
            headers.insert(name, value);
        }
        Self { method, headers, body, signing: None }
    }

    /// A message as JSON that is signed under `id`.
    pub(super) fn message(body: String, id: &str, secret: Secret) -> Self {
        let mut message = Self::new(Method::POST, Vec::new(), None);
        message.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        message.body = body.into();
        message.signing = Some((id.to_owned(), vec![secret]));
        message
    }

    /// Signs from now on with the secrets of this name, which must be for this host.
    pub(super) fn sign_with(
        &mut self,
        id: String,
        name: Option<&str>,
        host: &Host,
        settings: &HttpSettings,
    ) -> Result<(), BoxError> {
        let signing = settings.secrets.get(name.unwrap_or(DEFAULT_SECRET));
        match (signing, name) {
            (Some(signing), _) if signing.is_for(host) => self.signing = Some((id, signing.secrets.clone())),
            (_, None) => {}
            (Some(_), Some(name)) => {
                let told = format!("secret `{}` is not for `{}`", brief(name), host.shown());
                return Err(refused(PayloadRefusal::new(RefusalCode::HttpSecretElsewhere, told)));
            }
            (None, Some(name)) => {
                let told =
                    format!("there is no secret `{}`: handlers.http.secrets does not have it", brief(name));
                return Err(refused(PayloadRefusal::new(RefusalCode::HttpSecretUnknown, told)));
            }
        }
        Ok(())
    }

    /// Turns into what is sent after a redirect. What a job says to one host is not for another: its headers and what
    /// vouches for it stay behind, unless `carried`. False when a body would have to go there too.
    pub(super) fn redirected(&mut self, status: StatusCode, same_origin: bool, carried: bool) -> bool {
        let asks_anew = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if asks_anew {
            self.method = Method::GET;
            self.body = Bytes::new();
            self.headers.remove(CONTENT_TYPE);
        }
        if same_origin {
            return true;
        }
        self.signing = None;
        if carried {
            // These vouch for somebody, and are never for others.
            self.headers.remove(AUTHORIZATION);
            self.headers.remove(COOKIE);
            return true;
        }
        self.headers = own_headers();
        self.body.is_empty()
    }

    fn request(&self, target: &Target) -> Result<Request<Full<Bytes>>, BoxError> {
        // What the library says of a wrong part would repeat it.
        let wrong = || failed(target, "the request cannot be built");
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(target.path.as_str())
            .body(Full::new(self.body.clone()))
            .map_err(|_| wrong())?;
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        headers.insert(HOST, HeaderValue::from_str(&target.authority()).map_err(|_| wrong())?);
        if let Some((id, secrets)) = &self.signing {
            // Receivers compare it with their own clocks, so it is this machine's and not the store's.
            let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let signed = signatures(secrets, id, seconds, &self.body);
            headers.insert(ID, HeaderValue::from_str(id).map_err(|_| wrong())?);
            headers.insert(TIMESTAMP, seconds.into());
            headers.insert(SIGNATURE, HeaderValue::from_str(&signed).map_err(|_| wrong())?);
        }
        Ok(request)
    }
}

/// Headers that every request has, whatever its job says.
fn own_headers() -> HeaderMap {
    let agent = HeaderValue::from_static(concat!("backstop/", env!("CARGO_PKG_VERSION")));
    HeaderMap::from_iter([(USER_AGENT, agent)])
}

/// What came back.
#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// True when there was more of the body.
    pub(super) cut: bool,
}

impl HttpResponse {
    /// Where it sends us instead.
    pub(super) fn redirect(&self) -> Option<&str> {
        let moved = matches!(self.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        // What is not ASCII reads as nothing, and nothing can be followed.
        moved.then(|| self.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default())
    }
}

/// Sends a request and reads the start of its answer.
pub(super) async fn exchange(
    target: &Target,
    outgoing: &HttpRequest,
    settings: &HttpSettings,
) -> Result<HttpResponse, BoxError> {
    let request = outgoing.request(target)?;
    let stream = connect(target, settings).await?;
    let broken = |problem: hyper::Error| failed(target, &format!("the request failed: {problem}"));
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEAD_MAX).handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // Ends with this request, also when that is dropped at its deadline.
    let mut task = JoinSet::new();
    task.spawn(connection);
    let response: Response<Incoming> = sender.send_request(request).await.map_err(broken)?;
    let (head, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    while body.len() <= BODY_MAX && !incoming.is_end_stream() {
        let Some(frame) = incoming.frame().await else { break };
        if let Some(data) = frame.map_err(broken)?.data_ref() {
            body.extend_from_slice(data);
        }
    }
    let cut = body.len() > BODY_MAX;
    body.truncate(BODY_MAX);
    Ok(HttpResponse { status: head.status, headers: head.headers, body, cut })
}

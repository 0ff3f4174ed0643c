//! One connection to the receiver, and the requests on it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstop::standard_webhooks::{ID, SIGNATURE, Secret, TIMESTAMP, signatures};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, RETRY_AFTER, USER_AGENT};
use hyper_util::rt::TokioIo;
use jiff::fmt::rfc2822::DateTimeParser;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::settings::ReceiverAddress;
use crate::broker::authority;
use crate::net::{NoConnection, connect};
use crate::secret::SecretText;

/// The route of the receiver that stores many jobs, with one answer for each.
const PATH: &str = "/api/v1/jobs/batch";

/// Bytes of an answer at most: far more than a thousand answers have.
const MOST_ANSWER: usize = 8 * 1024 * 1024;

/// A receiver that says more is asked again after this.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// Who asks, and where.
#[derive(Clone)]
pub(super) struct Receiver {
    pub(super) address: ReceiverAddress,
    pub(super) token: Option<SecretText>,
    pub(super) secrets: Vec<Secret>,
    /// The authority of its certificate, if that is none that the machine trusts.
    pub(super) authority: Option<PathBuf>,
    /// How long a connection and an answer may take.
    pub(super) patience: Duration,
}

/// What the receiver answered.
#[derive(Debug)]
pub(super) struct ReceiverAnswer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

/// A connection that is kept as long as both ends like.
pub(super) struct ReceiverConnection {
    sender: SendRequest<Full<Bytes>>,
    // Ends with this value.
    _task: JoinSet<()>,
}

impl Receiver {
    /// Posts jobs, signed under `id`. Answers in words why there was no answer.
    pub(super) async fn post(
        &self,
        kept: &mut Option<ReceiverConnection>,
        id: &str,
        body: Vec<u8>,
    ) -> Result<ReceiverAnswer, String> {
        let request = self.request(id, body)?;
        let answer = timeout(self.patience, async {
            let mut connection = match kept.take() {
                Some(mut connection) => match connection.sender.ready().await {
                    Ok(()) => connection,
                    // Servers close connections as they like: nothing was sent.
                    Err(_) => self.connect().await?,
                },
                None => self.connect().await?,
            };
            let failed = |error: hyper::Error| format!("the request failed: {error}");
            let response = connection.sender.send_request(request).await.map_err(failed)?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let body = Limited::new(response.into_body(), MOST_ANSWER).collect().await;
            let body = body.map_err(|error| format!("the answer broke off: {error}"))?.to_bytes();
            *kept = Some(connection);
            Ok(ReceiverAnswer { status, retry_after: retry_after(&headers, SystemTime::now()), body })
        });
        answer.await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    async fn connect(&self) -> Result<ReceiverConnection, String> {
        let ReceiverAddress { host, port, encrypted, .. } = &self.address;
        let authority = authority(self.authority.as_deref())?;
        let connected = connect(host, *port, *encrypted, authority.as_deref()).await;
        let stream = connected.map_err(|problem| match problem {
            NoConnection::Unavailable(problem) | NoConnection::Refused(problem) => {
                format!("cannot connect: {problem}")
            }
        })?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| format!("cannot connect: {error}"))?;
        let mut task = JoinSet::new();
        // How it ends is told to whoever waits for an answer.
        task.spawn(async move { drop(connection.await) });
        Ok(ReceiverConnection { sender, _task: task })
    }

    fn request(&self, id: &str, body: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
        let mut builder = Request::post(format!("{}{PATH}", self.address.base))
            .header(HOST, &self.address.authority)
            .header(USER_AGENT, concat!("backstop/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            builder = builder.header(AUTHORIZATION, format!("Bearer {}", token.0));
        }
        if !self.secrets.is_empty() {
            // The receiver compares it with its own clock, so it is this machine's.
            let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            builder = builder
                .header(ID, id)
                .header(TIMESTAMP, seconds)
                .header(SIGNATURE, signatures(&self.secrets, id, seconds, &body));
        }
        // What the library says of a wrong part would repeat it.
        builder.body(Full::new(body.into())).map_err(|_| "the token cannot be sent in a header".to_owned())
    }
}

/// How long the receiver asks us to wait: in seconds, or until a moment.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let moment = SystemTime::from(DateTimeParser::new().parse_timestamp(text).ok()?);
        moment.duration_since(now).unwrap_or_default()
    };
    Some(asked.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_says_how_long_to_wait() {
        // B7, F9
        let asked = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().expect("a value"));
            retry_after(&headers, UNIX_EPOCH + Duration::from_secs(784_111_777))
        };
        for (text, seconds) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("99999999999999999999", Some(3_600)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(asked(text), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), UNIX_EPOCH), None);
    }
}

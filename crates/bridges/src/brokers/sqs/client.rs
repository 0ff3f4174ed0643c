//! The six calls of SQS that a bridge makes: JSON over one HTTP connection, signed.

use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::sign::{AccessKeys, UnsignedRequest, authorization};
use crate::broker::{BrokerError, PATIENCE, read_authority};
use crate::net::{ByteStream, NoConnection, connect};

/// Bytes of an answer at most: ten messages of the largest size, and room for what is written around them.
const MOST_ANSWER: usize = 32 * 1024 * 1024;

/// Where SQS is, and who asks.
#[derive(Debug, Clone)]
pub(super) struct SqsPlace {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) encrypted: bool,
    pub(super) region: String,
    pub(super) keys: AccessKeys,
    /// As it is shown.
    pub(super) address: String,
    /// The authority of its certificate, if that is none that the machine trusts.
    pub(super) authority: Option<PathBuf>,
}

impl SqsPlace {
    pub(super) fn unavailable(&self, problem: impl ToString) -> BrokerError {
        BrokerError::Unavailable { address: self.address.clone(), problem: problem.to_string() }
    }

    pub(super) fn refused(&self, problem: impl ToString) -> BrokerError {
        BrokerError::Refused { address: self.address.clone(), problem: problem.to_string() }
    }

    /// The header `host`: without the port that the scheme has anyway.
    fn authority(&self) -> String {
        let usual = if self.encrypted { 443 } else { 80 };
        if self.port == usual { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }
}

/// One connection.
pub(super) struct SqsConnection {
    pub(super) place: SqsPlace,
    sender: SendRequest<Full<Bytes>>,
    // Ends with this value.
    _task: JoinSet<()>,
}

impl SqsConnection {
    pub(super) async fn open(place: SqsPlace) -> Result<Self, BrokerError> {
        let stream = match timeout(PATIENCE, stream(&place)).await {
            Ok(stream) => stream?,
            Err(_) => return Err(place.unavailable("the connection was not made in time")),
        };
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| place.unavailable(error))?;
        let mut task = JoinSet::new();
        // How it ends is told to whoever waits for an answer.
        task.spawn(async move { drop(connection.await) });
        Ok(Self { place, sender, _task: task })
    }

    /// Makes a call for which the server itself may wait so long.
    pub(super) async fn call(
        &mut self,
        action: &str,
        input: &Value,
        wait: Duration,
    ) -> Result<Value, BrokerError> {
        // Servers close connections as they like, some after every answer: that is no failure before a request is sent.
        if self.sender.ready().await.is_err() {
            *self = Self::open(self.place.clone()).await?;
        }
        let request = signed(&self.place, action, input)?;
        let exchange = async {
            let response = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MOST_ANSWER).collect().await;
            Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
        };
        let (status, body) = match timeout(wait + PATIENCE, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(problem)) => {
                let problem: String = problem;
                return Err(self.place.unavailable(problem));
            }
            Err(_) => return Err(self.place.unavailable("no answer in time")),
        };
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        Err(self.failed(status.as_u16(), &answer, input))
    }

    fn failed(&self, status: u16, answer: &Value, input: &Value) -> BrokerError {
        let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
        // Such as `com.amazonaws.sqs#QueueDoesNotExist`.
        let kind = text("__type").rsplit('#').next().unwrap_or_default();
        let message = [text("message"), text("Message")].concat();
        if kind.contains("NonExistentQueue") || kind.contains("QueueDoesNotExist") {
            let named = input.get("QueueName").or_else(|| input.get("QueueUrl")).and_then(Value::as_str);
            let queue = named.unwrap_or_default().to_owned();
            return BrokerError::NoSuchQueue { queue, address: self.place.address.clone() };
        }
        let problem = format!("{status} {kind}: {message}");
        let busy = status >= 500 || status == 429 || kind.contains("Throttl");
        if busy { self.place.unavailable(problem) } else { self.place.refused(problem) }
    }
}

async fn stream(place: &SqsPlace) -> Result<Box<dyn ByteStream>, BrokerError> {
    let authority = read_authority(&place.address, place.authority.as_deref())?;
    let connected = connect(&place.host, place.port, place.encrypted, authority.as_deref()).await;
    connected.map_err(|problem| match problem {
        NoConnection::Unavailable(problem) => place.unavailable(problem),
        NoConnection::Refused(problem) => place.refused(problem),
    })
}

fn signed(place: &SqsPlace, action: &str, input: &Value) -> Result<Request<Full<Bytes>>, BrokerError> {
    let body = input.to_string().into_bytes();
    // The server compares it with its own clock, so it is this machine's.
    let moment = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let (host, target) = (place.authority(), format!("AmazonSQS.{action}"));
    let mut headers =
        vec![("content-type", "application/x-amz-json-1.0"), ("host", &host), ("x-amz-date", &moment)];
    if let Some(token) = &place.keys.token {
        headers.push(("x-amz-security-token", &token.0));
    }
    headers.push(("x-amz-target", &target));
    let request = UnsignedRequest {
        method: "POST",
        path: "/",
        headers: &headers,
        body: &body,
        moment: &moment,
        region: &place.region,
        service: "sqs",
    };
    let authorization = authorization(&request, &place.keys);
    let mut builder = Request::builder().method("POST").uri("/").header("authorization", authorization);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    // What the library says of a wrong part would repeat it.
    builder.body(Full::new(body.into())).map_err(|_| place.refused("the keys cannot be sent in a header"))
}

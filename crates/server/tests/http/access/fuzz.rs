//! Requests that make no sense, on every route: refused in the one shape, never an error of ours.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::Request;
use backstop_server::{Scope, ServerSettings, table};
use backstop_testing::TokioClock;

use super::stage::Stage;

const REQUESTS: usize = 5_000;

/// Pieces that programs stumble over.
const PIECES: [&str; 34] = [
    "",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "null",
    "true",
    "[]",
    "{}",
    "{\"a\":",
    "[[[[[[[[",
    "\"",
    "\\u0000",
    "NaN",
    "%00",
    "%ff%fe",
    "%2e%2e%2f",
    "..",
    "/",
    "?",
    "&",
    "=",
    "💥",
    "\u{202e}",
    "'; DROP TABLE job;--",
    "acme/mail",
    "id",
    "limit",
    "cursor",
    "kind",
    "payload",
    "queue",
    "2026-11-15T09:30:00Z",
    "018f2b6e-0000-7000-8000-000000000000",
];

/// A generator whose seed is the whole story of a run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(most).expect("small")).expect("small")
    }

    fn piece(&mut self) -> &'static str {
        PIECES[self.below(PIECES.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.roll().to_le_bytes()[0]).collect()
    }

    /// A part of a path or of a query: anything that a URI can hold.
    fn part(&mut self) -> String {
        let raw = if self.below(3) == 0 { self.bytes(40) } else { self.piece().as_bytes().to_vec() };
        let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
        raw.into_iter()
            .map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") })
            .collect()
    }

    fn value(&mut self, depth: usize) -> String {
        match self.below(if depth > 3 { 3 } else { 6 }) {
            0 => self.piece().to_owned(),
            1 => format!("{:?}", self.piece()),
            2 => i64::from_le_bytes(self.roll().to_le_bytes()).to_string(),
            3 => format!("[{},{}]", self.value(depth + 1), self.value(depth + 1)),
            _ => format!(
                "{{\"{}\":{},\"kind\":\"x\"}}",
                self.piece().replace(['"', '\\'], ""),
                self.value(depth + 1)
            ),
        }
    }

    fn body(&mut self) -> Vec<u8> {
        match self.below(4) {
            0 => self.bytes(200),
            1 => b"{}".to_vec(),
            _ => self.value(0).into_bytes(),
        }
    }

    fn query(&mut self) -> String {
        let pairs: Vec<String> =
            (0..self.below(4)).map(|_| format!("{}={}", self.part(), self.part())).collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }
}

/// A request that could come over a socket; none when no client could send it.
fn request(dice: &mut Dice, route: &backstop_server::Route, token: &str) -> Option<Request<Body>> {
    let parts =
        route.path.split('/').map(|part| if part.starts_with('{') { dice.part() } else { part.to_owned() });
    let path: Vec<String> = parts.collect();
    let uri = format!("{}{}", path.join("/"), dice.query());
    let method = if dice.below(20) == 0 { "PATCH" } else { route.method.as_str() };
    let mut request = Request::builder().method(method).uri(uri);
    if dice.below(10) != 0 {
        request = request.header("content-type", "application/json");
    }
    if dice.below(10) != 0 {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let names = [
        "authorization",
        "accept",
        "host",
        "origin",
        "content-type",
        "traceparent",
        "last-event-id",
        "cookie",
    ];
    for _ in 0..dice.below(3) {
        request = request.header(names[dice.below(names.len())], dice.bytes(60));
    }
    let body = if route.method == "GET" && dice.below(8) != 0 { Vec::new() } else { dice.body() };
    request.body(Body::from(body)).ok()
}

// Time stands still, so that a long poll that is asked for by chance is over at once.
#[tokio::test(start_paused = true)]
async fn nonsense_is_refused_in_the_one_shape_on_every_route() {
    let given = std::env::var("BACKSTOP_SEED").ok().and_then(|seed| seed.parse().ok());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos();
    let seed: u64 = given.unwrap_or_else(|| u64::from(clock()) + 1);
    eprintln!("replay it with BACKSTOP_SEED={seed}");
    let (mut dice, routes) = (Dice(seed), table());
    let mut settings = ServerSettings::default();
    settings.access.rate = None;
    let stage = Stage::on(TokioClock::engine(), settings);
    let token = stage.token("fuzz", &Scope::ALL).await;
    let (mut sent, mut fine) = (0, 0);
    while sent < REQUESTS {
        let route = &routes[dice.below(routes.len())];
        let Some(request) = request(&mut dice, route, &token) else { continue };
        let what = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
        let reply = stage.send(request).await;
        let tell = || format!("BACKSTOP_SEED={seed}, request {sent}: {what}: {reply:?}");
        assert!(reply.status.is_success() || reply.status.is_client_error(), "{}", tell());
        if reply.status.is_client_error() {
            let error = serde_json::from_str::<serde_json::Value>(&reply.text).unwrap_or_default();
            assert!(
                error["error"]["code"].is_string() && error["error"]["message"].is_string(),
                "{}",
                tell()
            );
        }
        sent += 1;
        fine += usize::from(reply.status.is_success());
    }
    assert!(fine > 100, "hardly any request got through: {fine}");
}

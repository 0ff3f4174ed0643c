//! `http`: what is sent, what answers mean, and which redirects are followed.

use std::time::{Duration, Instant};

use backstop::standard_webhooks::{Secret, signatures};
use backstop::{Cause, State};
use backstop_kinds::{Http, HttpSettings};
use serde_json::{Value, json};

use crate::server::{Request, Server, header, reply};
use crate::stage::Stage;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// Who shares it.
const HOSTS: [&str; 1] = ["127.0.0.1"];

/// Settings under which a server of this test may be talked to.
fn open(servers: &[&Server]) -> HttpSettings {
    HttpSettings::default().allow_private(true).ports(servers.iter().map(|server| server.port()))
}

fn http(method: &str, url: String) -> Http {
    Http::new(method, url)
}

/// The last word of the path in a request line.
fn path(request: &Request) -> &str {
    request.0.split(' ').nth(1).unwrap_or_default()
}

#[tokio::test]
async fn every_status_means_what_the_table_says() {
    // E5
    let server = Server::start("127.0.0.1", |request| {
        let (_, code, wait) = split(path(request));
        let wait = if wait.is_empty() { String::new() } else { format!("retry-after: {wait}\r\n") };
        reply(&format!("{code} So"), &wait, if code == "204" { "" } else { "so" })
    })
    .await;
    let stage = Stage::requests(open(&[&server])).await;
    for (code, wait, cause, delay) in [
        (200, "", Cause::Succeeded, None),
        (201, "", Cause::Succeeded, None),
        (204, "", Cause::Succeeded, None),
        (299, "", Cause::Succeeded, None),
        (300, "", Cause::Permanent, None),
        (304, "", Cause::Permanent, None),
        (400, "", Cause::Permanent, None),
        (401, "", Cause::Permanent, None),
        (404, "30", Cause::Permanent, None),
        (408, "", Cause::Error, None),
        (410, "", Cause::Permanent, None),
        (429, "", Cause::Error, None),
        (429, "soon", Cause::Error, None),
        (429, "120", Cause::RateLimited, Some(120)),
        (429, "0", Cause::RateLimited, Some(1)),
        (499, "", Cause::Permanent, None),
        (500, "", Cause::Error, None),
        (500, "30", Cause::Error, None),
        (502, "", Cause::Error, None),
        (503, "", Cause::Error, None),
        (503, "90", Cause::Rejected, Some(90)),
        (504, "", Cause::Error, None),
        (599, "", Cause::Error, None),
    ] {
        let ran = stage.run(http("GET", server.url(&format!("/{code}/{wait}")))).await;
        assert_eq!(ran.cause(), cause, "{code} {wait}: {}", ran.message());
        let record = &ran.detail.view.record;
        assert_eq!(record.state == State::Pending, delay.is_some(), "{code}");
        let Some(delay) = delay else { continue };
        assert_eq!((record.attempt, record.deferrals), (0, 1), "it costs nothing");
        let waits = record.run_at.since(ran.run.finished_at);
        assert!(waits.abs_diff(Duration::from_secs(delay)) < Duration::from_millis(100), "{code}: {waits:?}");
        stage.engine.cancel(ran.detail.view.job.spec.id, "seen").await.expect("it waits");
    }
}

/// The words of `/a/b`, with what is missing empty.
fn split(path: &str) -> (&str, &str, &str) {
    let mut words = path.split('/');
    let mut next = || words.next().unwrap_or_default();
    (next(), next(), next())
}

#[tokio::test]
async fn a_request_is_sent_as_the_payload_says() {
    // E5
    let server = Server::start("127.0.0.1", |request| {
        let body = json!({ "line": request.0.lines().next(), "body": String::from_utf8_lossy(&request.1) });
        reply(
            "200 OK",
            "content-type: application/json\r\netag: \"7\"\r\nset-cookie: a=b\r\n",
            &body.to_string(),
        )
    })
    .await;
    let stage = Stage::requests(open(&[&server])).await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
        let ran = stage.run(http(method, server.url("/a?b=%20c#d")).header("X-Word", "é w")).await;
        assert_eq!(ran.cause(), Cause::Succeeded, "{method}: {}", ran.message());
        let (head, body) = server.requests().remove(0);
        assert!(head.starts_with(&format!("{method} /a?b=%20c HTTP/1.1\r\n")) && body.is_empty(), "{head}");
        assert_eq!(header(&head, "host"), Some(server.address.to_string()));
        assert_eq!(header(&head, "x-word").as_deref(), Some("é w"));
        assert!(header(&head, "user-agent").is_some_and(|it| it.starts_with("backstop/")));
        assert!(header(&head, "webhook-signature").is_none() && header(&head, "accept-encoding").is_none());
        if method != "HEAD" {
            let result = ran.result();
            assert_eq!(result["status"], json!(200));
            assert_eq!(result["headers"]["etag"], json!("\"7\""));
            assert_eq!(
                (&result["headers"]["set-cookie"], &result["body"]["body"]),
                (&Value::Null, &json!(""))
            );
        }
    }
    let raw = |body: &str| format!("{{\"method\":\"POST\",\"url\":\"{}\",\"body\":{body}}}", server.url("/"));
    for (body, sent, kind) in [
        ("{\"b\":1.50, \"a\":[]}", "{\"b\":1.50, \"a\":[]}", "application/json"),
        ("\"te\\u0078t\"", "text", "text/plain; charset=utf-8"),
        ("17", "17", "application/json"),
    ] {
        assert_eq!(stage.run_raw("http", raw(body)).await.cause(), Cause::Succeeded);
        let (head, got) = server.requests().remove(0);
        assert_eq!(
            (String::from_utf8_lossy(&got).as_ref(), header(&head, "content-type").as_deref()),
            (sent, Some(kind))
        );
    }
    let given = http("PUT", server.url("/")).header("content-type", "text/csv").body(&"a,b").expect("JSON");
    stage.run(given).await;
    assert_eq!(header(&server.requests().remove(0).0, "content-type").as_deref(), Some("text/csv"));
}

#[tokio::test]
async fn what_no_payload_may_say_is_invalid_and_sends_nothing() {
    // E5
    let server = Server::sink("127.0.0.1").await;
    let stage = Stage::requests(open(&[&server])).await;
    let url = server.url("/");
    let mut payloads = vec![
        json!({}),
        json!({ "method": "GET" }),
        json!({ "url": url }),
        json!({ "method": "get", "url": url }),
        json!({ "method": "TRACE", "url": url }),
        json!({ "method": "CONNECT", "url": url }),
        json!({ "method": "GET / HTTP/1.1\r\nx: y", "url": url }),
        json!({ "method": "GET", "url": url, "body": 1 }),
        json!({ "method": "GET", "url": url, "timeout_ms": 0 }),
        json!({ "method": "GET", "url": url, "proxy": "http://127.0.0.1" }),
        json!({ "method": "GET", "url": url, "headers": { "a b": "c" } }),
        json!({ "method": "GET", "url": url, "headers": { "a": "b\r\nc: d" } }),
        json!({ "method": "GET", "url": url, "headers": { "a": "b\nc: d" } }),
        json!({ "method": "GET", "url": url, "headers": { "a\r\nb": "c" } }),
        json!({ "method": "GET", "url": format!("{url}\r\nx: y") }),
        json!({ "method": "GET", "url": format!("{url} HTTP/1.1") }),
    ];
    for name in
        ["Host", "content-length", "Transfer-Encoding", "connection", "webhook-id", "Proxy-Authorization"]
    {
        payloads.push(json!({ "method": "POST", "url": url, "headers": { name: "1" } }));
    }
    for payload in payloads {
        let ran = stage.run_raw("http", payload.to_string()).await;
        assert_eq!(ran.cause(), Cause::Invalid, "{payload}: {}", ran.message());
    }
    let narrow = open(&[&server]).methods(&["POST"]).expect("a method");
    let ran = Stage::requests(narrow).await.run(http("GET", url.clone())).await;
    assert_eq!(ran.cause(), Cause::Permanent);
    let ran = Stage::requests(HttpSettings::default().allow_private(true)).await.run(http("GET", url)).await;
    assert_eq!(ran.cause(), Cause::Permanent);
    assert!(ran.message().contains("may not be connected to: handlers.http.ports"), "{}", ran.message());
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_signed_request_carries_a_signature_that_its_receiver_can_check() {
    // E5
    let server = Server::sink("127.0.0.1").await;
    let settings = open(&[&server]).secret("partner", &[SECRET, SECRET], &HOSTS).expect("secrets");
    let stage = Stage::requests(settings.clone()).await;
    let post = || http("POST", server.url("/hook")).body(&json!({ "n": 1 })).expect("JSON");
    let ran = stage.run(post().signed_with("partner")).await;
    assert_eq!(ran.cause(), Cause::Succeeded, "{}", ran.message());
    let (head, body) = server.requests().remove(0);
    let of = |name| header(&head, name).expect(name);
    assert_eq!(of("webhook-id"), ran.detail.view.job.spec.id.to_string());
    let secret = Secret::parse(SECRET).expect("a secret");
    let seconds = of("webhook-timestamp").parse().expect("seconds");
    let expected = signatures(&[secret.clone(), secret], &of("webhook-id"), seconds, &body);
    assert_eq!(of("webhook-signature"), expected);
    stage.run(post()).await;
    assert_eq!(header(&server.requests().remove(0).0, "webhook-signature"), None, "it was not asked for");
    let ran = stage.run(post().signed_with("nobody")).await;
    assert_eq!(ran.cause(), Cause::Permanent);
    assert!(ran.message().contains("there is no secret `nobody`"), "{}", ran.message());
    let with_default = settings.secret("default", &[SECRET], &HOSTS).expect("a secret");
    let stage = Stage::requests(with_default).await;
    stage.run(post()).await;
    assert!(header(&server.requests().remove(0).0, "webhook-signature").is_some(), "the default signs all");
}

#[tokio::test]
async fn a_secret_signs_for_the_hosts_that_share_it_and_for_no_other() {
    // E5
    let server = Server::sink("127.0.0.1").await;
    let settings = open(&[&server]).secret("partner", &[SECRET], &["hooks.example.com"]);
    let settings = settings.expect("secrets").secret("default", &[SECRET], &["hooks.example.com"]);
    let stage = Stage::requests(settings.expect("secrets")).await;
    let post = || http("POST", server.url("/hook")).body(&json!({ "n": 1 })).expect("JSON");
    let ran = stage.run(post().signed_with("partner")).await;
    assert_eq!(ran.error_type(), "http_secret_elsewhere", "{}", ran.message());
    assert_eq!(server.connections(), 0, "nothing was sent");
    assert_eq!(stage.run(post()).await.cause(), Cause::Succeeded);
    assert_eq!(header(&server.requests().remove(0).0, "webhook-signature"), None, "it is not for this host");
}

#[tokio::test]
async fn answers_are_cut_and_slow_ones_are_left() {
    // E5
    let server = Server::start("127.0.0.1", |request| match path(request) {
        "/long" => reply("200 OK", "", &"x".repeat(5_000_000)),
        "/bomb" => reply("200 OK", "content-encoding: gzip\r\n", "\u{1}\u{1f}\u{8b}"),
        "/head" => reply("200 OK", &format!("x: {}\r\n", "y".repeat(1_000_000)), ""),
        "/short" => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc".to_vec(),
        "/noise" => b"SSH-2.0-OpenSSH_9\r\n\r\n".to_vec(),
        _ => Vec::new(),
    })
    .await;
    // Accepts and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().map(|address| (address, silent)).expect("bound");
    let mut ports = vec![server.port(), silent.0.port()];
    ports.push(1);
    let stage = Stage::requests(HttpSettings::default().allow_private(true).ports(ports)).await;
    let ran = stage.run(http("GET", server.url("/long"))).await;
    assert_eq!(ran.cause(), Cause::Succeeded);
    let result = ran.result();
    assert_eq!(result["truncated"], json!(true));
    assert!(result["body"].as_str().is_some_and(|body| (50_000..65_536).contains(&body.len())));
    let ran = stage.run(http("GET", server.url("/bomb"))).await;
    assert_eq!((ran.cause(), ran.result()["body"].as_str()), (Cause::Succeeded, Some("\u{1}\u{1f}\u{8b}")));
    for path in ["/head", "/short", "/noise", "/nothing"] {
        let ran = stage.run(http("GET", server.url(path))).await;
        assert_eq!(ran.cause(), Cause::Error, "{path}: {}", ran.message());
        assert!(ran.message().contains("the request failed"), "{path}: {}", ran.message());
    }
    let began = Instant::now();
    let slow = http("GET", format!("http://{}/", silent.0)).timeout(Duration::from_millis(150));
    let ran = stage.run(slow).await;
    assert_eq!(ran.cause(), Cause::Timeout);
    assert!(began.elapsed() < Duration::from_secs(3));
    let ran = stage.run(http("GET", "http://127.0.0.1:1/".to_owned())).await;
    assert_eq!(ran.cause(), Cause::Error, "nobody listens there");
    assert!(ran.message().contains("cannot connect"), "{}", ran.message());
}

/// Redirects by its path: `/to/CODE/URL...`.
fn redirecting(request: &Request) -> Vec<u8> {
    match path(request).strip_prefix("/to/").and_then(|rest| rest.split_once('/')) {
        Some((code, location)) => reply(&format!("{code} Go"), &format!("location: {location}\r\n"), ""),
        None => reply("200 OK", "", "there"),
    }
}

#[tokio::test]
async fn redirects_are_followed_only_when_allowed_and_only_so_far() {
    // E5
    let server = Server::start("127.0.0.1", redirecting).await;
    let once = server.url(&format!("/to/302/{}", server.url("/end")));
    let closed = Stage::requests(open(&[&server])).await;
    let ran = closed.run(http("GET", once.clone())).await;
    assert_eq!((ran.cause(), server.connections()), (Cause::Permanent, 1));
    assert!(ran.message().contains("redirects are not followed"), "{}", ran.message());
    // E10
    assert_eq!(ran.error_type(), "http_redirect_not_followed");
    let stage = Stage::requests(open(&[&server]).redirects(5).expect("few")).await;
    let chain = |steps: usize| (0..steps).fold("/end".to_owned(), |to, _| format!("/to/307/{to}"));
    assert_eq!(stage.run(http("GET", server.url(&chain(5)))).await.cause(), Cause::Succeeded);
    let ran = stage.run(http("GET", server.url(&chain(6)))).await;
    assert_eq!(ran.cause(), Cause::Permanent);
    assert!(ran.message().contains("5 redirects were followed"), "{}", ran.message());
    server.requests();
    for (code, method, then) in [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (302, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ] {
        let job = http(method, server.url(&format!("/to/{code}//end"))).body(&"hello").expect("JSON");
        assert_eq!(stage.run(job).await.cause(), Cause::Succeeded, "{code} {method}");
        let second = server.requests().remove(1);
        let body = if then == "GET" { "" } else { "hello" };
        assert!(second.0.starts_with(&format!("{then} /end ")), "{code} {method}: {}", second.0);
        assert_eq!(second.1, body.as_bytes(), "{code} {method}");
        assert_eq!(header(&second.0, "content-type").is_some(), then != "GET");
    }
    for location in ["", "ftp://a/", "http://u:p@127.0.0.1/", "http://127.1/", "file:///etc/passwd"] {
        let ran = stage.run(http("GET", server.url(&format!("/to/302/{location}")))).await;
        let other = Cause::Permanent;
        assert_eq!(ran.cause(), other, "{location}: {}", ran.message());
        if !location.is_empty() {
            assert_eq!(ran.error_type(), "http_redirect_invalid", "{location}");
        }
    }
}

#[tokio::test]
async fn what_is_said_to_one_host_does_not_go_to_another() {
    // E5
    let (first, second) = (Server::start("127.0.0.1", redirecting).await, Server::sink("127.0.0.1").await);
    let settings = open(&[&first, &second]).redirects(2).expect("few").secret("default", &[SECRET], &HOSTS);
    let settings = settings.expect("a secret");
    let job = |method: &str, status: u16, to: String| {
        let job = http(method, first.url(&format!("/to/{status}/{to}"))).header("Authorization", "Bearer x");
        job.header("Cookie", "a=b").header("X-Api-Key", "1")
    };
    let seen = |head: &str| {
        ["authorization", "cookie", "webhook-signature", "x-api-key"].map(|name| header(head, name).is_some())
    };
    let stage = Stage::requests(settings.clone()).await;
    assert_eq!(stage.run(job("POST", 307, second.url("/"))).await.cause(), Cause::Succeeded);
    assert_eq!(seen(&first.requests()[0].0), [true; 4]);
    let (head, _) = second.requests().remove(0);
    assert_eq!(seen(&head), [false; 4], "another port is another place");
    assert!(head.starts_with("POST "), "{head}");
    assert_eq!(stage.run(job("POST", 307, "/end".to_owned())).await.cause(), Cause::Succeeded);
    assert_eq!(seen(&first.requests()[1].0), [true; 4], "the same place");

    let full = |status: u16| job("POST", status, second.url("/")).body(&"a secret").expect("JSON");
    let ran = stage.run(full(307)).await;
    assert_eq!(ran.error_type(), "http_redirect_elsewhere", "{}", ran.message());
    assert_eq!(second.requests().len(), 0, "nothing was sent there");
    assert_eq!(stage.run(full(303)).await.cause(), Cause::Succeeded, "asked again, without a body");
    let (head, body) = second.requests().remove(0);
    assert!(head.starts_with("GET ") && body.is_empty(), "{head}");

    let stage = Stage::requests(settings.redirects_carry(true)).await;
    assert_eq!(stage.run(full(307)).await.cause(), Cause::Succeeded);
    let (head, body) = second.requests().remove(0);
    assert_eq!((seen(&head), &*body), ([false, false, false, true], &b"a secret"[..]));
}

//! Hosts and origins, as a table.

use super::*;
use axum::http::Request;

const LOCAL: &str = "127.0.0.1:7700";

fn settings() -> AccessSettings {
    AccessSettings {
        allowed_hosts: vec!["jobs.example.com".to_owned()],
        allowed_origins: vec!["https://desk.example.com".to_owned()],
        ..AccessSettings::default()
    }
}

/// What a request over a socket with these headers comes to: `ok` or the code of the refusal.
fn check_with(method: &str, path: &str, local: &str, headers: &[(&str, &str)]) -> &'static str {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (mut parts, ()) = request.body(()).expect("a request").into_parts();
    let peer = Peer { remote: LOCAL.parse().expect("an address"), local: local.parse().expect("an address") };
    parts.extensions.insert(peer);
    check(&parts, &settings()).map_or_else(|refusal| refusal.code(), |()| "ok")
}

#[test]
fn a_name_that_is_not_ours_is_refused_also_on_loopback() {
    for (host, expected) in [
        ("127.0.0.1:7700", "ok"),
        ("127.0.0.1", "ok"),
        ("127.8.8.8:1", "ok"),
        ("localhost:7700", "ok"),
        ("LOCALHOST", "ok"),
        ("localhost.", "ok"),
        ("[::1]:7700", "ok"),
        ("[::1]", "ok"),
        ("jobs.example.com", "ok"),
        ("Jobs.Example.com:443", "ok"),
        ("10.0.0.5:7700", "ok"),
        ("10.0.0.6:7700", "wrong_host"),
        ("evil.example", "wrong_host"),
        ("evil.example:7700", "wrong_host"),
        ("127.0.0.1.evil.example", "wrong_host"),
        ("localhost.evil.example", "wrong_host"),
        ("jobs.example.com.evil.example", "wrong_host"),
        ("evil.example:127.0.0.1", "wrong_host"),
        ("", "wrong_host"),
        (":7700", "wrong_host"),
        ("2130706433", "wrong_host"),
    ] {
        let found = check_with("GET", "/api/v1/queues", "10.0.0.5:7700", &[("host", host)]);
        assert_eq!(found, expected, "{host}");
    }
    assert_eq!(check_with("GET", "/api/v1/queues", LOCAL, &[]), "wrong_host");
    let two = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(check_with("GET", "/api/v1/queues", LOCAL, &two), "wrong_host");
    let absolute = check_with("GET", "http://evil.example/api/v1/queues", LOCAL, &[("host", "localhost")]);
    assert_eq!(absolute, "wrong_host");
    assert_eq!(check_with("GET", "/health/live", LOCAL, &[("host", "evil.example")]), "ok");
    assert_eq!(check_with("POST", "/health/live", LOCAL, &[("host", "evil.example")]), "wrong_host");
}

#[test]
fn a_page_that_is_not_ours_may_not_call() {
    let host = ("host", "localhost:7700");
    for (header, value, expected) in [
        ("origin", "http://localhost:7700", "ok"),
        ("origin", "https://desk.example.com", "ok"),
        ("origin", "http://localhost:3000", "foreign_origin"),
        ("origin", "http://localhost", "foreign_origin"),
        ("origin", "https://evil.example", "foreign_origin"),
        ("origin", "null", "foreign_origin"),
        ("origin", "", "foreign_origin"),
        ("origin", "file://localhost:7700", "foreign_origin"),
        ("origin", "http://localhost:7700.evil.example", "foreign_origin"),
        ("origin", "https://desk.example.com.evil.example", "foreign_origin"),
        ("sec-fetch-site", "same-origin", "ok"),
        ("sec-fetch-site", "none", "ok"),
        ("sec-fetch-site", "same-site", "foreign_origin"),
        ("sec-fetch-site", "cross-site", "foreign_origin"),
        ("sec-fetch-site", "what", "foreign_origin"),
    ] {
        for method in ["GET", "POST", "DELETE", "OPTIONS"] {
            let found = check_with(method, "/api/v1/queues", LOCAL, &[host, (header, value)]);
            assert_eq!(found, expected, "{method} {header}: {value}");
        }
        assert_eq!(check_with("GET", "/health/ready", LOCAL, &[host, (header, value)]), "ok");
    }
    let two = [host, ("origin", "http://localhost:7700"), ("origin", "https://evil.example")];
    assert_eq!(check_with("POST", "/api/v1/jobs", LOCAL, &two), "foreign_origin");
    let usual = [("host", "jobs.example.com"), ("origin", "https://jobs.example.com")];
    assert_eq!(check_with("POST", "/api/v1/jobs", LOCAL, &usual), "ok");
}

#[test]
fn the_program_itself_needs_no_host() {
    let (parts, ()) = Request::get("/api/v1/queues").body(()).expect("a request").into_parts();
    assert!(check(&parts, &settings()).is_ok());
}

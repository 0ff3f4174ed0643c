//! What is shown to whom, what stands in the audit log, and what it costs.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use backstop_server::Scope;
use serde_json::json;

use super::{Visitor, dead_letter, proof, stage, whole_token};

#[tokio::test(start_paused = true)]
async fn what_a_token_may_not_do_is_not_shown_and_not_done() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let job = json!({ "kind": "charge", "max_retries": 0 });
    dead_letter(&stage, &all, job, "the card was declined", "Declined").await;
    let reader = stage.token("reader", &[Scope::Read]).await;
    let operator = stage.token("operator", &[Scope::Read, Scope::Operate]).await;
    let (reader, operator) = (Visitor::with(&stage, &reader).await, Visitor::with(&stage, &operator).await);
    for path in ["/", "/incidents", "/jobs", "/queues", "/schedules", "/circuits"] {
        let (read, operated) = (reader.get(path).await, operator.get(path).await);
        assert_eq!((read.status.as_u16(), operated.status.as_u16()), (200, 200), "{path}");
        assert!(!read.text.contains("action=\"/act\""), "{path} offers a change to a reader");
        assert!(!read.text.contains("href=\"/tokens\""), "{path} leads where a reader may not go");
    }
    assert!(operator.get("/queues").await.text.contains("action=\"/act\""));
    assert_eq!(reader.get("/tokens").await.status, 403, "the API says no, and the page says so");
    assert_eq!(reader.get("/audit").await.status, 403);
    // A form that somebody made up goes to the same check.
    let made_up =
        [("proof", &*proof(&reader.get("/").await.text)), ("do", "queue.pause"), ("at.name", "default")];
    assert_eq!(reader.send("/act", &made_up).await.status, 403);
    let incident = reader.get("/incidents").await.text;
    assert!(incident.contains("the card was declined"), "{incident}");
}

#[tokio::test(start_paused = true)]
async fn a_tenant_sees_what_is_its_own_and_nothing_else() {
    let stage = stage().await;
    let (acme, other) = (
        stage.token_of("acme", &Scope::ALL, Some("acme")).await,
        stage.token_of("globex", &Scope::ALL, Some("globex")).await,
    );
    for (token, name) in [(&acme, "anvil"), (&other, "death-ray")] {
        let job = json!({ "kind": format!("make_{name}"), "queue": format!("{name}s"), "max_retries": 0 });
        dead_letter(&stage, token, job, &format!("the {name} is broken"), "Broken").await;
    }
    let visitor = Visitor::with(&stage, &acme).await;
    for path in ["/", "/incidents", "/jobs", "/queues", "/workers", "/find?q=broken"] {
        let page = visitor.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(!page.text.contains("death-ray") && !page.text.contains("globex"), "{path}: {}", page.text);
    }
    assert!(visitor.get("/incidents").await.text.contains("the anvil is broken"));
    assert!(visitor.get("/queues").await.text.contains("anvils"));
}

#[tokio::test(start_paused = true)]
async fn what_is_done_on_the_page_stands_in_the_log_once_and_so_does_looking_at_secrets() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let job = json!({ "kind": "charge", "max_retries": 0, "payload": { "password": "hunter2" } });
    dead_letter(&stage, &all, job, "no", "No").await;
    let visitor = Visitor::with(&stage, &all).await;
    visitor.act("queue.pause", &[("at.name", "default")]).await;
    let id = stage.call("GET", "/api/v1/jobs", Some(&all)).await.json()["items"][0]["id"].clone();
    let path = format!("/jobs/{}", id.as_str().unwrap());
    let masked = visitor.get(&path).await.text;
    assert!(!masked.contains("hunter2"), "{masked}");
    let form = [("proof", &*proof(&masked))];
    let shown = visitor.send(&format!("{path}/reveal"), &form).await;
    assert!(shown.text.contains("hunter2"), "{}", shown.text);
    assert_eq!(visitor.send(&format!("{path}/reveal"), &[]).await.status, 403, "not without the proof");
    assert!(!visitor.get(&path).await.text.contains("hunter2"), "it is shown once, and kept nowhere");
    let log = stage.call("GET", "/api/v1/audit", Some(&all)).await.json();
    let told: Vec<(&str, &str, u64)> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|line| {
            (line["who"].as_str().unwrap(), line["path"].as_str().unwrap(), line["status"].as_u64().unwrap())
        })
        // What was refused changed nothing, and its line does not have to be there yet.
        .filter(|(_, _, status)| *status < 400)
        .filter(|(_, path, _)| !path.starts_with("/api/v1/work/") && *path != "/api/v1/jobs")
        .collect();
    let reveal = format!("{path}/reveal");
    let expected =
        [("all", "/login", 303), ("all", "/api/v1/queues/default/pause", 200), ("all", &*reveal, 200)];
    assert_eq!(told, expected);
}

/// What so many looks at the overview ask of the API, as the figures count it.
async fn asked(looks: usize) -> Vec<(String, f64)> {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    for _ in 0..looks {
        assert_eq!(visitor.get("/").await.status, 200);
    }
    let figures = stage.call("GET", "/metrics", Some(&all)).await.text;
    let lines = figures.lines().filter(|line| line.starts_with("backstop_http_requests_total"));
    let gets = lines.filter_map(|line| {
        let (route, _) = line.split_once("\"GET ")?.1.split_once('"')?;
        Some((route.to_owned(), line.rsplit(' ').next()?.parse().ok()?))
    });
    gets.filter(|(route, count)| *count > 0.0 && route != "/login").collect()
}

#[tokio::test(start_paused = true)]
async fn fifty_open_pages_cost_the_store_no_more_than_one() {
    let (mut one, mut fifty) = (asked(1).await, asked(50).await);
    let looks = |all: &mut Vec<(String, f64)>| {
        let at = all.iter().position(|(route, _)| route == "/").unwrap();
        all.remove(at).1
    };
    assert_eq!((looks(&mut one), looks(&mut fifty)), (1.0, 50.0));
    assert_eq!(one, fifty, "whatever the first one asked, the others did not");
    let count = |route: &str| fifty.iter().find(|(one, _)| one == route).map(|(_, count)| *count);
    for route in ["/api/v1/queues", "/api/v1/redrives", "/api/v1/circuits", "/api/v1/clock"] {
        assert_eq!(count(route), Some(1.0), "{route}: {fifty:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_view_is_small_whatever_the_store_holds() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let jobs: Vec<_> = (0..300).map(|at| json!({ "kind": "k", "queue": format!("queue-{at}") })).collect();
    let batch = json!({ "jobs": jobs }).to_string();
    assert!(stage.call_with("POST", "/api/v1/jobs/batch", Some(&all), &batch).await.status.is_success());
    for at in 0..60 {
        let job = json!({ "kind": format!("kind_{at}"), "max_retries": 0 });
        dead_letter(&stage, &all, job, &"a long story ".repeat(150), "Long").await;
    }
    let visitor = Visitor::with(&stage, &all).await;
    let page = visitor.get("/").await;
    assert_eq!(page.status, 200);
    let linked = |start: &str, end: &str| {
        let (_, rest) = page.text.split_once(start).unwrap();
        rest.split(end).next().unwrap().to_owned()
    };
    let style = visitor.get(&linked("rel=\"stylesheet\" href=\"", "\"")).await;
    let script = visitor.get(&linked("script src=\"", "\"")).await;
    for file in [&style, &script] {
        assert_eq!(file.headers["cache-control"], "public, max-age=31536000, immutable");
    }
    let whole = page.text.len() + style.text.len() + script.text.len();
    assert!(
        whole < 60 * 1_024,
        "{whole} bytes: {} + {} + {}",
        page.text.len(),
        style.text.len(),
        script.text.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_link_from_elsewhere_is_followed_and_a_form_from_elsewhere_is_not() {
    let stage = stage().await;
    let visit = |method: &str, headers: &[(&str, &str)]| {
        let mut request =
            axum::http::Request::builder().method(method).uri("/login").header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(axum::body::Body::empty()).unwrap()
    };
    let link =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    let followed = stage.send(visit("GET", &link)).await;
    assert!(followed.status.is_redirection() || followed.status.is_success(), "{followed:?}");
    let framed =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
    assert_eq!(stage.send(visit("GET", &framed)).await.status, 403);
    let mut sent = link.to_vec();
    sent.push(("origin", "https://evil.example"));
    assert_eq!(stage.send(visit("POST", &sent)).await.status, 403);
    let mut called = link.to_vec();
    called[1].1 = "cors";
    assert_eq!(stage.send(visit("GET", &called)).await.status, 403);
}

#[tokio::test(start_paused = true)]
async fn limits_rules_and_webhooks_are_made_on_the_page() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let limit =
        [("at.name", "partner"), ("kind", "call"), ("by", "key"), ("concurrency", "3"), ("rate.count", "")];
    let set = visitor.act("limit.set", &limit).await;
    assert_eq!(set.status, StatusCode::SEE_OTHER, "{}", set.text);
    let shown = visitor.get("/limits").await.text;
    assert!(shown.contains("<b>partner</b>") && shown.contains("kind <code>call</code>"), "{shown}");
    let rule = [
        ("id", "partner-is-down"),
        ("matches.error_type", "Timeout*"),
        ("action", "{\"transient\":{}}"),
        ("enabled", "false"),
        ("note", "they restart at night"),
    ];
    let made = visitor.act("rule.make", &rule).await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.text);
    let shown = visitor.get("/rules?kind=pay&error_type=Refused").await.text;
    assert!(shown.contains("partner-is-down") && shown.contains("Timeout*"), "{shown}");
    assert!(shown.contains("value=\"Refused\""), "what an incident filled in: {shown}");
    let rules = stage.call("GET", "/api/v1/rules", Some(&all)).await.json();
    assert_eq!(
        (&rules["items"][0]["enabled"], &rules["items"][0]["id"]),
        (&json!(false), &json!("partner-is-down"))
    );
    let page = visitor.get("/webhooks").await.text;
    let form =
        [("proof", &*proof(&page)), ("url", "https://hooks.example/in"), ("events", "failed, retried")];
    let made = visitor.send("/webhooks", &form).await.text;
    assert!(made.contains("whsec_") && made.contains("failed, retried"), "{made}");
    assert!(!visitor.get("/webhooks").await.text.contains("whsec_"), "its key is shown once");
    assert_eq!(visitor.send("/webhooks", &form[1..]).await.status, 403, "not without the proof");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_link_is_answered_to_people_in_words_and_to_programs_in_json() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let browser = |path: &str| {
        let request = visitor.request(Request::get(path)).header("accept", "text/html,*/*");
        stage.send(request.body(Body::empty()).unwrap())
    };
    let page = browser("/no/such/view").await;
    assert_eq!((page.status, page.text.contains("There is nothing here")), (StatusCode::NOT_FOUND, true));
    let program = browser("/api/v1/no-such-thing").await;
    assert_eq!(
        (program.status, program.json()["error"]["code"].clone()),
        (StatusCode::NOT_FOUND, json!("no_such_path"))
    );
}

//! Every route, called by everybody: what is declared is what is checked.
//!
//! A route without a declared need cannot be compiled, because `Routes::add` takes both and there is no other way into
//! the router. This goes through the whole table, so a route that is added later is in it from its first day.

use std::collections::BTreeMap;

use backstop::Timestamp;
use backstop_server::{Route, RouteNeeds, Scope, ServerSettings, TokenRequest, table};

use super::stage::{Reply, Stage, wish};

/// What stands in the payload of another tenant's job.
const MARK: &str = "ACME-ONLY-7731";

/// Somebody who calls.
struct Somebody {
    who: String,
    token: Option<String>,
    scopes: Vec<Scope>,
    /// False for one whose token is worth nothing.
    known: bool,
    /// True for one who sees a part only.
    bounded: bool,
}

/// What must come of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Unauthorized,
    Forbidden,
}

fn expected(needs: RouteNeeds, somebody: &Somebody) -> Verdict {
    match needs {
        RouteNeeds::Nothing => Verdict::Pass,
        _ if !somebody.known => Verdict::Unauthorized,
        // Nobody here is for some queues.
        RouteNeeds::Right(scope) | RouteNeeds::RightOverQueues(scope, _)
            if somebody.scopes.contains(&scope) =>
        {
            Verdict::Pass
        }
        RouteNeeds::RightOverAll(scope) if somebody.scopes.contains(&scope) && !somebody.bounded => {
            Verdict::Pass
        }
        RouteNeeds::Right(_) | RouteNeeds::RightOverQueues(..) | RouteNeeds::RightOverAll(_) => {
            Verdict::Forbidden
        }
    }
}

fn found(reply: &Reply) -> Verdict {
    match reply.status.as_u16() {
        401 => Verdict::Unauthorized,
        403 => Verdict::Forbidden,
        _ => Verdict::Pass,
    }
}

async fn everybody(stage: &Stage) -> Vec<Somebody> {
    let all = Scope::ALL;
    let somebody = |who: &str, token: Option<String>, scopes: &[Scope], known, bounded| Somebody {
        who: who.to_owned(),
        token,
        scopes: scopes.to_vec(),
        known,
        bounded,
    };
    let expired = TokenRequest { expires: Some(Timestamp::EPOCH), ..wish("expired", &all) };
    let expired = stage.make(expired).await;
    let revoked = stage.token("revoked", &all).await;
    assert!(stage.api.tokens().revoke("revoked", "test").await.expect("it is there"));
    let wrong = format!("bks_{}", "A".repeat(43));
    let mut everybody = vec![
        somebody("nobody", None, &all, false, false),
        somebody("a wrong token", Some(wrong), &all, false, false),
        somebody("an expired token", Some(expired), &all, false, false),
        somebody("a revoked token", Some(revoked), &all, false, false),
        somebody("everything", Some(stage.token("everything", &all).await), &all, true, false),
        somebody(
            "another tenant",
            Some(stage.token_of("other", &all, Some("other")).await),
            &all,
            true,
            true,
        ),
    ];
    for scope in all {
        let token = stage.token(scope.as_str(), &[scope]).await;
        everybody.push(somebody(&format!("only {scope}"), Some(token), &[scope], true, false));
        let name = format!("other-{scope}");
        let token = stage.token_of(&name, &[scope], Some("other")).await;
        everybody.push(somebody(
            &format!("only {scope} of another tenant"),
            Some(token),
            &[scope],
            true,
            true,
        ));
    }
    everybody
}

/// The path with something that exists, for another tenant, in place of its parameters.
fn filled(path: &str, job: &str) -> String {
    let known =
        BTreeMap::from([("id", job), ("job", job), ("name", "mail"), ("fingerprint", "f1:0123456789abcdef")]);
    let parts =
        path.split('/').map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(parameter) => known.get(parameter).copied().unwrap_or("something"),
            None => part,
        });
    parts.collect::<Vec<_>>().join("/")
}

/// Calls every route as everybody, and tells what did not come as declared.
async fn mismatches(stage: &Stage, routes: &[Route]) -> Vec<String> {
    let acme = format!("{{\"note\":\"{MARK}\"}}");
    let submitted = stage.api.engine().enqueue_raw("send", acme).queue("acme/mail").submit().await.unwrap();
    let (job, mut wrong) = (submitted.id.to_string(), Vec::new());
    for somebody in everybody(stage).await {
        for route in routes {
            let reply =
                stage.call(&route.method, &filled(&route.path, &job), somebody.token.as_deref()).await;
            let what = format!("{} {} by {}: {reply:?}", route.method, route.path, somebody.who);
            if found(&reply) != expected(route.needs, &somebody) {
                wrong.push(what.clone());
            }
            if reply.status.is_client_error() {
                reply.code();
            }
            if reply.status.as_u16() == 401 {
                assert_eq!(reply.headers["www-authenticate"], "Bearer", "{what}");
            }
            let may_see = somebody.known && !somebody.bounded;
            assert!(may_see || !reply.text.contains(MARK), "it shows another's payload: {what}");
        }
    }
    wrong
}

async fn unlimited() -> Stage {
    let mut settings = ServerSettings::default();
    settings.access.rate = None;
    Stage::new(settings).await
}

#[tokio::test]
async fn every_route_lets_in_whom_it_declares_and_nobody_else() {
    // E13
    let routes = table();
    assert!(routes.len() >= 8, "{routes:?}");
    let wrong = mismatches(&unlimited().await, &routes).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_matrix_finds_a_route_that_checks_something_else_than_it_declares() {
    for (path, declared) in [
        ("/api/v1/queues", RouteNeeds::Nothing),
        ("/api/v1/queues", RouteNeeds::Right(Scope::Work)),
        ("/api/v1/queues", RouteNeeds::RightOverAll(Scope::Read)),
        ("/api/v1/tokens", RouteNeeds::Right(Scope::Admin)),
        ("/health/live", RouteNeeds::Right(Scope::Read)),
    ] {
        let planted = Route { method: "GET".to_owned(), path: path.to_owned(), needs: declared };
        let wrong = mismatches(&unlimited().await, &[planted]).await;
        assert!(!wrong.is_empty(), "{path} {declared:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_the_same_whatever_is_wrong_with_the_token() {
    let stage = unlimited().await;
    let mut answers = Vec::new();
    for somebody in everybody(&stage).await.into_iter().filter(|somebody| !somebody.known) {
        let reply = stage.call("GET", "/api/v1/queues", somebody.token.as_deref()).await;
        answers.push((reply.status, reply.text));
    }
    assert_eq!(answers.len(), 4);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

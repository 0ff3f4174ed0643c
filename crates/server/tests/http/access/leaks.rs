//! A store that fails and says too much: nothing of it reaches a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use backstop::{Backstop, Config};
use backstop_server::{Caller, ServerSettings, Token, TokenGrant, table};
use backstop_store::{Answer, Error, Layer, Store};

use super::stage::{Reply, Stage};

/// What only the operator may see.
const DSN: &str = "postgres://joe:hunter2@db.internal:5432/jobs";

/// A store whose every call fails, with an address and a password in the error.
struct Babbling {
    model: Arc<dyn Store>,
    calls: AtomicUsize,
    /// It does not even fail.
    silent: bool,
}

impl Babbling {
    fn error(&self) -> Error {
        let (location, problem) = (DSN.to_owned(), format!("connect {DSN}: password of hunter2 refused"));
        let source = Some(Box::<dyn std::error::Error + Send + Sync>::from(problem.clone()));
        match self.calls.fetch_add(1, Ordering::SeqCst) % 6 {
            0 => Error::Unavailable { location, problem, source },
            1 => Error::Backend { location, problem, source },
            2 => Error::Corrupt { location, problem },
            3 => Error::Unusable { location, problem, hint: DSN.to_owned() },
            4 => Error::Unknown { location, source },
            _ => Error::DiskFull { location, source },
        }
    }
}

impl Layer for Babbling {
    fn below(&self) -> &dyn Store {
        &*self.model
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        _: &'static str,
        _: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        let (error, silent) = (self.error(), self.silent);
        Box::pin(async move {
            if silent {
                std::future::pending::<()>().await;
            }
            Err(error)
        })
    }
}

/// An API on such a store, with a token that needs no store.
async fn babbling(silent: bool) -> (Stage, String) {
    let model = Backstop::open("memory:").await.expect("a store in memory").store().clone();
    let token = Token::generate().unwrap();
    let scopes = "[\"submit\",\"read\",\"logs\",\"operate\",\"admin\",\"work\"]";
    let grant = format!("{{\"name\":\"all\",\"hash\":\"{}\",\"scopes\":{scopes}}}", token.hash());
    let mut settings = ServerSettings::default();
    settings.access.tokens = vec![serde_json::from_str::<TokenGrant>(&grant).unwrap()];
    let store = Arc::new(Babbling { model, calls: AtomicUsize::new(0), silent });
    (Stage::on(Backstop::on(store, Config::default()), settings), token.reveal().to_owned())
}

fn says_nothing(what: &str, reply: &Reply) {
    let all = format!("{:?} {}", reply.headers, reply.text);
    for word in ["hunter2", "joe", "db.internal", "5432", "postgres", "password", "connect "] {
        assert!(!all.contains(word), "{what} tells {word}: {reply:?}");
    }
    if !reply.status.is_success() {
        reply.code();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_store_says_of_itself_is_in_no_answer() {
    let (stage, token) = babbling(false).await;
    let id = backstop::job_id().to_string();
    let mut failed = 0;
    for route in table() {
        let path = route.path.replace("{id}", &id).replace("{name}", "mail").replace(['{', '}'], "");
        let what = format!("{} {path}", route.method);
        // Every kind of error at every place that asks the store.
        for _ in 0..12 {
            let reply = stage.call(&route.method, &path, Some(&token)).await;
            failed += usize::from(reply.status.is_server_error());
            says_nothing(&what, &reply);
            // By somebody whose token would have to be looked up.
            says_nothing(&what, &stage.call(&route.method, &path, Some("bks_other")).await);
            // By the program itself, past the door.
            let mut request = Request::builder().method(route.method.as_str()).uri(&path);
            request = request.header("content-type", "application/json").extension(Caller::local("program"));
            let reply = stage.send(request.body(Body::from("{}")).unwrap()).await;
            says_nothing(&what, &reply);
        }
    }
    assert!(failed >= 30, "the store was hardly asked: {failed}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_lets_nobody_in_and_says_so() {
    let (stage, token) = babbling(false).await;
    assert_eq!(stage.call("GET", "/health/live", None).await.status, 200);
    for _ in 0..6 {
        let reply = stage.call("GET", "/api/v1/queues", Some("bks_other")).await;
        assert!(reply.status.is_server_error(), "{reply:?}");
        assert!(stage.call("GET", "/api/v1/queues", Some(&token)).await.status.is_server_error());
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_does_not_make_the_process_look_dead() {
    // H2
    let (stage, _) = babbling(true).await;
    let live =
        tokio::time::timeout(Duration::from_secs(1), stage.call("GET", "/health/live", Some("bks_any")))
            .await;
    assert_eq!(live.expect("it answers").status, 200);
}

//! `token`, `up --listen` and `[server]`: who may call the HTTP API, and where it listens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr};
use std::time::{Duration, Instant};

use crate::program::Program;
use serde_json::{Value, json};

/// A server that was started, with where it listens.
pub(crate) struct Serving {
    child: Child,
    address: String,
    lines: BufReader<ChildStderr>,
    /// What it has said so far.
    said: String,
}

impl Serving {
    pub(crate) fn start(program: &Program, args: &[&str]) -> Self {
        let mut child = program.spawn(&mut program.command(args));
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let (mut line, mut address, mut said) = (String::new(), String::new(), String::new());
        while !line.contains("serving: press Ctrl-C to stop") {
            line.clear();
            assert!(lines.read_line(&mut line).expect("a line") > 0, "it ended before it served: {said}");
            said.push_str(&line);
            if let Some(at) = line.trim().strip_prefix("api: http://") {
                address = at.to_owned();
            }
        }
        assert!(!address.is_empty(), "it did not say where it listens");
        Self { child, address, lines, said }
    }

    /// Reads on until it has said these words.
    pub(crate) fn says(&mut self, words: &str) -> &str {
        while !self.said.contains(words) {
            let read = self.lines.read_line(&mut self.said).expect("a line");
            assert!(read > 0, "it ended without `{words}`: {}", self.said);
        }
        &self.said
    }

    /// The status of an answer to a read.
    fn get(&self, path: &str, token: Option<&str>) -> u16 {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let token = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
        let host = &self.address;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{token}\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.split(' ').nth(1).expect("a status").parse().expect("a number")
    }

    /// The JSON that comes back for JSON.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let (host, body) = (&self.address, body.to_string());
        let head = format!("host: {host}\r\ncontent-type: application/json\r\nconnection: close");
        let length = body.len();
        let request = format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        serde_json::from_str(body).expect("JSON")
    }

    /// Asks until the answer is this, for the few seconds that other processes take to hear of a change.
    fn comes_to(&self, status: u16, token: Option<&str>) {
        let begun = Instant::now();
        while self.get("/api/v1/queues", token) != status {
            assert!(begun.elapsed() < Duration::from_secs(10), "it never came to {status}");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_api_is_open_on_this_machine_until_a_token_exists() {
    let program = Program::new();
    for args in [&["up", "--listen", "127.0.0.1:0"][..], &["up", "--no-worker", "--listen", "localhost:0"]] {
        let program = if args.len() == 3 { &program } else { &Program::new() };
        let serving = Serving::start(program, args);
        assert_eq!((serving.get("/health/live", None), serving.get("/api/v1/queues", None)), (200, 200));
        let made = program.run(&["token", "new", "--name", "ci", "--scope", "read"]).exits(0);
        let token = made.stdout.trim();
        serving.comes_to(401, None);
        serving.comes_to(200, Some(token));
        assert_eq!(serving.get("/api/v1/tokens", Some(token)), 403);
        program.run(&["token", "revoke", "ci"]).exits(0).says(&["token `ci` is revoked"]);
        serving.comes_to(401, Some(token));
    }
}

#[test]
fn a_server_without_a_worker_takes_back_what_a_remote_worker_left() {
    // L15, L17
    let program = Program::new();
    let id = program.enqueue(&["mail"]);
    let serving = Serving::start(&program, &["up", "--no-worker", "--listen", "127.0.0.1:0"]);
    let claim = |worker: &str, wait_ms: u64| {
        let ask = json!({ "worker": worker, "queues": ["default"], "kinds": ["mail"], "lease_ms": 1_000,
            "wait_ms": wait_ms });
        serving.post("/api/v1/work/claim", &ask)
    };
    let first = claim("one", 0);
    assert_eq!((&first["jobs"][0]["id"], &first["jobs"][0]["runs"]), (&json!(id), &json!(1)), "{first}");
    // It is never heard of again.
    let begun = Instant::now();
    let second = claim("two", 20_000);
    assert_eq!((&second["jobs"][0]["id"], &second["jobs"][0]["runs"]), (&json!(id), &json!(2)), "{second}");
    // A second of its lease, two to be found, and a second of backoff; the rest is for a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(serving.get("/health/ready", None), 200);
    program.run(&["doctor"]).exits(0).says(&["maintenance"]);
}

#[test]
fn a_token_is_printed_once_and_listed_without_its_secret() {
    let program = Program::new();
    program.run(&["token", "list"]).exits(1);
    let args = [
        "token", "new", "--name", "ci", "--scope", "submit", "--scope", "read", "--tenant", "acme",
        "--queue", "mail",
    ];
    let made = program.run(&[&args[..], &["--expires", "90d"]].concat()).exits(0);
    let made = made.tells(&["token `ci` may submit, read until"]);
    let token = made.stdout.trim().to_owned();
    assert!(token.starts_with("bks_") && token.len() == 47, "{token}");
    assert!(!made.stderr.contains(&token));
    let listed =
        program.run(&["token", "list"]).exits(0).says(&["ci", "live", "submit, read", "acme", "mail"]);
    let machine = program.run(&["token", "list", "--json"]).exits(0);
    assert_eq!(machine.json()["items"][0]["tenant"], "acme");
    assert_eq!(machine.json()["items"][0]["queues"], json!(["mail"]));
    for text in [listed.stdout, machine.stdout] {
        assert!(!text.contains(&token) && !text.contains("sha256"), "{text}");
    }
    for name in ["backstop.db", "backstop.db-wal"] {
        let bytes = std::fs::read(program.path(name)).unwrap_or_default();
        assert!(
            !bytes.windows(token.len()).any(|window| window == token.as_bytes()),
            "{name} holds the token"
        );
    }
    program.run(&args).exits(3).tells(&["there is a token `ci` already"]);
    program.run(&["token", "revoke", "ci"]).exits(0);
    program.run(&["token", "revoke", "ci"]).exits(0).says(&["was already revoked"]);
    program.run(&["token", "list"]).exits(0).says(&["revoked by"]);
    program.run(&["token", "revoke", "other"]).exits(3).tells(&["there is no token `other`"]);
    program
        .run(&["token", "new", "--name", "x", "--scope", "root"])
        .exits(2)
        .tells(&["`root` is not a scope"]);
    program
        .run(&["token", "new", "--name", "a b", "--scope", "read"])
        .exits(2)
        .tells(&["the name of a token"]);
    let bad = ["token", "new", "--name", "x", "--scope", "read", "--tenant", "A B"];
    program.run(&bad).exits(2).tells(&["tenant"]);
}

#[test]
fn a_token_of_the_file_lets_in_and_is_never_shown() {
    let program = Program::new();
    let made = program.run(&["token", "new", "--name", "ci", "--scope", "read", "--for-config"]).exits(0);
    let (token, line) = made.stdout.trim().split_once('\n').expect("two lines");
    program.write("backstop.toml", &format!("[server]\nlisten = '127.0.0.1:0'\ntokens = [\n  {line},\n]\n"));
    let hash = line.split('"').nth(3).expect("a hash");
    let check = program.run(&["config", "check"]).exits(0).says(&["server.tokens", "(set)", "127.0.0.1:0"]);
    assert!(!check.stdout.contains(hash));
    program.run(&["token", "list"]).exits(0).says(&["ci", "configuration"]);
    program.run(&["token", "revoke", "ci"]).exits(3).tells(&["stands in backstop.toml"]);
    let serving = Serving::start(&program, &["up"]);
    assert_eq!((serving.get("/api/v1/queues", None), serving.get("/api/v1/queues", Some(token))), (401, 200));
}

#[test]
fn it_does_not_listen_where_it_should_not_or_cannot() {
    let program = Program::new();
    program.run(&["up", "--listen", "0.0.0.0:0"]).exits(3).tells(&[
        "can be reached from other machines",
        "there is no token",
        "backstop token new",
    ]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    program.run(&["up", "--listen", &address]).exits(1).tells(&[
        "cannot listen on",
        &address,
        "another program is already listening there",
    ]);
    program.run(&["worker", "list"]).exits(0).says(&["no workers"]);
    for wrong in ["7700", "nowhere:x", "example.com:80"] {
        program.run(&["up", "--listen", wrong]).exits(2).tells(&["is not an address to listen on"]);
    }
    program.write("not.pem", "nothing");
    program.write(
        "backstop.toml",
        "[server]\nlisten = '127.0.0.1:0'\ntls_cert = 'not.pem'\ntls_key = 'not.pem'\n",
    );
    program.run(&["up"]).exits(2).tells(&["cannot use not.pem for TLS"]);
}

#[test]
fn what_is_wrong_in_the_servers_section_is_told_without_its_secrets() {
    let program = Program::new();
    let token = format!("bks_{}", "Q".repeat(43));
    for (text, told) in [
        ("listen = 'here'", "is not an address to listen on"),
        ("tls_cert = 'a.pem'", "needs `server.tls_key`"),
        ("tls_key = 'a.pem'", "needs `server.tls_cert`"),
        ("trusted_proxies = ['ten']", "`ten` is neither an address nor a network"),
        ("max_connections = 99999999999", "is too many"),
        ("tokens = 'x'", "must be a list"),
        ("tokens = [{ name = 'a', scopes = ['read'] }]", "missing field `hash`"),
        (&format!("tokens = [{{ name = 'a', hash = '{token}', scopes = ['read'] }}]"), "a token itself"),
        ("lisen = 'x'", "did you mean `listen`?"),
    ] {
        program.write("backstop.toml", &format!("[server]\n{text}\n"));
        let ran = program.run(&["config", "check"]).exits(2).tells(&[told]);
        assert!(!ran.stderr.contains("QQQQ") && !ran.stdout.contains("QQQQ"), "{}", ran.stderr);
    }
}

//! Every command with `--store` on a database server: what works on a file works there too.

use backstop_testbed::{CertificateAuthority, DatabaseSettings, Folder, Mariadb, Postgres, shared};
use serde_json::json;

use crate::program::{Play, Program};
use backstop::prelude::*;

/// The store of one test on a server.
struct Place {
    url: String,
    backend: &'static str,
}

fn on_postgres() -> Place {
    let url = format!("{}?schema=cli_{}&listen=off", shared::postgres(), std::process::id());
    Place { url, backend: "postgres" }
}

fn on_mariadb() -> Place {
    let url = format!("{}?prefix=cli_{}_", shared::mariadb(), std::process::id());
    Place { url, backend: "mysql" }
}

fn walk(place: &Place) {
    let program = Program::new();
    let run = |words: &[&str]| {
        let args: Vec<&str> = ["--store", &place.url].into_iter().chain(words.iter().copied()).collect();
        program.run(&args)
    };
    // Nothing is made by looking.
    run(&["queue", "list"]).exits(1).tells(&["backstop migrate"]);
    run(&["migrate"]).exits(0).says(&[place.backend, "was created"]);
    run(&["migrate"]).exits(0).says(&["is up to date"]);
    let id = run(&["enqueue", "mail", r#"{"to":"ann"}"#, "--tag", "red"]).exits(0).stdout.trim().to_owned();
    run(&["job", "list"]).exits(0).says(&[&id[..8], "mail", "pending"]);
    run(&["job", "show", &id]).exits(0).says(&["mail", "ann"]);
    run(&["job", "explain", &id]).exits(0).says(&["worker"]);
    run(&["job", "attempts", &id]).exits(0);
    run(&["job", "pause", &id]).exits(0);
    run(&["job", "resume", &id]).exits(0);
    run(&["job", "cancel", &id, "--reason", "a test"]).exits(0);
    assert_eq!(run(&["job", "show", &id, "--json"]).exits(0).json()["status"], "canceled");
    let dead = play(&place.url);
    run(&["dead", "list"]).exits(0).says(&[&dead[..8], "non_retryable"]);
    run(&["dead", "show", &dead]).exits(0).says(&["the card is stolen"]);
    run(&["incident", "list"]).exits(0).says(&["the card is stolen"]);
    run(&["job", "retry", &dead]).exits(0);
    run(&["queue", "pause", "default"]).exits(0).says(&["is now paused"]);
    let queues = run(&["queue", "list", "--json"]).exits(0).json();
    let counts = &queues["items"][0];
    assert_eq!(
        (&counts["pending"], &counts["canceled"], &counts["paused"]),
        (&json!(1), &json!(1), &json!(true))
    );
    run(&["queue", "resume", "default"]).exits(0);
    run(&["worker", "list"]).exits(0);
    // The shared test server is quick, not durable, and the doctor says so.
    let findings = run(&["doctor", "--json"]).exits(1).json();
    assert!(findings.to_string().contains("\"bad\""), "{findings}");
    assert!(findings.to_string().contains("not encrypted (loopback)"), "{findings}");
    run(&["config", "check"]).exits(0);
}

/// Runs a job that fails for good in this process, and answers its id.
fn play(url: &str) -> String {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let engine = Backstop::open(url).await.expect("a store");
        let job = Play { ends: "permanent".to_owned() };
        let id = engine.enqueue(job).max_retries(0).submit().await.expect("stored").id;
        let worker = engine.worker(()).register::<Play>().queue("default", 1).name("tester").inline();
        worker.expect("a worker").drain(100).await.expect("all run");
        id.to_string()
    })
}

#[test]
fn every_command_works_on_postgres() {
    let place = on_postgres();
    walk(&place);
    let program = Program::new();
    let roles = program.run(&["--store", &place.url, "migrate", "--print-roles"]).exits(0);
    let schema = format!("cli_{}", std::process::id());
    let roles = roles.says(&[
        &format!("CREATE ROLE {schema}_worker"),
        &format!("GRANT SELECT ON ALL TABLES IN SCHEMA {schema}"),
    ]);
    assert!(roles.stderr.is_empty());
    drop_schema(&schema);
}

#[test]
fn every_command_works_on_mariadb() {
    let place = on_mariadb();
    walk(&place);
    let prefix = format!("cli_{}_", std::process::id());
    let program = Program::new();
    let roles = program.run(&["--store", &place.url, "migrate", "--print-roles"]).exits(0);
    roles.says(&[
        &format!("CREATE ROLE IF NOT EXISTS {prefix}worker"),
        &format!("{prefix}ready TO {prefix}enqueuer;"),
    ]);
}

/// Removes what the test has made.
fn drop_schema(schema: &str) {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        use backstop::postgres::tokio_postgres;
        let (client, connection) = tokio_postgres::connect(shared::postgres(), tokio_postgres::NoTls)
            .await
            .expect("the server is there");
        tokio::spawn(connection);
        client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("dropped");
    });
}

#[test]
fn a_server_elsewhere_is_verified_by_what_the_machine_trusts() {
    let folder = Folder::new("cli-tls").expect("a folder");
    let authority = CertificateAuthority::new(folder.join("authority")).expect("made");
    let certificate = authority.certify("DNS:db.backstop.invalid,IP:0.0.0.0").expect("signed");
    let settings = |name: &str| DatabaseSettings::new(folder.join(name)).certified(certificate.clone());
    let postgres = Postgres::start(settings("postgres")).expect("a server of its own");
    let mariadb = Mariadb::start(settings("mariadb")).expect("a server of its own");
    // Both lead to this machine, and neither is loopback by its name.
    let on_postgres =
        format!("postgres://backstop@db.backstop.invalid:{}/backstop?hostaddr=127.0.0.1", postgres.port());
    let on_mariadb = format!("mysql://backstop@0.0.0.0:{}/backstop", mariadb.port());
    let trusted = authority.file().display().to_string();
    let program = Program::new();
    for url in [on_postgres, on_mariadb] {
        let migrate = ["--store", &url, "migrate"];
        program.run(&migrate).exits(1).tells(&["certificate does not verify", "sslrootcert=PATH"]);
        // What a machine trusts is in its files, or in those that this variable names.
        let trust = [("SSL_CERT_FILE", trusted.as_str())];
        program.run_with(&migrate, &trust).exits(0);
        // The servers are quick, not durable.
        let found = program.run_with(&["--store", &url, "doctor"], &trust).exits(1);
        found.says(&["encrypted and verified (TLS, authorities of the system)"]);
    }
}

#[test]
fn roles_belong_to_servers() {
    // E10
    let program = Program::new();
    program
        .run(&["migrate", "--print-roles"])
        .exits(1)
        .tells(&["roles belong to a database server", "--store postgres://"]);
    assert!(!program.has("backstop.db"), "nothing was made");
}

#[test]
fn a_wrong_url_never_shows_its_password() {
    // E10, F11
    let program = Program::new();
    for url in [
        "postgres://me:sesame@127.0.0.1:1/app",
        "postgres://me:sesame@127.0.0.1:1/app?schema=Not Plain",
        "postgres://me:sesame@127.0.0.1:1/app?what=is",
    ] {
        for format in [&["queue", "list"][..], &["queue", "list", "--json"]] {
            let args: Vec<&str> = ["--store", url].into_iter().chain(format.iter().copied()).collect();
            let ran = program.run(&args).exits(1);
            assert!(!ran.stderr.contains("sesame") && !ran.stdout.contains("sesame"), "{}", ran.stderr);
        }
    }
}

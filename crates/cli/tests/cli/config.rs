//! `backstop.toml`: precedence, unknown keys, `config check`.

use crate::program::Program;
use serde_json::{Value, json};

fn setting(check: &Value, key: &str) -> (Value, String) {
    let row =
        check["settings"].as_array().expect("settings").iter().find(|row| row["key"] == key).expect(key);
    (row["value"].clone(), row["source"].as_str().expect("a source").to_owned())
}

#[test]
fn flags_go_before_environment_before_file_before_defaults() {
    let program = Program::new();
    let check = |args: &[&str], env: &[(&str, &str)]| {
        let args = [&["config", "check", "--json"], args].concat();
        program.run_with(&args, env).exits(0).json()
    };
    assert_eq!(setting(&check(&[], &[]), "store.url"), (json!("sqlite:backstop.db"), "default".to_owned()));
    program.write("backstop.toml", "[store]\nurl = 'sqlite:file.db'\n[workers]\nlease = '10s'\n");
    let from_file = check(&[], &[]);
    assert_eq!(setting(&from_file, "store.url"), (json!("sqlite:file.db"), "file".to_owned()));
    assert_eq!(setting(&from_file, "workers.lease"), (json!("10s"), "file".to_owned()));
    let env = [("BACKSTOP_STORE", "sqlite:env.db")];
    assert_eq!(setting(&check(&[], &env), "store.url"), (json!("sqlite:env.db"), "env".to_owned()));
    let flag = check(&["--store", "sqlite:flag.db"], &env);
    assert_eq!(setting(&flag, "store.url"), (json!("sqlite:flag.db"), "flag".to_owned()));
    program.write("other.toml", "[store]\nurl = 'sqlite:other.db'\n");
    for (args, env) in
        [(&["--config", "other.toml"][..], &[][..]), (&[], &[("BACKSTOP_CONFIG", "other.toml")])]
    {
        assert_eq!(setting(&check(args, env), "store.url").0, json!("sqlite:other.db"));
    }
    program
        .run(&["config", "check"])
        .exits(0)
        .says(&["store.url", "sqlite:file.db", "file", "default"])
        .tells(&["is valid"]);
}

#[test]
fn the_file_decides_what_commands_use() {
    let program = Program::new();
    program.write(
        "backstop.toml",
        "[store]\nurl = 'sqlite:jobs.db'\n[queues.mail]\nkinds = ['send']\nretry = { max_retries = 2 }\n",
    );
    let id = program.enqueue(&["send", "--queue", "mail"]);
    assert!(program.has("jobs.db") && !program.has("backstop.db"));
    assert_eq!(program.run(&["job", "show", &id, "--json"]).json()["max_retries"], json!(2));
    // E8
    program
        .run(&["enqueue", "other", "--queue", "mail"])
        .exits(3)
        .tells(&["kind_not_allowed", "is not allowed on queue `mail`"]);
}

#[test]
fn an_unknown_key_is_an_error_that_points_at_it() {
    let program = Program::new();
    program.write("backstop.toml", "[queues.mail]\nconcurency = 4\n");
    for command in [&["config", "check"][..], &["job", "list"], &["enqueue", "x"]] {
        program.run(command).exits(2).tells(&[
            "unknown key `concurency` in [queues.mail]: did you mean `concurrency`?",
            "backstop.toml:2:1",
            "concurency = 4",
        ]);
    }
    let error = program.run(&["config", "check", "--json"]).exits(2).error();
    assert_eq!(error["code"], "config_invalid");
    assert_eq!(
        (&error["details"][0]["key"], &error["details"][0]["line"]),
        (&json!("queues.mail.concurency"), &json!(2))
    );
    assert!(!program.has("backstop.db"), "a bad file stops before anything is created");
}

#[test]
fn what_would_do_nothing_is_refused() {
    let program = Program::new();
    for text in
        ["[bridges.kafka]\ntopic = 'abc'\n", "[queues.mail]\nrat = 5\n", "[workers]\nprocessors = 2\n"]
    {
        program.write("backstop.toml", text);
        program.run(&["config", "check"]).exits(2).tells(&["unknown key"]);
    }
}

#[test]
fn every_setting_can_come_from_the_environment() {
    // L20
    let program = Program::new();
    program.write("backstop.toml", "[limits]\npayload_bytes = 4096\n");
    let env = [("BACKSTOP_LIMITS__PAYLOAD_BYTES", "16"), ("BACKSTOP_WORKERS__LEASE", "9s")];
    let check = program.run_with(&["config", "check", "--json"], &env).exits(0).json();
    assert_eq!(setting(&check, "limits.payload_bytes"), (json!(16), "env".to_owned()));
    assert_eq!(setting(&check, "workers.lease"), (json!("9s"), "env".to_owned()));
    let large = r#"{"text":"longer than sixteen bytes"}"#;
    program.run_with(&["enqueue", "send", large], &env).exits(3).tells(&["too_large", "the limit is 16"]);
    program.run(&["enqueue", "send", large]).exits(0);
    let wrong = [("BACKSTOP_WORKERS__LEESE", "9s")];
    program.run_with(&["config", "check"], &wrong).exits(2).tells(&["BACKSTOP_WORKERS__LEESE", "`lease`"]);
    // What no setting can be is the fault of the variable, not of the file.
    let wrong = [("BACKSTOP_LIMITS__PAYLOAD_BYTES", "0")];
    let told =
        program.run_with(&["config", "check", "--json"], &wrong).exits(2).error()["message"].to_string();
    assert!(told.contains("BACKSTOP_LIMITS__PAYLOAD_BYTES: ") && !told.contains("backstop.toml"), "{told}");
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let program = Program::new();
    program
        .run(&["config", "check", "--config", "absent.toml"])
        .exits(2)
        .tells(&["cannot read", "absent.toml"]);
    program.write("bad.toml", "[store\n");
    program.run(&["config", "check", "--config", "bad.toml"]).exits(2).tells(&["bad.toml", "not TOML"]);
    program.write("pattern.toml", "[sanitize]\npatterns = ['(']\n");
    program
        .run(&["config", "check", "--config", "pattern.toml"])
        .exits(2)
        .tells(&["pattern.toml", "redaction pattern"]);
}

#[test]
fn a_program_that_does_anything_is_named_with_the_way_out() {
    // E4
    let program = Program::new();
    let find = std::path::Path::new("/usr/bin/find").canonicalize().expect("a program");
    let find = find.display();
    program.write("backstop.toml", &format!("[handlers.command]\nallow = ['{find}']\n"));
    let told = ["handlers.command.allow", "runs other programs by its arguments", "args = ["];
    program.run(&["config", "check"]).exits(2).tells(&["/find", "patterns"]);
    let error = program.run(&["up", "--json"]).exits(2).error().to_string();
    told.iter().for_each(|word| assert!(error.contains(word), "no `{word}` in {error}"));
    let bounded = format!("[handlers.command]\nallow = [{{ path = '{find}', args = ['/srv/[a-z]+'] }}]\n");
    program.write("backstop.toml", &bounded);
    program.run(&["config", "check"]).exits(0).says(&["/srv/[a-z]+"]);
}

#[test]
fn alerts_are_explained_and_their_secrets_never_quoted() {
    // D3, F11
    let program = Program::new();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    program.write(
        "backstop.toml",
        &format!(
            "[alerts]\nwebhook = 'https://ops.example.com/T0pPath'\nsecrets = ['{secret}']\nlog = true\n"
        ),
    );
    let shown = program.run(&["config", "check"]).exits(0).says(&["https://ops.example.com/…", "(set)"]);
    let shown =
        shown.tells(&["alerts about dead letters go to webhook and log, at most one per incident in 1 min"]);
    let json = program.run(&["config", "check", "--json"]).exits(0);
    // A fault beside the secret quotes the lines around it.
    program.write(
        "backstop.toml",
        &format!("[alerts]\nwebhook = 'https://h/T0pPath'\nsecrets = ['{secret}']\nlgo = true\n"),
    );
    let fault = program.run(&["config", "check"]).exits(2).tells(&["did you mean `log`?", "lgo = true"]);
    program.write(
        "backstop.toml",
        &format!("[alerts]\nwebhook = 'http://h'\nsecrets = ['{secret}', 'T0pPath']\n"),
    );
    let wrong = program.run(&["job", "list"]).exits(2).tells(&["secret 2 of the webhook is not whsec_"]);
    for ran in [shown, json, fault, wrong] {
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!all.contains("T0pPath") && !all.contains("MfKQ9"), "{all}");
    }
}

//! A thousand strings that would do something anywhere else: here they arrive byte for byte, and nothing happens.

use std::collections::BTreeMap;

use backstop::{Backstop, Cause, JobId};
use backstop_kinds::{CommandSettings, Kinds, Program};
use serde_json::{Value, json};

use crate::stage::{Scripts, engine, ran_of, worker};

/// What they try to do; each would leave a file.
const DEEDS: [&str; 6] = [
    "touch CANARY",
    "/usr/bin/touch CANARY",
    "echo x > CANARY",
    "sh -c 'touch CANARY'",
    "touch${IFS}CANARY",
    "perl -e 'open F,q(>CANARY)'",
];

/// How they try to get out; `@` is the deed.
const BREAKS: [&str; 34] = [
    "; @",
    "| @",
    "|| @",
    "& @",
    "&& @",
    "\n@\n",
    "\r\n@\r\n",
    "`@`",
    "$(@)",
    "${x:-$(@)}",
    "<(@)",
    ">(@)",
    "'; @; '",
    "\"; @; \"",
    "'`@`'",
    "\"$(@)\"",
    "\\'; @ #",
    ") ; @ ; (",
    "} ; @ ; {",
    "%0a@",
    "\u{2028}@",
    "\u{feff}; @",
    "\t; @",
    "$'\\n@'",
    "#{`@`}",
    "{{@}}",
    "<% @ %>",
    "%x(@)",
    "!@",
    "() { :; }; @",
    "@ 2>&1",
    "\u{1b}]0;@\u{7}",
    "../../../@",
    "\u{202e}; @",
];

/// What stands before.
const STARTS: [&str; 6] = ["", "a", "-", "--x=", "'", "名前 "];

fn strings(canary: &str) -> Vec<String> {
    let mut all = Vec::new();
    for deed in DEEDS {
        for shape in BREAKS {
            for start in STARTS {
                all.push(format!("{start}{}", shape.replace('@', &deed.replace("CANARY", canary))));
            }
        }
    }
    all
}

/// A program that keeps what it was given, byte for byte, in files named by its job.
const RECORDER: &str =
    "[ \"$1\" = -- ] && shift; at=\"$0.seen/$BACKSTOP_JOB\"; printf '%s\\0' \"$@\" > \"$at.args\"
printf '%s' \"$WORD\" > \"$at.env\"; exec cat > \"$at.stdin\"";

async fn submit(engine: &Backstop, payload: &Value) -> JobId {
    let job = engine.enqueue_raw("command", payload.to_string()).max_retries(0).max_crashes(0);
    job.submit().await.expect("admitted").id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_strings_arrive_byte_for_byte_and_do_nothing() {
    // E4
    let scripts = Scripts::new();
    let (path, settings) = scripts.allowed("recorder", RECORDER);
    let (seen, canary) = (format!("{path}.seen"), scripts.path("canary.d").join("canary"));
    std::fs::create_dir(&seen).expect("a folder");
    std::fs::create_dir(scripts.path("canary.d")).expect("a folder");
    let settings =
        settings.allow_env("WORD").expect("a name").dir(scripts.path("canary.d")).expect("a folder");
    let strings = strings(canary.to_str().expect("plain"));
    assert!(strings.len() >= 1_000, "{} strings", strings.len());
    let engine = engine().await;
    let running = worker(&engine, Kinds { command: settings, ..Kinds::default() });
    let running = running.start().await.expect("memory is there");
    let mut jobs = BTreeMap::new();
    for text in &strings {
        let input = json!({ "text": text, text: 1 });
        let payload =
            json!({ "argv": [path, "--", text, "", text], "env": { "WORD": text }, "stdin": input });
        jobs.insert(submit(&engine, &payload).await, (text, input));
    }
    for (job, (text, input)) in jobs {
        engine.wait(job).await.expect("memory is there").expect("the job is there");
        let ran = ran_of(&engine, job).await;
        assert_eq!(ran.cause(), Cause::Succeeded, "{text}: {}", ran.message());
        let read = |end: &str| std::fs::read(format!("{seen}/{job}.{end}")).expect("it ran");
        assert_eq!(read("args"), format!("{text}\0\0{text}\0").as_bytes(), "{text}");
        assert_eq!(read("env"), text.as_bytes(), "{text}");
        assert_eq!(read("stdin"), input.to_string().as_bytes(), "{text}");
    }
    running.stop().await;
    assert!(none_in(&scripts), "a canary appeared");
}

fn none_in(scripts: &Scripts) -> bool {
    std::fs::read_dir(scripts.path("canary.d")).expect("a folder").next().is_none()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_strings_are_no_program_no_directory_no_variable_and_no_payload() {
    // E4
    let scripts = Scripts::new();
    let (path, _) = scripts.allowed("recorder", "touch \"$0.ran\"");
    std::fs::create_dir(scripts.path("canary.d")).expect("a folder");
    let canary = scripts.path("canary.d").join("canary");
    let program = Program::new(&path).expect("a program");
    let settings = CommandSettings::default().allow(program).allow_env("WORD").expect("a name");
    let kinds = Kinds { command: settings, ..Kinds::default() };
    // A store in memory looks at every job it has: a few at a time are faster.
    for some in strings(canary.to_str().expect("plain")).chunks(100) {
        all_are_refused(some, &path, kinds.clone()).await;
    }
    assert!(none_in(&scripts), "a canary appeared");
    assert!(!std::path::Path::new(&format!("{path}.ran")).exists(), "a refused call ran");
}

async fn all_are_refused(strings: &[String], path: &str, kinds: Kinds) {
    let engine = engine().await;
    let running = worker(&engine, kinds).start().await.expect("memory is there");
    let mut jobs = Vec::new();
    for (at, text) in strings.iter().enumerate() {
        let payloads = [
            json!({ "argv": [text] }),
            json!({ "argv": [format!("{path}{text}")] }),
            json!({ "argv": [format!("/{text}")] }),
            json!({ "argv": [path], "dir": text }),
            json!({ "argv": [path], "env": { text.as_str(): "x" } }),
            json!({ "argv": [path], text.as_str(): "x" }),
            json!({ "argv": text }),
            json!({ "argv": [path], "timeout_ms": text }),
            json!({ "argv": [path, format!("-{text}")] }),
            json!(text),
        ];
        // Each string as a program and as a directory, and in one to three of the other places by turns.
        let chosen = payloads.into_iter().enumerate();
        for (_, payload) in chosen.filter(|(place, _)| matches!(place, 0 | 3) || place % 4 == at % 4) {
            jobs.push((submit(&engine, &payload).await, payload));
        }
    }
    for (job, payload) in jobs {
        engine.wait(job).await.expect("memory is there").expect("the job is there");
        let ran = ran_of(&engine, job).await;
        assert!(matches!(ran.cause(), Cause::Permanent | Cause::Invalid), "{payload}: {}", ran.message());
        assert!(!ran.message().is_empty(), "{payload}");
    }
    running.stop().await;
}

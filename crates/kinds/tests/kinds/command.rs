//! `command`: what is refused, what a program gets, and what its end means.

use std::path::Path;
use std::time::Duration;

use backstop::{Cause, State};
use backstop_kinds::command::ProcessLimits;
use backstop_kinds::{Command, CommandSettings, Program};
use serde_json::{Value, json};

use crate::stage::{Scripts, Stage};

fn command<const N: usize>(argv: [&str; N]) -> Command {
    Command::new(argv)
}

#[tokio::test]
async fn every_exit_means_what_the_table_says() {
    // E4
    let scripts = Scripts::new();
    let (path, settings) = scripts.allowed("exits", "echo \"so $1\" >&2; exit $1");
    let stage = Stage::commands(settings).await;
    for code in (0..3).chain(60..=80).chain([126, 127, 128, 255]) {
        let expected = match code {
            0 => Cause::Succeeded,
            64 | 65 => Cause::Invalid,
            69 | 75 => Cause::Rejected,
            77 | 78 => Cause::Permanent,
            _ => Cause::Error,
        };
        let ran = stage.run(command([&path, &code.to_string()])).await;
        assert_eq!(ran.cause(), expected, "{code}");
        if code != 0 {
            let told = format!("`exits` ended with code {code}: so {code}");
            assert!(ran.message().contains(&told), "{}", ran.message());
        }
        // A dependency that is unavailable costs nothing: the job waits for its next run.
        let waits = expected == Cause::Rejected;
        assert_eq!(ran.detail.view.record.state == State::Pending, waits, "{code}");
        if waits {
            let decision = ran.run.decision.as_ref().expect("a decision");
            assert!(decision.trace.iter().any(|check| check.answer == "exits"), "{decision:?}");
            stage.engine.cancel(ran.detail.view.job.spec.id, "seen").await.expect("it waits");
        }
    }
}

#[tokio::test]
async fn a_signal_is_a_crash_of_the_job_s_own_budget() {
    // E4, C1
    let scripts = Scripts::new();
    let (path, settings) = scripts.allowed("dies", "kill -$1 $$");
    let stage = Stage::commands(settings).await;
    for signal in ["9", "11", "6", "15"] {
        let ran = stage.run(command([&path, signal])).await;
        assert_eq!(ran.cause(), Cause::Crash, "{signal}");
        assert!(ran.message().contains(&format!("was killed by signal {signal}")), "{}", ran.message());
        let record = &ran.detail.view.record;
        assert_eq!((record.crashes, record.attempt), (1, 0), "it costs a crash and no attempt");
    }
}

#[tokio::test]
async fn nothing_is_allowed_until_it_is_listed() {
    // E4
    let scripts = Scripts::new();
    let (path, settings) = scripts.allowed("listed", "exit 0");
    let other = scripts.write("other", "touch ran");
    let link = scripts.path("link");
    std::os::unix::fs::symlink(&other, &link).expect("a link");
    let nested = format!("{}/../other", scripts.path("sub").display());
    std::fs::create_dir(scripts.path("sub")).expect("a folder");
    let closed = Stage::commands(CommandSettings::default()).await;
    let open = Stage::commands(settings).await;
    assert_eq!(closed.run(command([&path])).await.cause(), Cause::Permanent);
    assert_eq!(open.run(command([&path])).await.cause(), Cause::Succeeded);
    let link = link.to_str().expect("plain");
    for refused in [&other, link, &nested, "/bin/sh", "/no/such", "/", "/etc/passwd", "/proc/self/exe"] {
        let ran = open.run(command([refused])).await;
        assert_eq!(ran.cause(), Cause::Permanent, "{refused}");
        assert!(ran.message().contains("may not be run: handlers.command.allow"), "{}", ran.message());
    }
    // The other way round a detour to what is listed is what is listed.
    let detour = path.replace("/listed", "/sub/../listed");
    assert_eq!(open.run(command([&detour])).await.cause(), Cause::Succeeded);
    for wrong in ["listed", "./listed", "sh", "", "~/x", "sub/../listed"] {
        let ran = open.run(command([wrong])).await;
        assert_eq!(ran.cause(), Cause::Invalid, "{wrong}");
        assert!(ran.message().contains("programs are not searched for"), "{}", ran.message());
    }
    for payload in [
        json!({}),
        json!({ "argv": [] }),
        json!({ "argv": "ls -l" }),
        json!({ "argv": [path, 1] }),
        json!({ "argv": [path], "shell": true }),
        json!({ "argv": [path, "a\0b"] }),
        json!({ "argv": [path], "timeout_ms": 0 }),
        json!({ "argv": vec![path.as_str(); 2_000] }),
        json!({ "argv": [path, "x".repeat(200_000)] }),
    ] {
        let ran = open.run_raw("command", payload.to_string()).await;
        assert_eq!(ran.cause(), Cause::Invalid, "{payload}");
    }
    assert!(!scripts.path("ran").exists());
}

#[tokio::test]
async fn options_are_refused_unless_the_entry_says_otherwise() {
    // E4
    let scripts = Scripts::new();
    let path = scripts.write("plain", "exit 0");
    let any = scripts.write("any", "exit 0");
    let program = |path: &str| Program::new(path).expect("a program");
    let settings = CommandSettings::default().allow(program(&path)).allow(program(&any).any_arguments());
    let stage = Stage::commands(settings).await;
    for args in [&["-x"][..], &["a", "-"], &["--output=/etc/passwd"], &["--x", "--"], &["---"]] {
        let argv = |program: &str| <Command>::new([program].iter().chain(args).copied());
        let ran = stage.run(argv(&path)).await;
        assert_eq!(ran.cause(), Cause::Permanent, "{args:?}");
        assert!(ran.message().contains("begins with `-`"), "{}", ran.message());
        assert_eq!(stage.run(argv(&any)).await.cause(), Cause::Succeeded, "{args:?}");
    }
    for args in [&["a", "b-c"][..], &["--", "-x", "--y"], &["+x"], &[""]] {
        let argv: Command = Command::new([path.as_str()].iter().chain(args).copied());
        assert_eq!(stage.run(argv).await.cause(), Cause::Succeeded, "{args:?}");
    }
}

#[tokio::test]
async fn a_program_with_patterns_gets_no_other_argument_wherever_it_stands() {
    // E4, E10
    let scripts = Scripts::new();
    std::fs::write(scripts.path("kept.txt"), "x").expect("a file");
    let find = Path::new("/usr/bin/find").canonicalize().expect("a program");
    let find = find.to_str().expect("plain");
    let folder = scripts.path("").display().to_string();
    let folder = folder.trim_end_matches('/');
    let program = Program::with_arguments(find, &[folder, "-name", "[a-z]+[.]txt"]).expect("patterns");
    let stage = Stage::commands(CommandSettings::default().allow(program)).await;
    let ran = stage.run(command([find, folder, "-name", "kept.txt"])).await;
    assert_eq!(ran.cause(), Cause::Succeeded, "{}", ran.message());
    assert!(ran.output().contains("kept.txt"), "{}", ran.output());
    for (args, at, told) in [
        (&[folder, "-delete"][..], 2, "-delete"),
        (&["--", folder, "-delete"], 1, "--"),
        (&[folder, "-exec", "/usr/bin/id", ";"], 2, "-exec"),
        (&[folder, "-name", "kept.txt\n-delete"], 3, "kept.txt\\n-delete"),
        (&["/etc"], 1, "/etc"),
        (&[""], 1, ""),
    ] {
        let argv: Command = Command::new([find].iter().chain(args).copied());
        let ran = stage.run(argv).await;
        assert_eq!(ran.error_type(), "command_argument_not_allowed", "{args:?}");
        let told = format!("argument {at} of `{find}`, `{told}`, may not be given: no pattern in its `args`");
        assert!(ran.message().contains(&told), "{}", ran.message());
    }
    assert!(scripts.path("kept.txt").exists());
}

#[tokio::test]
async fn a_program_gets_its_own_environment_directory_and_input() {
    // E4
    let scripts = Scripts::new();
    let text = "exec 3<&0; { printf '%s|' \"$(pwd)\" \"$WORD\"; /usr/bin/env -u PWD -u OLDPWD -u _ | sort | tr '\\n' ' '; \
                cat <&3; } > \"$0.seen\"";
    let (path, settings) = scripts.allowed("sees", text);
    let folder = scripts.path("work");
    std::fs::create_dir_all(folder.join("deep")).expect("a folder");
    let settings = settings.allow_env("WORD").and_then(|it| it.allow_dir(&folder)).expect("settings");
    let stage = Stage::commands(settings.keep_env("CARGO_PKG_NAME").keep_env("NOT_SET_AT_ALL")).await;
    let seen = || std::fs::read_to_string(format!("{path}.seen")).expect("it ran");
    let deep = folder.join("deep").display().to_string();
    let job =
        command([&path]).env("WORD", "x y").dir(&deep).stdin(&json!({ "b": 1, "a": [2.50] })).expect("JSON");
    let ran = stage.run(job).await;
    assert_eq!(ran.cause(), Cause::Succeeded, "{}", ran.message());
    let text = seen();
    assert!(text.starts_with(&format!("{deep}|x y|")) && text.ends_with("{\"a\":[2.5],\"b\":1}"), "{text}");
    assert!(text.contains("CARGO_PKG_NAME=backstop-kinds ") && text.contains("WORD=x y "), "{text}");
    let id = ran.detail.view.job.spec.id.to_string();
    assert!(text.contains(&format!("BACKSTOP_JOB={id} ")), "{text}");
    assert_eq!(text.matches('=').count(), 4, "nothing else is in it: {text}");
    // `input` is another word for it, text keeps its form, and no input is an empty one.
    let raw = format!("{{\"argv\":[\"{path}\"],\"input\":{{\"b\":1.50, \"a\":12345678901234567890123}}}}");
    assert_eq!(stage.run_raw("command", raw).await.cause(), Cause::Succeeded);
    assert!(
        seen().starts_with("/||") && seen().ends_with("{\"b\":1.50, \"a\":12345678901234567890123}"),
        "{}",
        seen()
    );
    for (job, told) in [
        (command([&path]).env("OTHER", "x"), "variable `OTHER` may not be set"),
        (command([&path]).env("LD_PRELOAD", "/x.so"), "variable `LD_PRELOAD` may not be set"),
        (command([&path]).env("PATH", "/x"), "variable `PATH` may not be set"),
        (command([&path]).dir("/"), "directory `/` may not be used"),
        (command([&path]).dir(format!("{deep}/../..")), "may not be used"),
        (command([&path]).dir("work"), "may not be used"),
        (command([&path]).dir("/no/such"), "may not be used"),
    ] {
        let ran = stage.run(job).await;
        assert_eq!(ran.cause(), Cause::Permanent, "{told}");
        assert!(ran.message().contains(told), "{}", ran.message());
    }
}

#[tokio::test]
async fn what_is_printed_is_kept_up_to_a_limit_and_json_is_the_result() {
    // E4
    let scripts = Scripts::new();
    let flood = "head -c 3000000 /dev/zero | tr '\\0' x; head -c 2000000 /dev/zero | tr '\\0' y >&2";
    let (flood, settings) = scripts.allowed("flood", flood);
    let json_path = scripts.write("json", "echo ' {\"a\": [1, \"é\"]} '; echo careful >&2");
    let text_path = scripts.write("text", "echo one; echo two; printf three; printf '\\377\\n' >&2");
    let settings = settings
        .allow(Program::new(&json_path).expect("a program"))
        .allow(Program::new(&text_path).expect("a program"));
    let stage = Stage::commands(settings).await;
    let ran = stage.run(command([&flood])).await;
    assert_eq!((ran.cause(), ran.result()), (Cause::Succeeded, Value::Null));
    assert!(ran.output().len() <= 64 * 1024, "{} bytes", ran.output().len());
    for (word, bytes) in [("", 3_000_000), ("stderr: ", 2_000_000)] {
        let told = ran
            .output()
            .lines()
            .find(|line| line.starts_with(&format!("{word}… ")))
            .expect("both are told of");
        let count: usize = told.split(' ').find_map(|it| it.parse().ok()).expect("a count");
        assert!((bytes - 30 * 1024..bytes - 20 * 1024).contains(&count), "{told}");
    }
    let ran = stage.run(command([&json_path])).await;
    assert_eq!(ran.result(), json!({ "a": [1, "é"] }));
    assert!(ran.output().contains("stderr: careful"), "{}", ran.output());
    let ran = stage.run(command([&text_path])).await;
    assert_eq!((ran.cause(), ran.result()), (Cause::Succeeded, Value::Null));
    let mut lines: Vec<&str> = ran.output().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "stderr: \u{fffd}", "three", "two"]);
}

#[tokio::test]
async fn what_is_not_shown_is_counted() {
    // E4
    let scripts = Scripts::new();
    let (path, settings) = scripts.allowed("chatter", "head -c 100000 /dev/zero | tr '\\0' '\\n'");
    let stage = Stage::commands(settings).await;
    let ran = stage.run(command([&path])).await;
    assert_eq!(ran.cause(), Cause::Succeeded);
    // A line takes a byte for its end, and thirty KiB of lines are shown.
    let told = format!("… {} more bytes are not shown", 100_000 - 30 * 1024);
    assert_eq!(ran.output().lines().last(), Some(told.as_str()));
}

#[tokio::test]
async fn limits_hold_and_no_rights_can_be_gained() {
    // E4
    let scripts = Scripts::new();
    // It waits for its input, which comes after the limits.
    let text = "read -r _; printf '[%s,%s,%s,%s]' \"$(ulimit -n)\" \"$(ulimit -t)\" \"$(ulimit -v)\" \
                \"$(grep NoNewPrivs /proc/self/status | tr -cd 0-9)\"";
    let (path, settings) = scripts.allowed("limits", text);
    let writes = scripts.write("writes", "read -r _; exec head -c 100000 /dev/zero > \"$0.out\"");
    let mut limits = ProcessLimits::default();
    limits.open_files = Some(37);
    limits.cpu_seconds = Some(11);
    limits.memory_bytes = Some(512 * 1024 * 1024);
    limits.file_bytes = Some(4_096);
    let settings = settings.allow(Program::new(&writes).expect("a program")).limits(limits);
    let stage = Stage::commands(settings).await;
    let ran = stage.run(command([&path]).stdin(&1).expect("JSON")).await;
    assert_eq!(ran.result(), json!([37, 11, 512 * 1024, 1]), "{}", ran.message());
    let ran = stage.run(command([&writes]).stdin(&1).expect("JSON")).await;
    assert_eq!(ran.cause(), Cause::Crash, "{}", ran.message());
    assert_eq!(std::fs::metadata(format!("{writes}.out")).expect("a file").len(), 4_096);
}

#[tokio::test]
async fn a_program_runs_as_the_user_it_is_told() {
    // E4
    let id = Path::new("/usr/bin/id").canonicalize().expect("a program");
    let program = Program::new(&id).expect("a program").any_arguments();
    let settings = CommandSettings::default().allow(program);
    let path = id.to_str().expect("plain");
    let (user, group) = somebody();
    // Without a group it is the user's own, never the one that the worker happens to be in.
    for (settings, user, group) in [
        (settings.clone().user(user), user, group),
        (settings.clone().group(65_533).user(user), user, 65_533),
        (settings.clone().user(user).map(|it| it.group(65_533)), user, 65_533),
        (settings.clone().group(0).user(user), user, 0),
        (settings.group(65_533).user(4_000_000), 4_000_000, 65_533),
    ] {
        let stage = Stage::commands(settings.expect("a user with a group")).await;
        let ran = stage.run(command([path, "-u"])).await;
        if rustix::process::geteuid().is_root() {
            assert_eq!(ran.result(), json!(user), "{}", ran.message());
            assert_eq!(stage.run(command([path, "-g"])).await.result(), json!(group));
            assert_eq!(
                stage.run(command([path, "-G"])).await.result(),
                json!(group),
                "no other group is left"
            );
        } else {
            assert_eq!(ran.cause(), Cause::Error, "only root may do that: it must not run as somebody else");
        }
    }
}

/// A user of this machine, with a group of another number if there is one: so that neither is taken for the other.
fn somebody() -> (u32, u32) {
    let users = std::fs::read_to_string("/etc/passwd").expect("users");
    let all: Vec<(u32, u32)> = users
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':').skip(2);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        })
        .filter(|(user, group)| *user != 0 && *group != 0)
        .collect();
    let apart = all.iter().find(|(user, group)| user != group);
    *apart.or(all.first()).expect("there are more users than root")
}

#[tokio::test]
async fn a_payload_may_ask_for_less_time_and_never_for_more() {
    // E3, F10
    let scripts = Scripts::new();
    let (path, settings) = scripts.allowed("waits", "exec sleep 1000");
    let short = Duration::from_millis(200);
    let stage = Stage::commands(settings.timeout(short * 2).expect("some time")).await;
    for (job, limit) in [
        (command([&path]).timeout(short), "200ms"),
        (command([&path]).timeout(Duration::from_secs(99)), "400ms"),
        (command([&path]), "400ms"),
    ] {
        let ran = stage.run(job).await;
        assert_eq!(ran.cause(), Cause::Timeout);
        assert!(ran.message().contains(limit), "{}", ran.message());
    }
}

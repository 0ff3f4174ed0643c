//! What reaches a terminal: no control byte of a stored string, whatever was stored (F11, S14).

use crate::program::{HOSTILE, Program, Ran, on_engine, played, sqlite};

fn harmless(what: &str, ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        let raw =
            text.chars().find(|ch| (ch.is_control() && *ch != '\n') || matches!(ch, '\u{202a}'..='\u{202e}'));
        assert_eq!(raw, None, "{what} printed a raw control character: {text:?}");
    }
}

/// Writes past the engine, which would have cleaned most of this: another program may have written the file.
fn tampered(program: &Program) {
    const COLUMNS: &str = "'message', 'error_type', 'output', 'warning', 'result', 'code_version', 'payload', \
                           'correlation_id', 'params', 'cancel_reason'";
    let file = sqlite(&program.path("backstop.db"));
    let ask = format!(
        "SELECT format('UPDATE \"%w\" SET \"%w\" = ?1', t.name, c.name) FROM sqlite_schema t, \
         pragma_table_info(t.name) c WHERE t.type = 'table' AND c.name IN ({COLUMNS})"
    );
    let mut statement = file.prepare(&ask).expect("a list of columns");
    let updates = statement.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let changed: usize =
        updates.map(|update| file.execute(&update.expect("a row"), [HOSTILE]).expect("an update")).sum();
    assert!(changed >= 8, "only {changed} values were tampered with");
}

#[test]
fn no_stored_string_takes_a_terminal_over() {
    let program = Program::new();
    let id = played(&program, &["hostile"])[0].to_string();
    tampered(&program);
    let payload = serde_json::json!({ "text": HOSTILE }).to_string();
    let canceled =
        program.enqueue(&["mail", &payload, "--tag", "tag\u{202e}gat", "--business-key", "key\u{202e}yek"]);
    program.run(&["job", "cancel", &canceled, "--reason", HOSTILE]).exits(0);
    program.run(&["queue", "pause", HOSTILE]);
    on_engine(&program, async |engine| {
        let worker = engine
            .worker(())
            .register::<crate::program::Play>()
            .queue(HOSTILE, 1)
            .name(HOSTILE)
            .code_version(HOSTILE);
        let worker = worker.start().await.expect("it starts");
        let commands: [&[&str]; 15] = [
            &["job", "list"],
            &["job", "list", "--tag", HOSTILE],
            &["job", "show", &id],
            &["job", "show", &canceled],
            &["job", "explain", &id],
            &["job", "explain", &canceled],
            &["job", "attempts", &id],
            &["job", "logs", &id],
            &["dead", "list"],
            &["dead", "show", &id],
            &["incident", "list"],
            &["queue", "list"],
            &["queue", "pause", HOSTILE],
            &["worker", "list"],
            &["doctor"],
        ];
        for command in commands {
            harmless(&command.join(" "), &program.run(command));
            harmless(&command.join(" "), &program.run(&[command, &["--json"]].concat()));
        }
        worker.stop().await;
    });
    let refused = ["enqueue", HOSTILE, "--queue", HOSTILE];
    harmless("a refused enqueue", &program.run(&refused).exits(3));
    harmless("a refused enqueue", &program.run(&[&refused[..], &["--json"]].concat()).exits(3));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let program = Program::new();
    program.run(&["enqueue", "bulk", "--count", "1000"]).exits(0);
    for args in [&["job", "list", "--limit", "1000", "--json"][..], &["completions", "bash"], &["--help"]] {
        let mut child = program.spawn(&mut program.command(args));
        drop(child.stdout.take());
        let ran = crate::program::wait(child);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn colours_are_for_terminals_only() {
    let program = Program::new();
    program.enqueue(&["mail"]);
    for args in [&["job", "list"][..], &["job", "list", "--no-color"]] {
        assert!(!program.run(args).stdout.contains('\u{1b}'));
    }
}

//! Set-up, checks and tests of the workspace: `cargo xtask help` lists the commands.
//!
//! Owns the list of commands and turns their failures into exit codes. Depends on the standard library and on the
//! testbed, which has no dependencies either, so that the first thing a newcomer runs is compiled within seconds.
#![allow(clippy::print_stdout, reason = "a command-line tool speaks on standard output")]

mod bench;
mod error;
mod generate;
mod guarantees;
mod install;
mod moto;
mod page;
mod process;
mod schemathesis;
mod servers;
mod setup;
mod starved;
mod steps;
mod table;
mod test;
mod tidy;
mod torture;

use std::process::ExitCode;

use error::TaskError;

/// One command of `cargo xtask`.
struct Entry {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), TaskError>,
}

/// All commands, in the order in which a newcomer meets them.
const COMMANDS: [Entry; 7] = [
    Entry {
        name: "test",
        arguments: "[FILTER...] [--quick]",
        about: "everything CI checks; --quick leaves out clippy, the browser, doc tests and rustdoc",
        run: test::run,
    },
    Entry {
        name: "tidy",
        arguments: "",
        about: "text checks of the house rules, in a second",
        run: tidy::run,
    },
    Entry {
        name: "generate",
        arguments: "[PAGE...] [--check]",
        about: "rewrites the generated pages of docs/, or those named; --check only compares",
        run: generate::run,
    },
    Entry {
        name: "page",
        arguments: "[NAME...]",
        about: "the browser tests of the page, or those named; screens are in target/screens",
        run: page::run,
    },
    Entry {
        name: "servers",
        arguments: "[-- COMMAND...]",
        about: "runs COMMAND with the database servers of the tests, or starts them until Ctrl-C",
        run: servers::run,
    },
    Entry {
        name: "torture",
        arguments: "[NAME...]",
        about: "the long form of the kill campaigns and property tests, in release mode",
        run: torture::run,
    },
    Entry {
        name: "bench",
        arguments: "[compare [--quick] [--only NAME,...] [--parts NAME,...]] [ARGUMENT...]",
        about: "`backstop bench` in release mode; compare: beside other job engines, all installed",
        run: bench::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            failure.exit_code()
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), TaskError> {
    let Some((name, rest)) = arguments.split_first() else {
        println!("{}", help());
        return Ok(());
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        println!("{}", help());
        return Ok(());
    }
    let Some(entry) = COMMANDS.iter().find(|entry| entry.name == name) else {
        return Err(TaskError::Usage(format!("no command `{name}`; `cargo xtask help` lists them")));
    };
    // `bench` passes everything through, so `cargo xtask bench --help` shows the program's own help.
    let mut own = rest.iter().take_while(|word| *word != "--");
    if entry.name != "bench" && own.any(|word| word == "--help" || word == "-h") {
        println!("cargo xtask {} {}\n\n{}", entry.name, entry.arguments, entry.about);
        return Ok(());
    }
    (entry.run)(rest)
}

fn help() -> String {
    let rows: Vec<Vec<String>> = COMMANDS
        .iter()
        .map(|entry| vec![entry.name.to_owned(), entry.arguments.to_owned(), entry.about.to_owned()])
        .collect();
    format!("cargo xtask COMMAND\n\n{}", table::render(&["command", "arguments", "what it does"], &rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn help_names_every_command() {
        let text = help();
        for entry in &COMMANDS {
            assert!(
                text.lines().any(|line| line.starts_with(entry.name)),
                "{} is missing in\n{text}",
                entry.name
            );
        }
    }

    #[test]
    fn an_unknown_command_is_wrong_usage() {
        assert!(matches!(dispatch(&words("tset")), Err(TaskError::Usage(_))));
    }

    #[test]
    fn an_unknown_option_is_wrong_usage() {
        assert!(matches!(dispatch(&words("test --quik")), Err(TaskError::Usage(_))));
        assert!(matches!(dispatch(&words("tidy everything")), Err(TaskError::Usage(_))));
        assert!(matches!(dispatch(&words("generate --force")), Err(TaskError::Usage(_))));
        assert!(matches!(dispatch(&words("torture --fast")), Err(TaskError::Usage(_))));
        assert!(matches!(dispatch(&words("servers --fast")), Err(TaskError::Usage(_))));
    }
}

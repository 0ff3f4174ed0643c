//! The help of the program itself: its commands in groups, as people look for them.
//!
//! The texts are those of the commands; only their order and the headings are made here.

use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// Headings and their commands. Every command is in one group; a test checks that.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Run", &["up", "work", "enqueue"]),
    (
        "Watch and operate",
        &[
            "job", "workflow", "batch", "schedule", "signal", "queue", "key", "limit", "circuit", "bridge",
            "worker", "events", "handoff",
        ],
    ),
    ("Failures", &["dead", "incident", "reject", "alert", "redrive", "rule"]),
    ("Administer", &["archive", "token", "audit", "config", "migrate", "doctor"]),
    ("Tools", &["bench", "completions", "help"]),
];

/// As clap writes headings and words that are to be typed.
const HEADING: &str = "\u{1b}[1m\u{1b}[4m";
const LITERAL: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

/// The command line, with its help in groups.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let groups: String = GROUPS.iter().map(|(heading, names)| group(&command, heading, names)).collect();
    let usage = format!("{HEADING}Usage:{PLAIN} {LITERAL}backstop{PLAIN} [OPTIONS] <COMMAND>");
    let more = format!("`{LITERAL}backstop help COMMAND{PLAIN}` says more about a command.");
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    // One `help` is enough, and it knows the commands below.
    let command = names
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, |one| one.disable_help_subcommand(true)));
    let options = format!("{HEADING}Global options:{PLAIN}");
    let template =
        format!("{{about-with-newline}}\n{usage}\n\n{groups}{more}\n\n{options}\n{{options}}{{after-help}}");
    command.help_template(template)
}

/// A heading and what each of its commands does.
fn group(command: &Command, heading: &str, names: &[&str]) -> String {
    let line = |name: &&str| {
        let about = match *name {
            "help" => "Show help for a command".to_owned(),
            _ => command
                .find_subcommand(name)
                .and_then(Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default(),
        };
        format!("  {LITERAL}{name:<12}{PLAIN} {}\n", about.trim_end_matches('.'))
    };
    format!("{HEADING}{heading}:{PLAIN}\n{}\n", names.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.retain(|name| *name != "help");
        grouped.sort_unstable();
        let command = Cli::command();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }
}

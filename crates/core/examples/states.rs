//! Prints docs/states.md from the state table itself.

#![allow(clippy::print_stdout, reason = "it prints a page")]

use backstop_core::job::{State, TABLE, next};

fn main() {
    println!("# States of a job\n");
    println!("Generated from `crates/core/src/job/transition.rs` by `cargo xtask generate`; do not edit.");
    println!("What is promised about each move: [the rules](rules.md), L1 and those that follow it.\n");
    println!("```mermaid\nstateDiagram-v2");
    println!("    [*] --> pending: submit");
    for state in State::ALL {
        for trigger in TABLE {
            if let Ok(to) = next(state, trigger) {
                println!("    {state} --> {to}: {trigger}");
            }
        }
    }
    for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
        println!("    {state} --> [*]");
    }
    println!("```\n");
    println!("| a job can | {} |", State::ALL.map(State::as_str).join(" | "));
    println!("|---|{}", "---|".repeat(State::ALL.len()));
    for trigger in TABLE {
        let cells = State::ALL.map(|state| next(state, trigger).map_or("", State::as_str));
        println!("| {trigger} | {} |", cells.join(" | "));
    }
    println!("\nAn empty cell is refused by name: nothing changes.");
}

//! Prints docs/openapi.json from the routes themselves.

#![allow(clippy::print_stdout, reason = "it prints a page")]

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string_pretty(&backstop_server::document())?);
    Ok(())
}

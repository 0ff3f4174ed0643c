//! Calls a program that ends by itself: an installer or a command-line client.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::trouble::TestbedError;

/// Runs the command to its end with `input` on standard input; returns its output without the last line end.
pub(crate) fn run(mut command: Command, input: &str) -> Result<String, TestbedError> {
    let name = command.get_program().display().to_string();
    let cannot = |error: std::io::Error| TestbedError::new(format!("cannot run {name}: {error}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(cannot)?;
    let mut stdin = child.stdin.take();
    // Written from a second thread: a client that answers at length before it has read everything would wait forever.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(stdin) = &mut stdin {
                // A client that gives up early closes its end; its own words tell more than the broken pipe.
                let _ = stdin.write_all(input.as_bytes());
            }
        });
        child.wait_with_output()
    });
    let output = output.map_err(cannot)?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    if output.status.success() {
        return Ok(text);
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    let arguments: Vec<String> = command.get_args().map(|word| word.display().to_string()).collect();
    Err(TestbedError::new(format!(
        "`{name} {}` ended with {}\n{text}{complaint}",
        arguments.join(" "),
        output.status
    )))
}

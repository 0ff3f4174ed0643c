//! Why a server could not be found, started or asked.

use std::error::Error;
use std::fmt;

/// One sentence that names the program, folder or statement, followed by what the program itself said.
#[derive(Debug)]
pub struct TestbedError {
    text: String,
}

impl TestbedError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// For `map_err`: says what was tried, then why the system refused.
    pub(crate) fn io<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self { text: format!("{what}: {error}") }
    }

    /// Whether another process took the port between the choice and the start; all servers quote the system here.
    pub(crate) fn is_taken_port(&self) -> bool {
        self.text.contains("Address already in use")
    }
}

impl fmt::Display for TestbedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Error for TestbedError {}

//! What can be wrong with the settings of a kind. No message repeats a secret.

use std::path::PathBuf;

/// Why a setting cannot be used as it is given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A path that is not absolute.
    #[error("`{path}` is not an absolute path: write the whole path")]
    Relative {
        /// The path as it was given.
        path: PathBuf,
    },
    /// A path that leads nowhere.
    #[error("`{path}` cannot be used: {problem}")]
    Missing {
        /// The path as it was given.
        path: PathBuf,
        /// What the system said.
        problem: String,
    },
    /// A path that leads somewhere else.
    #[error("`{path}` leads to `{real}`: write that one, because what is run is what is listed")]
    Detour {
        /// The path as it was given.
        path: PathBuf,
        /// Where it leads.
        real: PathBuf,
    },
    /// A program that is none.
    #[error("`{path}` is not a program: it must be an executable file")]
    NoProgram {
        /// The path as it was given.
        path: PathBuf,
    },
    /// A program that does nearly anything by its arguments, listed without saying which it may get.
    #[error(
        "`{path}` {what} by its arguments, behind `--` too: list those it may get as patterns, such as \
         args = [\"[a-z0-9]+\"], or leave it out"
    )]
    ByArguments {
        /// The path as it was given.
        path: PathBuf,
        /// What it does.
        what: &'static str,
    },
    /// A program that does nearly anything by what it reads.
    #[error(
        "`{path}` {what}, whatever its arguments are, and the input is the payload's: leave it out, and list a script \
         that does what is needed"
    )]
    ByInput {
        /// The path as it was given.
        path: PathBuf,
        /// What it does.
        what: &'static str,
    },
    /// A pattern for arguments that is none.
    #[error("`{path}`: `{pattern}` is not a pattern for its arguments: {problem}")]
    ArgumentPattern {
        /// The program.
        path: PathBuf,
        /// The pattern as it was given.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A user without a group.
    #[error("user {user} is not in /etc/passwd, so its group is not known: say `group` too")]
    NoGroup {
        /// The number of the user.
        user: u32,
    },
    /// A directory that is none.
    #[error("`{path}` is not a directory")]
    NoDirectory {
        /// The path as it was given.
        path: PathBuf,
    },
    /// A name of a variable that may not be set.
    #[error("variable `{name}` may not be set by payloads: {why}")]
    Variable {
        /// The name.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// A grace period that is too long.
    #[error("a grace period of {given_ms} ms is too long: a worker that stops waits {max_ms} ms at most")]
    Grace {
        /// What was asked for.
        given_ms: u128,
        /// What is allowed.
        max_ms: u128,
    },
    /// A limit of zero.
    #[error("`{name}` must not be zero: nothing could run")]
    Zero {
        /// Which one.
        name: &'static str,
    },
    /// A target that is neither a host nor a network.
    #[error("`{target}` is neither a host name nor an address nor a network such as 10.1.0.0/16")]
    Target {
        /// What was given.
        target: String,
    },
    /// A method that is not known.
    #[error("`{method}` is not a method: use GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS")]
    Method {
        /// What was given.
        method: String,
    },
    /// Too many redirects.
    #[error("{given} redirects are too many: 5 at most")]
    Redirects {
        /// What was asked for.
        given: u64,
    },
    /// A secret that is none.
    #[error(
        "secret `{name}` is not a list of 1 to 5 strings, each whsec_ followed by 24 to 64 bytes in base64"
    )]
    Secret {
        /// The name that payloads use.
        name: String,
    },
    /// Secrets of the kind `http` without hosts that know them.
    #[error(
        "secret `{name}` needs the hosts that share it: hosts = [\"hooks.example.com\"], without scheme and port"
    )]
    SecretHosts {
        /// The name that payloads use.
        name: String,
    },
    /// A pattern of bridges and queues that is none.
    #[error("`{pattern}` is not a pattern for publishing: write BRIDGE, BRIDGE/QUEUE or BRIDGE/*")]
    PublishPattern {
        /// What was given.
        pattern: String,
    },
    /// A pattern of event names that is none.
    #[error(
        "`{pattern}` is not a pattern for events: write words joined by dots, with `*` alone or as the last word"
    )]
    Pattern {
        /// What was given.
        pattern: String,
    },
}

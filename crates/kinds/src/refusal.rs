//! What the built-in kinds refuse: each refusal with a code of its own, a cause in one line, and a way out (E10).
//!
//! The code is the type of the failed run's error, so that refusals of one sort make one incident, a rule can name
//! them, and a program can tell them apart. No text repeats a secret.

use std::fmt;

use backstop::{BoxError, Outcome};

macro_rules! codes {
    ($($name:ident = $text:literal, $sort:ident, $way_out:literal;)*) => {
        /// The codes of all refusals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum RefusalCode {
            $(#[doc = $way_out] $name,)*
        }

        impl RefusalCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code as it stands with the run.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What to do about it.
            #[must_use]
            pub const fn way_out(self) -> &'static str {
                match self { $(Self::$name => $way_out,)* }
            }

            const fn sort(self) -> Sort {
                match self { $(Self::$name => Sort::$sort,)* }
            }
        }
    };
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// The payload can never be run: a dead letter with the reason `invalid`.
    Invalid,
    /// The worker's settings do not open it: a dead letter with the reason `non_retryable`.
    Closed,
}

codes! {
    CommandNoProgram = "command_no_program", Invalid, "put the path of the program first into `argv`";
    CommandRelativePath = "command_relative_path", Invalid, "write the whole path of the program";
    CommandNul = "command_nul", Invalid, "leave the NUL out, or send the text by `stdin`";
    CommandTooManyArguments = "command_too_many_arguments", Invalid, "send the list by `stdin`";
    CommandTooLarge = "command_too_large", Invalid, "send the data by `stdin`";
    CommandZeroTimeout = "command_zero_timeout", Invalid, "leave `timeout_ms` out, or make it longer";
    CommandProgramNotAllowed = "command_program_not_allowed", Closed, "list the program in handlers.command.allow";
    CommandOptionNotAllowed = "command_option_not_allowed", Closed,
        "put `--` before it, or say in `args` of the program what it may get";
    CommandArgumentNotAllowed = "command_argument_not_allowed", Closed,
        "add a pattern to `args` of the program in handlers.command.allow";
    CommandVariableNotAllowed = "command_variable_not_allowed", Closed, "list the variable in handlers.command.env";
    CommandDirectoryNotAllowed = "command_directory_not_allowed", Closed,
        "list the directory in handlers.command.dirs";
    HttpUrlTooLong = "http_url_too_long", Invalid, "send the data in the body";
    HttpUrlCharacter = "http_url_character", Invalid, "encode the character, or the host as xn--";
    HttpUrlScheme = "http_url_scheme", Invalid, "begin with https:// or http://";
    HttpUrlCredentials = "http_url_credentials", Invalid, "send them in a header";
    HttpUrlHost = "http_url_host", Invalid, "write a host name, four numbers, or an address in brackets";
    HttpUrlPort = "http_url_port", Invalid, "write a number from 1 to 65535, or leave it out";
    HttpMethodUnknown = "http_method_unknown", Invalid, "use GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS";
    HttpBodyNotTaken = "http_body_not_taken", Invalid, "leave `body` out, or use POST";
    HttpZeroTimeout = "http_zero_timeout", Invalid, "leave `timeout_ms` out, or make it longer";
    HttpTooManyHeaders = "http_too_many_headers", Invalid, "send fewer headers";
    HttpHeaderInvalid = "http_header_invalid", Invalid, "fix its name or its value";
    HttpHeaderReserved = "http_header_reserved", Invalid, "leave it out: it belongs to the connection";
    HttpMethodNotAllowed = "http_method_not_allowed", Closed, "list the method in handlers.http.methods";
    HttpPortNotAllowed = "http_port_not_allowed", Closed, "list the port in handlers.http.ports";
    HttpAddressNotPublic = "http_address_not_public", Closed, "list the host in handlers.http.allow if that is meant";
    HttpSecretUnknown = "http_secret_unknown", Closed, "add the secret to handlers.http.secrets";
    HttpSecretElsewhere = "http_secret_elsewhere", Closed,
        "name a host that handlers.http.secrets lists for it";
    HttpRedirectNotFollowed = "http_redirect_not_followed", Closed,
        "name the final address, or raise handlers.http.redirects";
    HttpRedirectInvalid = "http_redirect_invalid", Closed, "name the final address";
    HttpRedirectElsewhere = "http_redirect_elsewhere", Closed,
        "name the final address, or set handlers.http.redirects_carry";
    HttpRedirectDowngrade = "http_redirect_downgrade", Closed, "name an address that stays on https";
    EventNameInvalid = "event_name_invalid", Invalid, "write up to 128 characters, words joined by dots";
    EventNotAllowed = "event_not_allowed", Closed, "list the name in handlers.event.allow";
    PublishBridgeUnknown = "publish_bridge_unknown", Closed,
        "add [bridges.NAME] to the settings of the worker, or check the spelling";
    PublishNoQueue = "publish_no_queue", Invalid, "name `queue`, or give the bridge a sink";
    PublishQueueInvalid = "publish_queue_invalid", Invalid, "write up to 255 letters, digits and signs without spaces";
    PublishIdInvalid = "publish_id_invalid", Invalid, "write up to 255 characters of ASCII, or leave `id` out";
    PublishHeaderInvalid = "publish_header_invalid", Invalid, "fix its name or its value, or send fewer headers";
    PublishNotAllowed = "publish_not_allowed", Closed, "list BRIDGE or BRIDGE/QUEUE in handlers.publish.allow";
}

/// A payload that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadRefusal {
    code: RefusalCode,
    told: String,
}

impl PayloadRefusal {
    pub(crate) fn new(code: RefusalCode, told: impl Into<String>) -> Self {
        Self { code, told: told.into() }
    }

    /// Its code.
    #[must_use]
    pub const fn code(&self) -> RefusalCode {
        self.code
    }
}

impl fmt::Display for PayloadRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

impl std::error::Error for PayloadRefusal {}

impl From<PayloadRefusal> for Outcome {
    fn from(refusal: PayloadRefusal) -> Self {
        let outcome = match refusal.code.sort() {
            Sort::Invalid => Self::invalid(refusal.told),
            Sort::Closed => Self::permanent(refusal.told),
        };
        outcome.of_type(refusal.code.as_str())
    }
}

/// As a handler ends by it.
pub(crate) fn refused(refusal: PayloadRefusal) -> BoxError {
    Outcome::from(refusal).into()
}

/// The start of a text that somebody else wrote, for a sentence about it.
pub(crate) fn brief(text: &str) -> String {
    const CHARS: usize = 80;
    let mut shown: String = text.chars().take(CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_code_of_its_own_and_stands_in_the_table_of_the_docs() {
        // E10
        let docs = include_str!("../../../docs/learn/built-in-kinds.md");
        for (at, code) in RefusalCode::ALL.iter().enumerate() {
            assert!(!RefusalCode::ALL[..at].iter().any(|other| other.as_str() == code.as_str()), "{code:?}");
            let row = docs.lines().find(|line| line.starts_with(&format!("| `{}` |", code.as_str())));
            let row = row.unwrap_or_else(|| panic!("{} is not in the table of the docs", code.as_str()));
            assert!(row.contains(code.way_out()), "{row}: {}", code.way_out());
        }
    }
}

//! The address of a check that needs no code: `http://HOST/PATH` or `tcp://HOST:PORT`.

use std::fmt;
use std::str::FromStr;

/// What to ask whether a dependency is there.
///
/// ```
/// use backstop::CheckAddress;
///
/// let check: CheckAddress = "http://mail.internal:8025/health".parse()?;
/// assert_eq!(check.to_string(), "http://mail.internal:8025/health");
/// assert!("mail.internal".parse::<CheckAddress>().is_err());
/// # Ok::<(), backstop::CheckAddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckAddress {
    pub(super) host: String,
    pub(super) port: u16,
    /// The path of a request; none for a plain connection.
    pub(super) path: Option<String>,
}

/// Why an address cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckAddressError {
    /// It begins with neither `http://` nor `tcp://`.
    #[error("a check is http://HOST/PATH or tcp://HOST:PORT; check what needs more in code")]
    Scheme,
    /// It names no host, or one with a character that no host has.
    #[error("the address of the check names no host: write http://HOST/PATH or tcp://HOST:PORT")]
    Host,
    /// The port is missing or is none.
    #[error("the address of the check has no port from 1 to 65535: write tcp://HOST:PORT")]
    Port,
    /// It has a user or a password in it.
    #[error("the address of the check has a user or a password in it: check what needs them in code")]
    Credentials,
    /// The path has a blank or a control character.
    #[error("the path of the check has a blank or a control character: write it as in a URL")]
    Path,
}

const HTTP: &str = "http://";
const TCP: &str = "tcp://";

impl FromStr for CheckAddress {
    type Err = CheckAddressError;

    fn from_str(text: &str) -> Result<Self, CheckAddressError> {
        let text = text.trim();
        let (rest, is_http) = match (text.strip_prefix(HTTP), text.strip_prefix(TCP)) {
            (Some(rest), _) => (rest, true),
            (_, Some(rest)) => (rest, false),
            _ => return Err(CheckAddressError::Scheme),
        };
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(CheckAddressError::Credentials);
        }
        let (host, port) = split_port(authority);
        let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || !host.chars().all(is_named) {
            return Err(CheckAddressError::Host);
        }
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or(CheckAddressError::Port)?,
            None if is_http => 80,
            None => return Err(CheckAddressError::Port),
        };
        if path.chars().any(|c| c.is_control() || c.is_whitespace() || !c.is_ascii()) {
            return Err(CheckAddressError::Path);
        }
        let path = match (is_http, path) {
            (false, "" | "/") => None,
            (false, _) => return Err(CheckAddressError::Port),
            (true, path) if path.starts_with('/') => Some(path.to_owned()),
            (true, path) => Some(format!("/{path}")),
        };
        Ok(Self { host: host.to_owned(), port, path })
    }
}

/// An address of version 6 stands in brackets.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => ("", None),
        };
    }
    match authority.split_once(':') {
        // Without brackets a second colon would be part of a port.
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    }
}

impl CheckAddress {
    /// The host and port as a URL has them.
    pub(super) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for CheckAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.path.is_some() { HTTP } else { TCP };
        write!(f, "{scheme}{}{}", self.authority(), self.path.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        // H1
        for (text, shown) in [
            ("http://mail/health", "http://mail:80/health"),
            ("http://mail", "http://mail:80/"),
            (" http://10.0.0.7:8080?deep=1 ", "http://10.0.0.7:8080/?deep=1"),
            ("tcp://db-1.internal:5432", "tcp://db-1.internal:5432"),
            ("tcp://[::1]:25/", "tcp://[::1]:25"),
            ("http://[fe80::7]/ok", "http://[fe80::7]:80/ok"),
        ] {
            assert_eq!(text.parse::<CheckAddress>().map(|it| it.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for (text, problem) in [
            ("", CheckAddressError::Scheme),
            ("mail", CheckAddressError::Scheme),
            ("https://mail", CheckAddressError::Scheme),
            ("http://", CheckAddressError::Host),
            ("http:///health", CheckAddressError::Host),
            ("tcp://:25", CheckAddressError::Host),
            ("tcp://ma il:25", CheckAddressError::Host),
            ("tcp://[::1]25", CheckAddressError::Host),
            ("tcp://mail", CheckAddressError::Port),
            ("tcp://mail:0", CheckAddressError::Port),
            ("tcp://mail:65536", CheckAddressError::Port),
            ("tcp://mail:smtp", CheckAddressError::Port),
            ("tcp://mail:25/path", CheckAddressError::Port),
            ("http://mail:1:2", CheckAddressError::Port),
            ("http://ann:secret@mail/", CheckAddressError::Credentials),
            ("http://mail/a b", CheckAddressError::Path),
            ("http://mail/\r\nX: 1", CheckAddressError::Path),
        ] {
            let refused = text.parse::<CheckAddress>().expect_err(text);
            assert_eq!(refused, problem, "{text}");
            assert!(!refused.to_string().contains("secret"));
        }
    }
}

//! How the way to a database server is protected: the same rule for every store that is reached over a network.
//!
//! Owns what `sslmode` and `sslrootcert` mean, what holds when a URL says neither, and the words for it. Knows no
//! driver: each store does with its own what is decided here.

use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::{Error, Finding, Level};

/// What `sslmode` says, with libpq's meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// Nothing is encrypted.
    Disable,
    /// Encrypted when the server can; nothing is verified.
    Prefer,
    /// Encrypted; nothing is verified.
    Require,
    /// Encrypted, and the certificate is signed by an authority that is trusted.
    VerifyCa,
    /// The same, and the certificate is for the host that was asked for.
    VerifyFull,
}

impl SslMode {
    const ALL: [Self; 5] = [Self::Disable, Self::Prefer, Self::Require, Self::VerifyCa, Self::VerifyFull];

    /// Its name in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    /// Finds it by its name.
    ///
    /// # Errors
    /// Says which there are.
    pub fn named(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("sslmode={text:?} is none of {known}")
        })
    }

    /// True when a certificate is looked at.
    #[must_use]
    pub const fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

/// What a URL says of encryption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestedEncryption {
    /// `sslmode`.
    pub mode: Option<SslMode>,
    /// `sslrootcert`; `system` stands for the authorities of this machine, as for libpq.
    pub root: Option<PathBuf>,
}

impl RequestedEncryption {
    /// Takes a pair of the URL; false when it is about something else.
    ///
    /// # Errors
    /// When there is no such mode.
    pub fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "sslmode" => self.mode = Some(SslMode::named(value)?),
            "sslrootcert" => self.root = Some(decoded(value).into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What holds. `is_local` when no packet leaves this machine, and `at_home` is what is done there without a word.
    #[must_use]
    pub fn decide(self, is_local: bool, at_home: SslMode) -> TransportEncryption {
        let mode = match self.mode {
            // As libpq does: whoever names an authority wants it to be asked.
            Some(SslMode::Require) if self.root.is_some() => SslMode::VerifyCa,
            Some(mode) => mode,
            None if is_local && self.root.is_none() => at_home,
            None => SslMode::VerifyFull,
        };
        let root = self.root.filter(|path| path.as_os_str() != "system");
        TransportEncryption { mode, root, said: self.mode, is_local }
    }
}

/// True when a host of a URL is this machine by its very name; what other names lead to is for others to say.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = bare_host(host);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// A host without the brackets that an IPv6 address has in a URL: certificates and sockets want none.
#[must_use]
pub fn bare_host(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// A value of a URL with its escapes resolved.
#[must_use]
pub fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                at += 3;
            }
            (byte, _) => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// How connections of a store are protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportEncryption {
    /// What is done.
    pub mode: SslMode,
    /// Authorities to trust instead of the machine's own.
    pub root: Option<PathBuf>,
    said: Option<SslMode>,
    is_local: bool,
}

/// What to do about a connection that others can read or take over.
const PROTECT: &str = "let the server speak TLS and take sslmode out of the URL; sslrootcert=PATH names an authority \
     of your own";

impl TransportEncryption {
    /// Whether this side of a connection is encrypted; none when that is up to the server.
    #[must_use]
    pub const fn promised(&self) -> Option<bool> {
        match self.mode {
            SslMode::Disable => Some(false),
            SslMode::Prefer => None,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Some(true),
        }
    }

    /// What `doctor` says of it. `here`: whether our side of a live connection is encrypted, as far as that is known;
    /// `there`: whether the server says so of its own side, which differs behind a proxy or a pooler.
    #[must_use]
    pub fn finding(&self, here: Option<bool>, there: Option<bool>) -> Finding {
        let why = self.why();
        let mut message = match (here, self.mode) {
            (Some(false), _) => format!("not encrypted ({why})"),
            (None, _) => format!("encrypted when the server can, not verified ({why})"),
            (Some(true), SslMode::VerifyFull) => {
                format!("encrypted and verified (TLS, {})", self.authority())
            }
            (Some(true), SslMode::VerifyCa) => {
                format!("encrypted, verified but for the host name ({why}, {})", self.authority())
            }
            (Some(true), _) => format!("encrypted, not verified ({why})"),
        };
        if (here, there) == (Some(true), Some(false)) {
            message.push_str("; the server itself sees no TLS, so a proxy or pooler ends it");
        }
        let is_safe = self.is_local || (here == Some(true) && self.mode.verifies());
        let (level, hint) =
            if is_safe { (Level::Good, None) } else { (Level::Warning, Some(PROTECT.to_owned())) };
        Finding { level, subject: "connection".to_owned(), message, hint }
    }

    fn why(&self) -> String {
        let place = self.is_local.then_some("loopback");
        let said = self.said.map(|mode| format!("sslmode={}", mode.name()));
        let parts: Vec<String> = said.into_iter().chain(place.map(ToOwned::to_owned)).collect();
        parts.join(", ")
    }

    fn authority(&self) -> String {
        match &self.root {
            Some(path) => format!("authority {}", path.display()),
            None => "authorities of the system".to_owned(),
        }
    }
}

/// Why a connection cannot be protected as its URL asks for.
#[derive(Debug)]
pub struct Unprotected {
    problem: String,
    hint: String,
}

impl Unprotected {
    /// The server speaks no TLS.
    #[must_use]
    pub fn no_tls() -> Self {
        Self {
            problem: "the server offers no TLS, and the connection is to be encrypted".to_owned(),
            hint: "turn TLS on in the server, or write sslmode=disable into the URL to send everything in the clear \
                 (a URL without sslmode asks for verify-full unless the host is loopback)"
                .to_owned(),
        }
    }

    /// The certificate is for another host; `weaker` is the strictest mode that takes it all the same.
    #[must_use]
    pub fn other_name(problem: impl Display, weaker: SslMode) -> Self {
        Self {
            problem: format!("the server's certificate is for another host ({problem})"),
            hint: format!(
                "name the host in the URL as the certificate does, or write sslmode={} to go without that check",
                weaker.name()
            ),
        }
    }

    /// The certificate is of nobody who is trusted, has run out, or is otherwise wrong.
    #[must_use]
    pub fn certificate(problem: impl Display) -> Self {
        Self {
            problem: format!("the server's certificate does not verify ({problem})"),
            hint: "name the authority that signed it with sslrootcert=PATH in the URL, or write sslmode=require to \
                 encrypt without verifying"
                .to_owned(),
        }
    }

    /// Both sides speak TLS, and do not come to terms.
    #[must_use]
    pub fn handshake(problem: impl Display) -> Self {
        Self {
            problem: format!("TLS could not be agreed on with the server ({problem})"),
            hint:
                "the server must speak TLS 1.2 or 1.3 and ask for no certificate of ours; its log says more"
                    .to_owned(),
        }
    }

    /// The error that callers see.
    #[must_use]
    pub fn into_error(self, location: String) -> Error {
        Error::Unusable { location, problem: self.problem, hint: self.hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(mode: Option<SslMode>, root: Option<&str>) -> RequestedEncryption {
        RequestedEncryption { mode, root: root.map(PathBuf::from) }
    }

    #[test]
    fn a_connection_is_verified_unless_the_url_says_otherwise_or_the_host_is_loopback() {
        use SslMode::{Disable, Prefer, Require, VerifyCa, VerifyFull};
        for (said, root, is_local, holds) in [
            (None, None, false, VerifyFull),
            (None, None, true, Prefer),
            (None, Some("ca.pem"), false, VerifyFull),
            (None, Some("ca.pem"), true, VerifyFull),
            (None, Some("system"), true, VerifyFull),
            (Some(Disable), None, false, Disable),
            (Some(Prefer), None, false, Prefer),
            (Some(Require), None, false, Require),
            (Some(Require), Some("ca.pem"), false, VerifyCa),
            (Some(VerifyCa), None, true, VerifyCa),
            (Some(VerifyFull), None, true, VerifyFull),
        ] {
            let found = asked(said, root).decide(is_local, Prefer);
            assert_eq!(found.mode, holds, "{said:?} {root:?} {is_local}");
        }
        assert_eq!(asked(None, Some("system")).decide(false, Prefer).root, None);
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for host in ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LocalHost", "::ffff:127.0.0.1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["0.0.0.0", "10.0.0.1", "::", "[fe80::1]", "localhost.example.com", "db", "127.0.0.1.nip.io", ""]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn escapes_are_resolved() {
        assert_eq!(decoded("postgres%3A%2F%2Fh%2fd%%zz"), "postgres://h/d%%zz");
    }

    #[test]
    fn an_unknown_mode_is_answered_with_those_there_are() {
        assert_eq!(SslMode::named("verify-ca"), Ok(SslMode::VerifyCa));
        for text in ["", "allow", "Require", "verify_full"] {
            let answer = SslMode::named(text).expect_err("unknown");
            assert!(answer.ends_with("none of disable, prefer, require, verify-ca, verify-full"), "{answer}");
        }
    }

    #[test]
    fn doctor_says_what_is_in_force() {
        use SslMode::{Disable, Prefer, Require, VerifyCa};
        for (said, root, is_local, (here, there), level, words) in [
            (
                None,
                None,
                false,
                (Some(true), Some(true)),
                Level::Good,
                "encrypted and verified (TLS, authorities of",
            ),
            (
                None,
                Some("/ca.pem"),
                false,
                (Some(true), None),
                Level::Good,
                "verified (TLS, authority /ca.pem)",
            ),
            (None, None, true, (Some(false), Some(false)), Level::Good, "not encrypted (loopback)"),
            (None, None, true, (Some(true), Some(true)), Level::Good, "encrypted, not verified (loopback)"),
            (
                Some(Disable),
                None,
                false,
                (Some(false), None),
                Level::Warning,
                "not encrypted (sslmode=disable)",
            ),
            // What a proxy does behind us is no protection of ours.
            (
                Some(Disable),
                None,
                false,
                (Some(false), Some(true)),
                Level::Warning,
                "not encrypted (sslmode=",
            ),
            (
                Some(Require),
                None,
                false,
                (Some(true), None),
                Level::Warning,
                "not verified (sslmode=require)",
            ),
            (Some(Prefer), None, false, (None, None), Level::Warning, "when the server can, not verified"),
            (
                Some(VerifyCa),
                None,
                false,
                (Some(true), None),
                Level::Good,
                "but for the host name (sslmode=verify-ca",
            ),
            (None, None, false, (Some(true), Some(false)), Level::Good, "the server itself sees no TLS"),
        ] {
            let finding = asked(said, root).decide(is_local, Prefer).finding(here, there);
            assert!(finding.message.contains(words), "{finding:?}");
            assert_eq!(
                (finding.level, finding.hint.is_some()),
                (level, level == Level::Warning),
                "{finding:?}"
            );
        }
    }
}

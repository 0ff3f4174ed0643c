//! Credentials inside addresses: the user part of URLs and connection strings, and secret query values.
//!
//! Scheme, host, port and path stay readable: they say what could not be reached.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::spans::SecretRanges;

/// Query parameters that carry a credential although their name alone would not say so in running text.
pub(super) const QUERY_KEYS: &str = "(?i-u:[?&;](?:amp;)?(?:sig|signature|key|hmac|auth|code_verifier|\
    awsaccesskeyid|googleaccessid|x-(?:amz|goog)-(?:signature|credential|security-token))=)";

static QUERY_KEY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(QUERY_KEYS).expect("the query pattern is a constant"));

/// A login on a command line, as `curl` takes it: `-u name:password`.
pub(super) const LOGIN_FLAGS: &str =
    r#"(?:^|[^0-9A-Za-z-]|\\[nrt]|%[0-9A-Fa-f]{2})(?:-u|--user)(?:[ =]|%20|\\t)+['"]?"#;

static LOGIN_FLAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(LOGIN_FLAGS).expect("the flag pattern is a constant"));

/// Marks `name:password` after a flag that announces it; two numbers are a user and a group.
pub(super) fn mark_logins(text: &str, spans: &mut SecretRanges) {
    for flag in LOGIN_FLAG.find_iter(text) {
        let end = address_end(text.as_bytes(), flag.end());
        if let Some((name, password)) = text[flag.end()..end].split_once(':')
            && !name.is_empty()
            && password.bytes().any(|b| !b.is_ascii_digit())
        {
            spans.mark(flag.end()..end);
        }
    }
}

/// Marks the values of secret query parameters.
pub(super) fn mark_query_values(text: &str, spans: &mut SecretRanges) {
    for name in QUERY_KEY.find_iter(text) {
        let length = text[name.end()..]
            .bytes()
            .take_while(|b| {
                !b.is_ascii_whitespace()
                    && !matches!(b, b'&' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b')')
            })
            .count();
        spans.mark(name.end()..name.end() + length);
    }
}

/// Marks `user:password@` wherever an address carries it.
pub(super) fn mark_userinfo(text: &str, spans: &mut SecretRanges) {
    let mut schemes = text.match_indices("://").map(|(at, sign)| at + sign.len()).peekable();
    while let Some(start) = schemes.next() {
        // An address inside the query of another one is an address of its own.
        let most = schemes.peek().map_or(text.len(), |next| next - "://".len());
        let end = address_end(&text.as_bytes()[..most], start);
        if let Some(user) = userinfo(text, start..end) {
            spans.mark(user);
        }
    }
    mark_schemeless(text, spans);
}

/// An address ends at whitespace or a quotation mark.
fn address_end(bytes: &[u8], start: usize) -> usize {
    let inside = |b: &&u8| !b.is_ascii_whitespace() && !matches!(**b, b'"' | b'\'' | b'<' | b'>' | b'`');
    start + bytes[start..].iter().take_while(inside).count()
}

/// The user part of the address after `://`. Passwords with unescaped `/`, `?`, `#` or `@` are the very
/// reason why some of these addresses end up in error messages, so the first slash is not trusted to end the
/// authority.
fn userinfo(text: &str, address: Range<usize>) -> Option<Range<usize>> {
    let start = address.start;
    let whole = &text[address.clone()];
    let authority = &whole[..whole.find(['/', '?', '#']).unwrap_or(whole.len())];
    let user = match authority.rfind('@') {
        Some(at) if authority[..at].contains(':') => {
            // A password may go on after its first `@`, if what follows is no host.
            let is_host = authority[at..].contains(['.', ':']) || authority.ends_with("@localhost");
            let path = &whole[..whole.find('?').unwrap_or(whole.len())];
            let later = path.rfind('@').filter(|later| !is_host && !path[..*later].ends_with('/'));
            &whole[..later.unwrap_or(at)]
        }
        Some(at) if authority[at + 1..].starts_with("sha256:") => return None,
        Some(at) => &whole[..at],
        None if has_port(authority) => return None,
        None => match whole.rfind('@') {
            Some(at) => &whole[..at],
            None if is_cut_off(text, &address) => whole.trim_end_matches(['.', ')', ']']),
            None => return None,
        },
    };
    // `git` is everybody's user name on forges, and no credential.
    (!user.is_empty() && user != "git").then_some(start..start + user.len())
}

/// Whether `user:pass` without a host was cut off inside the password by whoever wrote the message. Schemes
/// that have other things after a colon, such as the tag of an image, only count at the end of a line.
fn is_cut_off(text: &str, address: &Range<usize>) -> bool {
    const TAGGED: [&str; 6] = ["http", "https", "docker", "oci", "containerd", "s3"];
    let before = &text[..address.start - "://".len()];
    let rest = &text[address.end..];
    rest.is_empty() || rest.starts_with(['\n', '…']) || !TAGGED.iter().any(|scheme| before.ends_with(scheme))
}

/// Whether an authority without user part reads as `host` or `host:port`: no colon, an IPv6 literal, or
/// digits.
fn has_port(authority: &str) -> bool {
    if authority.starts_with('[') {
        return true;
    }
    let Some((_, port)) = authority.split_once(':') else { return true };
    let digits = port.bytes().take_while(u8::is_ascii_digit).count();
    let after = port.as_bytes().get(digits);
    let is_number = digits > 0 && !after.is_some_and(u8::is_ascii_alphanumeric);
    // A template such as `{port}` or nothing at all is no password either.
    is_number
        || port.is_empty()
        || port.starts_with(['{', '<', '$', ')', ',', '.', ':'])
        || port.eq_ignore_ascii_case("port")
}

/// `user:password@tcp(host)`, `user:password@host:port`, `oracle:thin:user/password@host`: addresses without
/// scheme.
fn mark_schemeless(text: &str, spans: &mut SecretRanges) {
    let bytes = text.as_bytes();
    let mut floor = 0;
    for (at, _) in text.match_indices('@') {
        let is_user = |b: &&u8| {
            !b.is_ascii_whitespace() && !matches!(**b, b'"' | b'\'' | b'<' | b'>' | b'`' | b'(' | b',' | b'=')
        };
        let start = at - bytes[floor..at].iter().rev().take_while(is_user).count();
        floor = at + 1;
        let user = &text[start..at];
        if let Some(driver) = user.find("oracle:thin:").filter(|_| user.contains('/')) {
            spans.mark(start + driver + "oracle:thin:".len()..at);
            continue;
        }
        let Some((name, password)) = user.split_once(':') else { continue };
        // What stands before the name is not part of it.
        let name =
            name.rsplit(|ch: char| !ch.is_ascii_alphanumeric() && !matches!(ch, '_' | '.' | '-')).next();
        let is_name = name.is_some_and(|name| name.contains(|ch: char| ch.is_ascii_alphabetic()));
        if is_name && !password.is_empty() && !password.starts_with('/') && is_host(&text[at + 1..]) {
            spans.mark(start..at);
        }
    }
}

/// Whether an address goes on like a server: `tcp(`, `unix(`, `host:port` or `host/database`. Image digests
/// (`app:1.2@sha256:...`) and package versions (`npm:react@18.2.0/index.js`) do not.
fn is_host(rest: &str) -> bool {
    if rest.starts_with("tcp(") || rest.starts_with("unix(") {
        return true;
    }
    let length =
        rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')).count();
    let (host, after) = rest.split_at(length);
    let is_digest = host.starts_with("sha") && host[3..].bytes().all(|b| b.is_ascii_digit());
    let is_numeric = host.starts_with(|ch: char| ch.is_ascii_digit());
    let goes_on = after.starts_with('/')
        || (after.starts_with(':') && after[1..].starts_with(|ch: char| ch.is_ascii_digit()));
    goes_on && length > 0 && !is_digest && (!is_numeric || host.parse::<std::net::Ipv4Addr>().is_ok())
}

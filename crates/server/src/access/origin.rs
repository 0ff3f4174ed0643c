//! By which name the server is called, and which page calls it.
//!
//! A browser sends whatever a page tells it to, also to 127.0.0.1. A page that makes its own name point here (DNS
//! rebinding) is known by the Host it asks for; a page that calls us by our own name is known by its Origin.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{Method, StatusCode, Uri, request::Parts};

use super::{AccessSettings, Peer};
use crate::error::ApiError;

/// Refuses a request that is sent to a name that is not ours, or by a page that is not ours.
pub(crate) fn check(parts: &Parts, settings: &AccessSettings) -> Result<(), ApiError> {
    if parts.method == Method::GET && parts.uri.path().starts_with("/health/") {
        // It tells nothing and changes nothing, and load balancers call it by all sorts of names.
        return Ok(());
    }
    check_host(parts, settings)?;
    let Some(asked_by) = foreign_page(parts, host(parts), &settings.allowed_origins) else { return Ok(()) };
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        "foreign_origin",
        format!("{asked_by} may not call this server"),
    )
    .hint("only pages of this server may; name others in [server] allowed_origins"))
}

/// Refuses a request that is sent to a name that is not ours.
pub(crate) fn check_host(parts: &Parts, settings: &AccessSettings) -> Result<(), ApiError> {
    let peer = parts.extensions.get::<Peer>();
    match (host(parts), peer) {
        // Only the program itself calls without a socket.
        (None, None) => Ok(()),
        (Some(host), peer) if is_ours(host, peer.map(|peer| peer.local), &settings.allowed_hosts) => Ok(()),
        _ => Err(wrong_host()),
    }
}

/// True for a person who follows a link, perhaps from a chat or a ticket: the browser shows the answer to that person
/// and to no page, and sends no cookie of ours along when the link is another site's.
pub(crate) fn is_visit(parts: &Parts) -> bool {
    let says = |name: &str, value: &str| parts.headers.get(name).is_some_and(|said| said == value);
    parts.method == Method::GET
        && says("sec-fetch-mode", "navigate")
        && says("sec-fetch-dest", "document")
        && !parts.headers.contains_key(ORIGIN)
}

fn wrong_host() -> ApiError {
    let message = "this server does not answer to the name in the Host header";
    ApiError::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message)
        .hint("ask for localhost or the address it listens on, or name the host in [server] allowed_hosts")
}

/// The one name that the request asks for; none when there is none, or several that contradict each other.
fn host(parts: &Parts) -> Option<&str> {
    let mut named = parts.headers.get_all(HOST).iter();
    let header = named.next().and_then(|value| value.to_str().ok());
    if named.next().is_some() {
        // Which of two names a proxy has looked at is anybody's guess.
        return Some("");
    }
    // A target in absolute form goes before the header (RFC 9112, 3.2.2).
    parts.uri.authority().map(axum::http::uri::Authority::as_str).or(header)
}

/// True for a loopback name or address, the address that was connected to, or a configured name.
fn is_ours(host: &str, local: Option<SocketAddr>, allowed: &[String]) -> bool {
    let name = without_port(host).trim_end_matches('.');
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let literal = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = literal.parse::<IpAddr>() {
        let address = address.to_canonical();
        let connected = local.is_some_and(|local| local.ip().to_canonical() == address);
        if address.is_loopback() || connected {
            return true;
        }
    }
    let matches = |one: &String| one.eq_ignore_ascii_case(name) || one.eq_ignore_ascii_case(host);
    !name.is_empty() && allowed.iter().any(matches)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => {
            // An IPv6 address without brackets has no port.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

/// The page that sent this, when it is not one of ours.
fn foreign_page(parts: &Parts, host: Option<&str>, allowed: &[String]) -> Option<String> {
    let mut origins = parts.headers.get_all(ORIGIN).iter().peekable();
    if origins.peek().is_some() {
        let own = |value: &axum::http::HeaderValue| {
            value.to_str().is_ok_and(|origin| {
                allowed.iter().any(|one| one.trim_end_matches('/').eq_ignore_ascii_case(origin))
                    || authority(origin).is_some_and(|theirs| host.is_some_and(|host| same(&theirs, host)))
            })
        };
        return origins.find(|value| !own(value)).map(|_| "a page of another origin".to_owned());
    }
    // Without an Origin only requests that cannot change anything are sent; their answers are not for others either.
    let site = parts.headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("cross-site"));
    match site {
        None | Some("same-origin" | "none") => None,
        Some(_) => Some("a page of another site".to_owned()),
    }
}

fn authority(origin: &str) -> Option<String> {
    let uri: Uri = origin.parse().ok()?;
    let plain =
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.path() == "/" && uri.query().is_none();
    uri.authority().filter(|_| plain).map(|authority| authority.as_str().to_owned())
}

/// True for the same name and port, where none means the usual one of either scheme.
fn same(origin: &str, host: &str) -> bool {
    let plain = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.strip_suffix(":443").or_else(|| text.strip_suffix(":80")).unwrap_or(&text).to_owned()
    };
    plain(origin) == plain(host)
}

#[cfg(test)]
mod tests;

//! Reads an address of the web strictly (E5): what two readers could read differently is refused.
//!
//! It must not resolve anything. A host is a name or exactly what the standard library reads as an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::refusal::{PayloadRefusal, RefusalCode};

/// Longest address that is taken.
const URL_MAX: usize = 8 * 1024;
/// Longest name of a host, and longest part of one, by the rules of the domain name system.
const HOST_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) encrypted: bool,
    pub(super) host: Host,
    pub(super) port: u16,
    /// Path and query, as they are sent.
    pub(super) path: String,
}

/// Who is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// In lower case.
    Name(String),
    Address(IpAddr),
}

impl Target {
    /// Reads a whole address.
    ///
    /// # Errors
    /// A sentence that says what is wrong; it repeats nothing of the address, which may hold a secret.
    pub(super) fn parse(url: &str) -> Result<Self, PayloadRefusal> {
        if url.len() > URL_MAX {
            let told = format!("`url` has {} bytes, the limit is {URL_MAX}", url.len());
            return Err(PayloadRefusal::new(RefusalCode::HttpUrlTooLong, told));
        }
        if let Some(odd) = url.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '\\' | '<' | '>' | '"'))
        {
            let told = match odd {
                odd if odd.is_ascii() => "`url` contains a character that is not allowed in a URL: encode it",
                _ => "`url` is not ASCII: write the host in its xn-- form, and encode the rest",
            };
            return Err(PayloadRefusal::new(RefusalCode::HttpUrlCharacter, told));
        }
        let scheme = |told: &str| PayloadRefusal::new(RefusalCode::HttpUrlScheme, told);
        let (word, rest) =
            url.split_once("://").ok_or_else(|| scheme("`url` is not a URL: write https://HOST/PATH"))?;
        let encrypted = match word.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(scheme("`url` must begin with https:// or http://")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        if authority.contains('@') {
            let told = "`url` has a user or a password in it: use a header";
            return Err(PayloadRefusal::new(RefusalCode::HttpUrlCredentials, told));
        }
        let (host, port) = split(authority);
        let port = port.map_or(Ok(if encrypted { 443 } else { 80 }), port_number)?;
        Ok(Self { encrypted, host: Host::parse(host)?, port, path: path(tail) })
    }

    /// Where a `Location` leads, read from here.
    pub(super) fn join(&self, location: &str) -> Result<Self, PayloadRefusal> {
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme()));
        }
        if location.contains("://") && !location.starts_with(['/', '?']) {
            return Self::parse(location);
        }
        let here = self.path.split(['?', '#']).next().unwrap_or("/");
        let path = match location.chars().next() {
            Some('/') => location.to_owned(),
            Some('?') => format!("{here}{location}"),
            _ => format!("{}/{location}", here.rsplit_once('/').map_or("", |(folder, _)| folder)),
        };
        Self::parse(&format!("{}://{}{path}", self.scheme(), self.authority()))
    }

    fn scheme(&self) -> &'static str {
        if self.encrypted { "https" } else { "http" }
    }

    /// Host and port, as the header `host` has them.
    pub(super) fn authority(&self) -> String {
        let usual = if self.encrypted { 443 } else { 80 };
        let host = self.host.shown();
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// True when both go to the same place by the same way, so that credentials may follow.
    pub(super) fn same_origin(&self, other: &Self) -> bool {
        (self.encrypted, &self.host, self.port) == (other.encrypted, &other.host, other.port)
    }
}

impl Host {
    fn parse(text: &str) -> Result<Self, PayloadRefusal> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
            return inner
                .map(|address| Self::Address(address.into()))
                .ok_or_else(|| host("`url` has no IPv6 address between its brackets"));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let name = text.to_ascii_lowercase();
        let labels: Vec<&str> = name.split('.').collect();
        let good = |label: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=LABEL_MAX).contains(&label.len()) && label.bytes().all(plain)
        };
        if name.is_empty() || name.len() > HOST_MAX || !labels.iter().all(good) {
            return Err(host("`url` has an invalid host name: use letters, digits and - between dots"));
        }
        // Some systems read such names as addresses, in octal, in hexadecimal, or with parts left out.
        if labels.last().is_some_and(|last| is_number(last)) {
            return Err(host("`url` has a host that looks like a number: write an address as four numbers"));
        }
        Ok(Self::Name(name))
    }

    /// As it stands in a URL.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Name(name) => name.clone(),
            Self::Address(IpAddr::V4(address)) => address.to_string(),
            Self::Address(IpAddr::V6(address)) => format!("[{address}]"),
        }
    }
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || label.bytes().all(|byte| byte.is_ascii_digit())
}

fn host(told: &str) -> PayloadRefusal {
    PayloadRefusal::new(RefusalCode::HttpUrlHost, told)
}

/// Host and port, apart.
fn split(authority: &str) -> (&str, Option<&str>) {
    // The colons of an address of version 6 stand in brackets.
    let end = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[end..].find(':') {
        None => (authority, None),
        Some(at) => (&authority[..end + at], Some(&authority[end + at + 1..])),
    }
}

fn port_number(text: &str) -> Result<u16, PayloadRefusal> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = if digits { text.parse::<u16>().ok() } else { None };
    port.filter(|port| *port > 0).ok_or_else(|| {
        PayloadRefusal::new(RefusalCode::HttpUrlPort, "`url` has a port that is not a number from 1 to 65535")
    })
}

/// What is sent of path, query and fragment: the first two.
fn path(tail: &str) -> String {
    let sent = tail.split('#').next().unwrap_or_default();
    if sent.starts_with('/') { sent.to_owned() } else { format!("/{sent}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_clear_is_read() {
        // E5
        for (url, authority, path) in [
            ("https://Example.COM", "example.com", "/"),
            ("HTTP://a.example:8080/x?y=%20#z", "a.example:8080", "/x?y=%20"),
            ("https://a.example?q", "a.example", "/?q"),
            ("https://a_b.example:443/", "a_b.example", "/"),
            ("http://127.0.0.1:81/", "127.0.0.1:81", "/"),
            ("http://[::FFFF:7f00:1]/", "[::ffff:127.0.0.1]", "/"),
            ("http://xn--bcher-kva.example/", "xn--bcher-kva.example", "/"),
            ("http://1.2.3.4.example/", "1.2.3.4.example", "/"),
        ] {
            let target = Target::parse(url).expect(url);
            assert_eq!((target.authority().as_str(), target.path.as_str()), (authority, path), "{url}");
        }
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        // E5
        for url in [
            "",
            "a",
            "//a/",
            "http:/a/",
            "http:///x",
            "http://",
            "ftp://a/",
            "file:///etc/passwd",
            "gopher://a/",
            "javascript://a",
            "http://u@a/",
            "http://u:p@a/",
            "http://127.0.0.1@a/",
            "http://a:0/",
            "http://a:/",
            "http://a:65536/",
            "http://a:8x/",
            "http://a:+80/",
            "http://a:80:80/",
            "http://a b/",
            "http://a\t/",
            "http://a\n/",
            "http://a\r\nx: y/",
            "http://a\\b/",
            "http://ä/",
            "http://①②⑦.⓪.⓪.①/",
            "http://a%2eb/",
            "http://%31/",
            "http://127.1/",
            "http://127.0.1/",
            "http://0177.0.0.1/",
            "http://0x7f.1/",
            "http://0/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://017700000001/",
            "http://127.0.0.01/",
            "http://a.1/",
            "http://127.0.0.1./",
            "http://a./",
            "http://.a/",
            "http://a..b/",
            "http://[::1/",
            "http://::1/",
            "http://[::1]x/",
            "http://[fe80::1%25eth0]/",
            "http://[fe80::1%eth0]/",
            "http://[127.0.0.1]/",
            "http://[]/",
            "http://1.2.3.0x7f/",
            "http://1.2.3.0X7F/",
            "http://1.2.3.256/",
            "http://1.2.3.4.5/",
            "http://a\0b/",
            "http://a\u{200b}b/",
            "http://a。b/",
        ] {
            assert!(Target::parse(url).is_err(), "{url}: {:?}", Target::parse(url));
        }
        assert!(Target::parse(&format!("http://{}.example/", "a".repeat(64))).is_err());
    }

    #[test]
    fn a_location_is_read_from_where_it_stands() {
        // E5
        let here = Target::parse("https://a.example/x/y?z").expect("a URL");
        for (location, authority, path) in [
            ("/n", "a.example", "/n"),
            ("n", "a.example", "/x/n"),
            ("?q", "a.example", "/x/y?q"),
            ("//b.example/n", "b.example", "/n"),
            ("http://c.example:81/", "c.example:81", "/"),
            ("/n?u=http://c/", "a.example", "/n?u=http://c/"),
        ] {
            let there = here.join(location).expect(location);
            assert_eq!((there.authority().as_str(), there.path.as_str()), (authority, path), "{location}");
        }
        for location in ["file:///etc/passwd", "http://u@b/", "//127.1/", "/a b", "ftp://b/"] {
            assert!(here.join(location).is_err(), "{location}");
        }
    }
}

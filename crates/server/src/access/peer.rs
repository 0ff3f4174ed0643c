//! Where a request comes from: the socket's other end, or what a proxy that is trusted says of it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::HeaderMap;

/// Both ends of a connection. Every request that came over a socket has it among its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The other end.
    pub remote: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
}

/// The header by which a proxy that is trusted says for whom it asks.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// Headers by which proxies say that they have been on the way; every one that begins with `x-forwarded-` is one too.
const FORWARDING: [&str; 8] = [
    "forwarded",
    "via",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "fastly-client-ip",
];

/// True when a proxy has been on the way, as far as it says so.
pub(super) fn is_forwarded(headers: &HeaderMap) -> bool {
    let mut names = headers.keys().map(axum::http::HeaderName::as_str);
    names.any(|name| name.starts_with("x-forwarded-") || FORWARDING.contains(&name))
}

/// The address of whoever asks.
///
/// `X-Forwarded-For` counts only when the other end is a trusted proxy, and then from the right: each trusted proxy
/// vouches for the address it has added and for nothing that stood there before.
pub(crate) fn client(headers: &HeaderMap, peer: Peer, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer.remote.ip().to_canonical();
    if !is_trusted(client) {
        return client;
    }
    let told = headers.get_all(FORWARDED_FOR).iter().rev().filter_map(|value| value.to_str().ok());
    for hop in told.flat_map(|list| list.rsplit(',')) {
        let Ok(address) = hop.trim().parse::<IpAddr>() else { break };
        client = address.to_canonical();
        if !is_trusted(client) {
            break;
        }
    }
    client
}

/// An address, or a network of them such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// True when the address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                u32::from(own) & mask == u32::from(other) & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                u128::from(own) & mask == u128::from(other) & mask
            }
            _ => false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// A text is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither an address nor a network: write 10.0.0.7 or 10.0.0.0/8")]
pub struct NetworkError(String);

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError(text.chars().take(60).collect());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(remote: &str, forwarded: &[&'static str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, axum::http::HeaderValue::from_static(value));
        }
        let peer = Peer {
            remote: SocketAddr::new(remote.parse().expect("an address"), 4_000),
            local: SocketAddr::from(([127, 0, 0, 1], 7_700)),
        };
        let trusted: Vec<Network> = trusted.iter().map(|text| text.parse().expect("a network")).collect();
        client(&headers, peer, &trusted).to_string()
    }

    #[test]
    fn what_is_forwarded_counts_only_from_those_who_are_trusted() {
        let proxies = ["10.0.0.0/8", "::1"];
        assert_eq!(asked("192.0.2.1", &["203.0.113.9"], &[]), "192.0.2.1");
        assert_eq!(asked("192.0.2.1", &["203.0.113.9"], &proxies), "192.0.2.1");
        assert_eq!(asked("10.1.2.3", &["203.0.113.9"], &proxies), "203.0.113.9");
        // What the client wrote itself stands on the left of what a proxy has added.
        assert_eq!(asked("10.1.2.3", &["127.0.0.1, 203.0.113.9"], &proxies), "203.0.113.9");
        assert_eq!(asked("10.1.2.3", &["127.0.0.1", "203.0.113.9, 10.9.9.9"], &proxies), "203.0.113.9");
        assert_eq!(asked("10.1.2.3", &["not an address"], &proxies), "10.1.2.3");
        assert_eq!(asked("::1", &["203.0.113.9"], &proxies), "203.0.113.9");
        assert_eq!(asked("::ffff:10.1.2.3", &["203.0.113.9"], &proxies), "203.0.113.9");
    }

    #[test]
    fn whatever_proxies_add_is_known() {
        for name in FORWARDING.into_iter().chain([FORWARDED_FOR, "x-forwarded-host", "x-forwarded-proto"]) {
            let mut headers = HeaderMap::new();
            headers.insert(name, axum::http::HeaderValue::from_static("1"));
            assert!(is_forwarded(&headers), "{name}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", axum::http::HeaderValue::from_static("1"));
        assert!(!is_forwarded(&headers));
    }

    #[test]
    fn networks_hold_what_they_say() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("2001:db8::/32", "2001:db8:9::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "192.0.2.7", false),
        ] {
            let network: Network = network.parse().expect("a network");
            assert_eq!(network.contains(address.parse().expect("an address")), inside, "{network} {address}");
        }
        for text in ["", "ten", "10.0.0.0/33", "10.0.0.0/x", "::/129", "10.0.0.0/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}

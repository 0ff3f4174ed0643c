//! Which addresses the kind `http` may connect to (E5). Pure: it looks at numbers and nothing else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressClass {
    /// Anybody's.
    Public,
    /// The machine's own or a private network's: opened by `allow_private` or by a list.
    Private,
    /// Where clouds hand out credentials: opened by a list only.
    Metadata,
    /// Where no web server is, or what hides another address: opened by a list only.
    Special,
}

/// A range of addresses: those whose first `bits` are those of `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressRange {
    start: IpAddr,
    bits: u8,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> AddressRange {
    AddressRange { start: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits }
}

const fn v6(start: [u16; 8], bits: u8) -> AddressRange {
    let [a, b, c, d, e, f, g, h] = start;
    AddressRange { start: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), bits }
}

/// Where clouds hand out credentials to whoever asks from inside. Link-local addresses as a whole are among them: each
/// cloud has picked others of them.
const METADATA: &[AddressRange] = &[
    v4(169, 254, 0, 0, 16),
    v4(100, 100, 100, 200, 32),
    v4(168, 63, 129, 16, 32),
    v4(192, 0, 0, 192, 32),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 254], 128),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
];

const PRIVATE: &[AddressRange] = &[
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    v4(172, 16, 0, 0, 12),
    v4(192, 168, 0, 0, 16),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
];

const SPECIAL: &[AddressRange] = &[
    v4(0, 0, 0, 0, 8),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
    // Teredo, ORCHID, benchmarks and the like; documentation; 6to4.
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

/// All public addresses of version 6 are in here, so that what is set aside later is closed already: the mapped and
/// translated ranges, multicast, and all that nobody was given.
const GLOBAL: AddressRange = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

impl AddressRange {
    /// Reads `10.1.0.0/16`, or an address alone.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (start, bits) = text.split_once('/').map_or((text, None), |(start, bits)| (start, Some(bits)));
        let start: IpAddr = start.parse().ok()?;
        let most = if start.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
        };
        (bits <= most).then_some(Self { start, bits })
    }

    /// True when the address is in it.
    pub(super) fn holds(&self, address: IpAddr) -> bool {
        match (self.start, address) {
            (IpAddr::V4(start), IpAddr::V4(it)) => {
                same(u32::from(start).into(), u32::from(it).into(), self.bits, 32)
            }
            (IpAddr::V6(start), IpAddr::V6(it)) => same(start.into(), it.into(), self.bits, 128),
            _ => false,
        }
    }
}

fn same(a: u128, b: u128, bits: u8, width: u8) -> bool {
    let rest = u32::from(width - bits);
    a.checked_shr(rest).unwrap_or(0) == b.checked_shr(rest).unwrap_or(0)
}

/// The address itself: one of version 4 in the clothes of version 6 is one of version 4.
pub(super) fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// What an address is for.
pub(super) fn class(address: IpAddr) -> AddressClass {
    let address = plain(address);
    let in_any = |networks: &[AddressRange]| networks.iter().any(|network| network.holds(address));
    if in_any(METADATA) {
        AddressClass::Metadata
    } else if in_any(PRIVATE) {
        AddressClass::Private
    } else if in_any(SPECIAL) || (address.is_ipv6() && !GLOBAL.holds(address)) {
        AddressClass::Special
    } else {
        AddressClass::Public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: AddressClass, addresses: &[&str]) {
        for address in addresses {
            assert_eq!(class(address.parse().expect(address)), expected, "{address}");
        }
    }

    #[test]
    fn every_range_is_what_it_is_for() {
        // E5
        check(
            AddressClass::Public,
            &["8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.255.255"],
        );
        check(
            AddressClass::Public,
            &["172.32.0.0", "192.167.1.1", "198.17.1.1", "198.20.0.1", "223.255.255.255"],
        );
        check(
            AddressClass::Public,
            &["2606:4700::1111", "2001:4860::8888", "2a00::1", "::ffff:8.8.8.8", "3ffe::1"],
        );
        check(
            AddressClass::Private,
            &["10.0.0.1", "127.0.0.1", "127.255.255.255", "172.16.0.1", "172.31.255.255"],
        );
        check(
            AddressClass::Private,
            &["192.168.0.1", "100.64.0.1", "::1", "fc00::1", "fd12::1", "::ffff:127.0.0.1"],
        );
        check(
            AddressClass::Metadata,
            &["169.254.169.254", "169.254.170.2", "fd00:ec2::254", "fe80::1", "febf::1"],
        );
        check(
            AddressClass::Metadata,
            &["::ffff:169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"],
        );
        check(
            AddressClass::Special,
            &["0.0.0.0", "0.1.2.3", "192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1"],
        );
        check(
            AddressClass::Special,
            &["198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1"],
        );
        check(
            AddressClass::Special,
            &["240.0.0.1", "255.255.255.255", "::", "::127.0.0.1", "::ffff:0:7f00:1"],
        );
        check(
            AddressClass::Special,
            &["64:ff9b::7f00:1", "64:ff9b:1::a00:1", "100::1", "2001::1", "2001:1ff::1"],
        );
        check(
            AddressClass::Special,
            &["2001:db8::1", "2002:7f00:1::", "2002:808:808::", "3fff::1", "fec0::1"],
        );
        check(AddressClass::Special, &["ff02::1", "4000::1", "5f00::1", "1::1"]);
    }

    #[test]
    fn networks_are_read_strictly() {
        // E5
        let holds = |network: &str, address: &str| {
            AddressRange::parse(network).expect(network).holds(address.parse().expect(address))
        };
        assert!(holds("10.1.0.0/16", "10.1.255.255") && !holds("10.1.0.0/16", "10.2.0.0"));
        assert!(holds("0.0.0.0/0", "8.8.8.8") && !holds("0.0.0.0/0", "::1") && holds("::/0", "::1"));
        assert!(holds("127.0.0.1", "127.0.0.1") && !holds("127.0.0.1", "127.0.0.2"));
        for wrong in
            ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::/129", "10.0.0.0/+8", "a/8", "010.0.0.0/8"]
        {
            assert_eq!(AddressRange::parse(wrong), None, "{wrong}");
        }
    }
}

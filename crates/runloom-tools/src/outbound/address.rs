//! Classification of IP addresses for the outbound policy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressClass {
    /// The public internet.
    Public,
    /// Loopback or a private network: allowed only by configuration.
    Private,
    /// Link-local addresses and others that serve cloud metadata, multicast, documentation and reserved ranges. The
    /// permission for private networks does not include them.
    Reserved,
}

/// The classes that a client may connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowedAddresses {
    /// Public addresses only.
    Public,
    /// Public addresses and private networks.
    PublicAndPrivate,
    /// Every address, for hosts that the operator named.
    All,
}

impl AllowedAddresses {
    pub(super) fn contains(self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::PublicAndPrivate => classify(address) != AddressClass::Reserved,
            Self::Public => classify(address) == AddressClass::Public,
        }
    }
}

/// IPv4 ranges that are not public: network, prefix length, class. The first match decides.
const V4: &[(Ipv4Addr, u32, AddressClass)] = &[
    // Cloud credentials outside the link-local range: Alibaba, in the shared address space, and Azure, in a public
    // range.
    (
        Ipv4Addr::new(100, 100, 100, 200),
        32,
        AddressClass::Reserved,
    ),
    (Ipv4Addr::new(168, 63, 129, 16), 32, AddressClass::Reserved),
    (Ipv4Addr::new(0, 0, 0, 0), 8, AddressClass::Reserved),
    (Ipv4Addr::new(10, 0, 0, 0), 8, AddressClass::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, AddressClass::Private),
    (Ipv4Addr::new(127, 0, 0, 0), 8, AddressClass::Private),
    (Ipv4Addr::new(169, 254, 0, 0), 16, AddressClass::Reserved),
    (Ipv4Addr::new(172, 16, 0, 0), 12, AddressClass::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, AddressClass::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, AddressClass::Reserved),
    (Ipv4Addr::new(192, 88, 99, 0), 24, AddressClass::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, AddressClass::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, AddressClass::Reserved),
    (Ipv4Addr::new(198, 51, 100, 0), 24, AddressClass::Reserved),
    (Ipv4Addr::new(203, 0, 113, 0), 24, AddressClass::Reserved),
    (Ipv4Addr::new(224, 0, 0, 0), 3, AddressClass::Reserved),
];

/// IPv6 ranges that are not public. IPv4-mapped addresses are classified as IPv4.
const V6: &[(Ipv6Addr, u32, AddressClass)] = &[
    // Cloud metadata and credentials in the range of private networks: Scaleway, AWS, Google.
    (
        Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
        128,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0),
        112,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
        128,
        AddressClass::Reserved,
    ),
    (Ipv6Addr::LOCALHOST, 128, AddressClass::Private),
    (Ipv6Addr::UNSPECIFIED, 96, AddressClass::Reserved),
    (
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
        96,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0),
        48,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0),
        64,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0),
        23,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),
        32,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0),
        16,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0),
        20,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0),
        7,
        AddressClass::Private,
    ),
    (
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),
        10,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0),
        10,
        AddressClass::Reserved,
    ),
    (
        Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0),
        8,
        AddressClass::Reserved,
    ),
];

/// Classifies an address. `::ffff:a.b.c.d` is the IPv4 address itself.
fn classify(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => classify_v4(address),
            None => classify_v6(address),
        },
    }
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    let bits = address.to_bits();
    V4.iter()
        .find(|(network, length, _)| (bits ^ network.to_bits()) >> (32 - length) == 0)
        .map_or(AddressClass::Public, |(_, _, class)| *class)
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    let bits = address.to_bits();
    let listed = V6
        .iter()
        .find(|(network, length, _)| (bits ^ network.to_bits()) >> (128 - length) == 0);
    match listed {
        Some((_, _, class)) => *class,
        // 2000::/3 is the public internet. Other ranges (translated IPv4 addresses, segment routing) have a meaning
        // only inside some network.
        None if bits >> 125 == 0b001 => AddressClass::Public,
        None => AddressClass::Reserved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_the_boundaries_of_every_range() {
        let table = [
            ("0.0.0.0", AddressClass::Reserved),
            ("0.255.255.255", AddressClass::Reserved),
            ("1.0.0.0", AddressClass::Public),
            ("10.255.255.255", AddressClass::Private),
            ("11.0.0.0", AddressClass::Public),
            ("100.63.255.255", AddressClass::Public),
            ("100.64.0.0", AddressClass::Private),
            ("100.100.100.199", AddressClass::Private),
            ("100.100.100.200", AddressClass::Reserved),
            ("100.100.100.201", AddressClass::Private),
            ("100.127.255.255", AddressClass::Private),
            ("100.128.0.0", AddressClass::Public),
            ("127.255.255.254", AddressClass::Private),
            ("168.63.129.15", AddressClass::Public),
            ("168.63.129.16", AddressClass::Reserved),
            ("168.63.129.17", AddressClass::Public),
            ("169.254.169.254", AddressClass::Reserved),
            ("172.15.255.255", AddressClass::Public),
            ("172.16.0.1", AddressClass::Private),
            ("172.31.255.255", AddressClass::Private),
            ("172.32.0.0", AddressClass::Public),
            ("192.0.0.192", AddressClass::Reserved),
            ("192.168.1.1", AddressClass::Private),
            ("198.17.255.255", AddressClass::Public),
            ("198.19.255.255", AddressClass::Reserved),
            ("223.255.255.255", AddressClass::Public),
            ("224.0.0.1", AddressClass::Reserved),
            ("255.255.255.255", AddressClass::Reserved),
            ("::", AddressClass::Reserved),
            ("::1", AddressClass::Private),
            ("::127.0.0.1", AddressClass::Reserved),
            ("::ffff:127.0.0.1", AddressClass::Private),
            ("::ffff:169.254.169.254", AddressClass::Reserved),
            ("::ffff:168.63.129.16", AddressClass::Reserved),
            ("::ffff:100.100.100.200", AddressClass::Reserved),
            ("::ffff:8.8.8.8", AddressClass::Public),
            ("::ffff:0:7f00:1", AddressClass::Reserved),
            ("1fff:ffff::1", AddressClass::Reserved),
            ("2000::1", AddressClass::Public),
            ("3ffe:ffff::1", AddressClass::Public),
            ("3fff::1", AddressClass::Reserved),
            ("3fff:1000::1", AddressClass::Public),
            ("4000::1", AddressClass::Reserved),
            ("5f00::1", AddressClass::Reserved),
            ("64:ff9b::7f00:1", AddressClass::Reserved),
            ("2002:7f00:1::", AddressClass::Reserved),
            ("2001:4860:4860::8888", AddressClass::Public),
            ("fc00::1", AddressClass::Private),
            ("fd00:42::41", AddressClass::Private),
            ("fd00:42::42", AddressClass::Reserved),
            ("fd00:ec2::23", AddressClass::Reserved),
            ("fd00:ec2::254", AddressClass::Reserved),
            ("fd00:ec2::1:0", AddressClass::Private),
            ("fd20:ce::253", AddressClass::Private),
            ("fd20:ce::254", AddressClass::Reserved),
            ("fdff::1", AddressClass::Private),
            ("fe80::1", AddressClass::Reserved),
            ("ff02::1", AddressClass::Reserved),
        ];
        for (address, expected) in table {
            assert_eq!(classify(address.parse().unwrap()), expected, "{address}");
        }
    }
}

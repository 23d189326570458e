//! Which addresses the server may be made to connect to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The open internet.
    Public,
    /// This machine or a private network: open only to operators who say so.
    Private,
    /// Link-local addresses and others where cloud metadata lives, multicast, documentation and reserved ranges. Never a tool's
    /// home, so that a blanket permission for private networks does not open them.
    Reserved,
}

/// IPv4 ranges that are not public: network, prefix length, reach. The first that holds an address decides.
const V4: &[(Ipv4Addr, u32, Reach)] = &[
    // Where clouds hand out credentials outside the link-local range: Alibaba, in the carriers' private range, and Azure, in a
    // public one.
    (Ipv4Addr::new(100, 100, 100, 200), 32, Reach::Reserved),
    (Ipv4Addr::new(168, 63, 129, 16), 32, Reach::Reserved),
    (Ipv4Addr::new(0, 0, 0, 0), 8, Reach::Reserved),
    (Ipv4Addr::new(10, 0, 0, 0), 8, Reach::Private),
    (Ipv4Addr::new(100, 64, 0, 0), 10, Reach::Private),
    (Ipv4Addr::new(127, 0, 0, 0), 8, Reach::Private),
    (Ipv4Addr::new(169, 254, 0, 0), 16, Reach::Reserved),
    (Ipv4Addr::new(172, 16, 0, 0), 12, Reach::Private),
    (Ipv4Addr::new(192, 0, 0, 0), 24, Reach::Reserved),
    (Ipv4Addr::new(192, 0, 2, 0), 24, Reach::Reserved),
    (Ipv4Addr::new(192, 88, 99, 0), 24, Reach::Reserved),
    (Ipv4Addr::new(192, 168, 0, 0), 16, Reach::Private),
    (Ipv4Addr::new(198, 18, 0, 0), 15, Reach::Reserved),
    (Ipv4Addr::new(198, 51, 100, 0), 24, Reach::Reserved),
    (Ipv4Addr::new(203, 0, 113, 0), 24, Reach::Reserved),
    (Ipv4Addr::new(224, 0, 0, 0), 3, Reach::Reserved),
];

/// IPv6 ranges that are not public. Forms that carry an IPv4 address are judged by [`embedded`] first.
const V6: &[(Ipv6Addr, u32, Reach)] = &[
    // Services of clouds for their machines, credentials among them, in the range of private networks: Scaleway, AWS (metadata
    // and the credentials of pods are two of several), Google.
    (
        Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),
        128,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0),
        112,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
        128,
        Reach::Reserved,
    ),
    (Ipv6Addr::LOCALHOST, 128, Reach::Private),
    (Ipv6Addr::UNSPECIFIED, 96, Reach::Reserved),
    (
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0),
        96,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0),
        48,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 0),
        64,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0),
        23,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0),
        32,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0),
        16,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0),
        20,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0),
        7,
        Reach::Private,
    ),
    (
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),
        10,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0),
        10,
        Reach::Reserved,
    ),
    (
        Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0),
        8,
        Reach::Reserved,
    ),
];

/// Where the address leads.
pub(super) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => reach_v4(address),
            None => reach_v6(address),
        },
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let bits = address.to_bits();
    V4.iter()
        .find(|(network, length, _)| (bits ^ network.to_bits()) >> (32 - length) == 0)
        .map_or(Reach::Public, |(_, _, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let bits = address.to_bits();
    let listed = V6
        .iter()
        .find(|(network, length, _)| (bits ^ network.to_bits()) >> (128 - length) == 0);
    match listed {
        Some((_, _, reach)) => *reach,
        // 2000::/3 is all there is of the internet. Whatever else there is (translated IPv4 addresses, segments of a
        // network's routing) has its meaning inside some network.
        None if bits >> 125 == 0b001 => Reach::Public,
        None => Reach::Reserved,
    }
}

/// `::ffff:a.b.c.d` is the IPv4 address itself, whatever the socket is called.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    address.to_ipv4_mapped()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_is_known_from_its_first_to_its_last_address() {
        let table = [
            ("0.0.0.0", Reach::Reserved),
            ("0.255.255.255", Reach::Reserved),
            ("1.0.0.0", Reach::Public),
            ("10.255.255.255", Reach::Private),
            ("11.0.0.0", Reach::Public),
            ("100.63.255.255", Reach::Public),
            ("100.64.0.0", Reach::Private),
            ("100.100.100.199", Reach::Private),
            ("100.100.100.200", Reach::Reserved),
            ("100.100.100.201", Reach::Private),
            ("100.127.255.255", Reach::Private),
            ("100.128.0.0", Reach::Public),
            ("127.255.255.254", Reach::Private),
            ("168.63.129.15", Reach::Public),
            ("168.63.129.16", Reach::Reserved),
            ("168.63.129.17", Reach::Public),
            ("169.254.169.254", Reach::Reserved),
            ("172.15.255.255", Reach::Public),
            ("172.16.0.1", Reach::Private),
            ("172.31.255.255", Reach::Private),
            ("172.32.0.0", Reach::Public),
            ("192.0.0.192", Reach::Reserved),
            ("192.168.1.1", Reach::Private),
            ("198.17.255.255", Reach::Public),
            ("198.19.255.255", Reach::Reserved),
            ("223.255.255.255", Reach::Public),
            ("224.0.0.1", Reach::Reserved),
            ("255.255.255.255", Reach::Reserved),
            ("::", Reach::Reserved),
            ("::1", Reach::Private),
            ("::127.0.0.1", Reach::Reserved),
            ("::ffff:127.0.0.1", Reach::Private),
            ("::ffff:169.254.169.254", Reach::Reserved),
            ("::ffff:168.63.129.16", Reach::Reserved),
            ("::ffff:100.100.100.200", Reach::Reserved),
            ("::ffff:8.8.8.8", Reach::Public),
            ("::ffff:0:7f00:1", Reach::Reserved),
            ("1fff:ffff::1", Reach::Reserved),
            ("2000::1", Reach::Public),
            ("3ffe:ffff::1", Reach::Public),
            ("3fff::1", Reach::Reserved),
            ("3fff:1000::1", Reach::Public),
            ("4000::1", Reach::Reserved),
            ("5f00::1", Reach::Reserved),
            ("64:ff9b::7f00:1", Reach::Reserved),
            ("2002:7f00:1::", Reach::Reserved),
            ("2001:4860:4860::8888", Reach::Public),
            ("fc00::1", Reach::Private),
            ("fd00:42::41", Reach::Private),
            ("fd00:42::42", Reach::Reserved),
            ("fd00:ec2::23", Reach::Reserved),
            ("fd00:ec2::254", Reach::Reserved),
            ("fd00:ec2::1:0", Reach::Private),
            ("fd20:ce::253", Reach::Private),
            ("fd20:ce::254", Reach::Reserved),
            ("fdff::1", Reach::Private),
            ("fe80::1", Reach::Reserved),
            ("ff02::1", Reach::Reserved),
        ];
        for (address, expected) in table {
            assert_eq!(reach(address.parse().unwrap()), expected, "{address}");
        }
    }
}

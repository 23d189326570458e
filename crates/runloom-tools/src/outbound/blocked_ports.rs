//! Ports of other protocols, whose servers could interpret an HTTP request as commands.

use std::ops::RangeInclusive;

/// Mail, shells, name services, file shares, printing, and databases and caches with text protocols.
const BLOCKED: &[RangeInclusive<u16>] = &[
    0..=25,
    37..=79,
    87..=87,
    95..=143,
    161..=162,
    179..=179,
    389..=389,
    427..=427,
    465..=465,
    512..=515,
    526..=556,
    563..=563,
    587..=587,
    601..=601,
    636..=636,
    853..=853,
    873..=873,
    989..=995,
    1433..=1434,
    1521..=1521,
    1719..=1723,
    2049..=2049,
    3306..=3306,
    3389..=3389,
    4190..=4190,
    5060..=5061,
    5432..=5432,
    5672..=5672,
    6000..=6000,
    6379..=6379,
    6566..=6566,
    6665..=6669,
    6697..=6697,
    11211..=11211,
    27017..=27017,
];

/// Whether the port belongs to another protocol.
pub(super) fn is_blocked(port: u16) -> bool {
    BLOCKED.iter().any(|range| range.contains(&port))
}

#[cfg(test)]
mod tests {
    use super::is_blocked;

    #[test]
    fn blocks_ports_of_other_protocols() {
        for port in [80, 81, 443, 3000, 8000, 8080, 8443, 9000] {
            assert!(!is_blocked(port), "{port}");
        }
        for port in [0, 22, 25, 53, 587, 5432, 6379, 11211] {
            assert!(is_blocked(port), "{port}");
        }
    }
}

//! Ports where HTTP never lives: a request there would be read as another protocol's commands.

use std::ops::RangeInclusive;

/// Mail, shells, name services, file shares, remote printing, databases and caches that take lines of text.
const FOREIGN: &[RangeInclusive<u16>] = &[
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
pub(super) fn is_foreign(port: u16) -> bool {
    FOREIGN.iter().any(|range| range.contains(&port))
}

#[cfg(test)]
mod tests {
    use super::is_foreign;

    #[test]
    fn web_ports_are_open_and_mail_is_not() {
        for port in [80, 81, 443, 3000, 8000, 8080, 8443, 9000] {
            assert!(!is_foreign(port), "{port}");
        }
        for port in [0, 22, 25, 53, 587, 5432, 6379, 11211] {
            assert!(is_foreign(port), "{port}");
        }
    }
}

//! Maximum connections of one client address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts connections per address. IPv6 clients own whole /64 networks, so those count as one address.
pub(crate) struct AddressLimit {
    max: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of an address, counted until it is dropped.
pub(crate) struct AddressPermit {
    limit: Arc<AddressLimit>,
    network: IpAddr,
}

impl AddressLimit {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            open: Mutex::default(),
        }
    }

    /// A permit for one more connection; `None` when the address has its maximum.
    pub(crate) fn take(self: &Arc<Self>, address: IpAddr) -> Option<AddressPermit> {
        let network = network(address);
        let mut open = self.open();
        let count = open.entry(network).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(AddressPermit {
            limit: Arc::clone(self),
            network,
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut open = self.limit.open();
        if let Some(count) = open.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.network);
            }
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(bits).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_address_on_its_own() {
        let limit = Arc::new(AddressLimit::new(1));
        let first = limit.take("192.0.2.1".parse().unwrap());
        assert!(first.is_some());
        assert!(limit.take("::ffff:192.0.2.1".parse().unwrap()).is_none());
        assert!(limit.take("192.0.2.2".parse().unwrap()).is_some());
        drop(first);
        assert!(limit.take("192.0.2.1".parse().unwrap()).is_some());
        assert!(limit.open().is_empty());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let limit = Arc::new(AddressLimit::new(1));
        let _first = limit.take("2001:db8::1".parse().unwrap()).unwrap();
        assert!(limit.take("2001:db8::2".parse().unwrap()).is_none());
        assert!(limit.take("2001:db8:0:1::1".parse().unwrap()).is_some());
    }
}

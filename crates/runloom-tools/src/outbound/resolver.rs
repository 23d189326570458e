//! DNS resolution. The policy is applied to the addresses that are connected to, so that a name that changes between a
//! check and the connection (DNS rebinding) cannot bypass it.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::AllowedAddresses;
use super::error::{OutboundError, Sent};

/// The result of a [`DnsLookup`].
pub type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolves host names.
pub trait DnsLookup: Send + Sync + 'static {
    /// All addresses of the name.
    fn lookup(&self, name: &str) -> LookupFuture;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemLookup;

impl DnsLookup for SystemLookup {
    fn lookup(&self, name: &str) -> LookupFuture {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Resolver of the HTTP client; returns only addresses that the policy allows.
pub(super) struct GuardedResolver {
    pub(super) lookup: Arc<dyn DnsLookup>,
    pub(super) allowed: AllowedAddresses,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let found = self.lookup.lookup(&name);
        let allowed = self.allowed;
        Box::pin(async move {
            let addresses = found.await.map_err(|error| OutboundError::Network {
                message: format!("cannot resolve the host name {name}: {error}"),
                sent: Sent::No,
            })?;
            let kept: Vec<SocketAddr> = addresses
                .iter()
                .filter(|address| allowed.contains(**address))
                .map(|address| SocketAddr::new(*address, 0))
                .collect();
            if kept.is_empty() {
                return Err(no_usable_address(&name, &addresses).into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

fn no_usable_address(name: &str, addresses: &[IpAddr]) -> OutboundError {
    if addresses.is_empty() {
        return OutboundError::Network {
            message: format!("the host name {name} has no address"),
            sent: Sent::No,
        };
    }
    OutboundError::blocked(format!(
        "{name} resolves to a private or reserved address; the operator can allow it with outbound.allow_hosts"
    ))
}

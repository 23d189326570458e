//! Names to addresses, with the policy applied to the very addresses that are connected to: a name that changes its mind
//! between a check and the connection gains nothing.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{Reach, reach};
use super::error::OutboundError;

/// The answer of a [`Lookup`].
pub type Found = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Asks for the addresses of a name.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of the name.
    fn lookup(&self, name: &str) -> Found;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> Found {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Gives the HTTP client only addresses that the policy allows.
pub(super) struct GuardedResolver {
    pub(super) lookup: Arc<dyn Lookup>,
    /// The furthest inward that is allowed; `None` allows everything.
    pub(super) allowed: Option<Inward>,
}

/// How far inward connections may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inward {
    /// Public addresses only.
    Public,
    /// Private networks too.
    Private,
}

impl Inward {
    pub(super) fn allows(self, address: IpAddr) -> bool {
        match reach(address) {
            Reach::Public => true,
            Reach::Private => self == Self::Private,
            Reach::Reserved => false,
        }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let found = self.lookup.lookup(&name);
        let allowed = self.allowed;
        Box::pin(async move {
            let addresses = found.await.map_err(|error| OutboundError::Network {
                message: format!("cannot resolve the host name {name}: {error}"),
                unsent: true,
            })?;
            let kept: Vec<SocketAddr> = addresses
                .iter()
                .filter(|address| allowed.is_none_or(|allowed| allowed.allows(**address)))
                .map(|address| SocketAddr::new(*address, 0))
                .collect();
            if kept.is_empty() {
                return Err(nothing_left(&name, &addresses).into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

fn nothing_left(name: &str, addresses: &[IpAddr]) -> OutboundError {
    if addresses.is_empty() {
        return OutboundError::Network {
            message: format!("the host name {name} has no address"),
            unsent: true,
        };
    }
    OutboundError::blocked(format!(
        "{name} resolves to a private or reserved address; the operator can allow it with outbound.allow_hosts"
    ))
}

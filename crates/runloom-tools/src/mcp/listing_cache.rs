//! Cached tool listings, shared by the sessions with one server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::listing::ToolListing;

/// Maximum bytes of cached listings of all servers; beyond them listings are not cached.
const MAX_CACHED_BYTES: usize = 64 * 1024 * 1024;

/// One server of one workspace, shared by all its sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ListingKey {
    pub(super) workspace: Arc<str>,
    pub(super) fingerprint: String,
}

/// Listings of servers, each kept for a limited time.
pub(super) struct ListingCache {
    ttl: Duration,
    listings: Mutex<HashMap<ListingKey, CachedListing>>,
}

struct CachedListing {
    since: Instant,
    listing: Arc<ToolListing>,
}

impl ListingCache {
    pub(super) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            listings: Mutex::default(),
        }
    }

    /// The listing of a server, unless it is too old.
    pub(super) fn get(&self, key: &ListingKey) -> Option<Arc<ToolListing>> {
        let listings = self.listings.lock();
        let cached = listings.get(key)?;
        (cached.since.elapsed() < self.ttl).then(|| Arc::clone(&cached.listing))
    }

    /// Keeps a listing if there is room for it.
    pub(super) fn put(&self, key: &ListingKey, listing: &Arc<ToolListing>) {
        let mut listings = self.listings.lock();
        listings.remove(key);
        let bytes: usize = listings.values().map(|cached| cached.listing.bytes).sum();
        if bytes + listing.bytes <= MAX_CACHED_BYTES {
            let cached = CachedListing {
                since: Instant::now(),
                listing: Arc::clone(listing),
            };
            listings.insert(key.clone(), cached);
        }
    }

    /// Removes the listings that are too old.
    pub(super) fn sweep(&self) {
        let mut listings = self.listings.lock();
        listings.retain(|_, cached| cached.since.elapsed() < self.ttl);
    }
}

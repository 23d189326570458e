//! Connections and listings, shared by the runs of a workspace that use the same server with the same headers.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::HeaderMap;
use rmcp::model::Tool;
use runloom_core::tasks::Tasks;
use tokio::time::Instant;

use super::link::{Fault, Link};
use crate::host::ToolLimits;
use crate::names;
use crate::outbound::{Outbound, spec_headers};

/// How often idle connections are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// One server as one workspace sees it. Sessions are never shared between workspaces, whatever their headers say.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    workspace: Arc<str>,
    url: String,
    headers: String,
}

/// What is known about one server.
pub(super) struct Slot {
    url: String,
    headers: HeaderMap,
    /// Held while connecting, so that many runs make one connection.
    link: tokio::sync::Mutex<Option<Arc<Link>>>,
    listing: Mutex<Option<(Instant, Arc<Vec<Tool>>)>>,
    used: Mutex<Instant>,
}

/// All servers.
#[derive(Clone)]
pub(super) struct Pool {
    outbound: Outbound,
    limits: ToolLimits,
    slots: Arc<Mutex<HashMap<Key, Arc<Slot>>>>,
}

impl Pool {
    /// An empty pool; a task closes what is idle until the process stops.
    pub(super) fn new(outbound: Outbound, tasks: &Tasks, limits: ToolLimits) -> Self {
        let slots: Arc<Mutex<HashMap<Key, Arc<Slot>>>> = Arc::default();
        let (swept, stop, idle) = (
            Arc::clone(&slots),
            tasks.stop.clone(),
            limits.connection_idle,
        );
        tasks.spawn("mcp idle connections", async move {
            while stop
                .run_until_cancelled(tokio::time::sleep(SWEEP_EVERY))
                .await
                .is_some()
            {
                sweep(&mut lock(&swept), idle);
            }
            lock(&swept).clear();
        });
        Self {
            outbound,
            limits,
            slots,
        }
    }

    /// The slot of a server; made when it is new. A slot that somebody holds is not closed.
    pub(super) fn slot(
        &self,
        workspace: &Arc<str>,
        url: &str,
        headers: &BTreeMap<String, String>,
    ) -> Result<Arc<Slot>, Fault> {
        let refused = |error: crate::outbound::OutboundError| Fault {
            message: error.to_string(),
            broken: false,
        };
        let checked = self.outbound.check(url).map_err(refused)?;
        let parsed = spec_headers(headers).map_err(refused)?;
        let key = Key {
            workspace: Arc::clone(workspace),
            url: checked.to_string(),
            headers: fingerprint(headers),
        };
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(&key) {
            *lock(&slot.used) = Instant::now();
            return Ok(Arc::clone(slot));
        }
        if slots.len() >= self.limits.max_connections {
            sweep(&mut slots, Duration::ZERO);
        }
        if slots.len() >= self.limits.max_connections {
            return Err(Fault {
                message: "this server is connected to too many MCP servers at the moment"
                    .to_owned(),
                broken: false,
            });
        }
        let slot = Arc::new(Slot {
            url: key.url.clone(),
            headers: parsed,
            link: tokio::sync::Mutex::default(),
            listing: Mutex::default(),
            used: Mutex::new(Instant::now()),
        });
        slots.insert(key, Arc::clone(&slot));
        Ok(slot)
    }

    /// A live connection: the one there is, or a new one when there is none or it died.
    pub(super) async fn link(&self, slot: &Slot) -> Result<Arc<Link>, Fault> {
        let mut held = slot.link.lock().await;
        if let Some(link) = held.as_ref().filter(|link| link.is_alive()) {
            return Ok(Arc::clone(link));
        }
        // The dead one goes first, so that a failure to connect does not leave it in place.
        held.take();
        let link = Link::open(&self.outbound, &slot.url, &slot.headers, &self.limits).await?;
        let link = Arc::new(link);
        *held = Some(Arc::clone(&link));
        Ok(link)
    }

    /// The server's tools, at most a short time old.
    pub(super) async fn tools(&self, slot: &Slot) -> Result<Arc<Vec<Tool>>, Fault> {
        if let Some((when, tools)) = lock(&slot.listing).as_ref()
            && when.elapsed() < self.limits.listing_ttl
        {
            return Ok(Arc::clone(tools));
        }
        let link = self.link(slot).await?;
        let listed = match link.list().await {
            Ok(tools) => Arc::new(tools),
            Err(fault) => {
                slot.forget(&link).await;
                return Err(fault);
            }
        };
        *lock(&slot.listing) = Some((Instant::now(), Arc::clone(&listed)));
        Ok(listed)
    }
}

impl Slot {
    /// Lets go of a connection that failed; the next call makes another.
    pub(super) async fn forget(&self, link: &Arc<Link>) {
        let mut held = self.link.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, link)) {
            held.take();
        }
    }

    /// Takes note that the slot was of use, so that its idle time begins anew.
    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }
}

/// Removes slots that nobody holds and nobody used for `idle`.
fn sweep(slots: &mut HashMap<Key, Arc<Slot>>, idle: Duration) {
    slots.retain(|_, slot| Arc::strong_count(slot) > 1 || lock(&slot.used).elapsed() < idle);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A hash of the headers: keys of a map are printed and compared more freely than secrets should be.
fn fingerprint(headers: &BTreeMap<String, String>) -> String {
    let text = serde_json::to_string(headers).unwrap_or_default();
    names::hash(&text)
}

//! The project tool behind its process: what a run may do, controlled credentials, and the data of shipped modules.
//!
//! Reading order: `run_project` (what a run keeps of the project), `credential` (minting and checking), `api` (the
//! loopback API), `action` (one shipped action, once for each call), then `calendar`, `contacts` and `memory`; `owners`
//! is the administrator's side.

mod action;
mod api;
mod calendar;
mod contacts;
mod credential;
mod event;
mod memory;
mod owners;
mod run_project;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use runloom_ports::clock::Clock;
use runloom_ports::store::Store;

use crate::memory::MemoryService;
use credential::{LiveCall, SigningKey};

pub use api::{ApiReply, ApiStatus};

/// The project tool of this process.
pub struct ProjectService {
    store: Arc<dyn Store>,
    memory: Arc<MemoryService>,
    key: SigningKey,
    /// Calls in progress in this process, by the id of their credential.
    calls: Arc<Mutex<HashMap<String, LiveCall>>>,
    /// Base address of the loopback API, once it is served.
    api: OnceLock<String>,
    clock: Clock,
}

impl fmt::Debug for ProjectService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectService").finish_non_exhaustive()
    }
}

impl ProjectService {
    /// A service whose credentials are signed with a key derived from the master key.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, memory: Arc<MemoryService>, master_key: &[u8]) -> Self {
        Self {
            store,
            memory,
            key: SigningKey::new(master_key),
            calls: Arc::default(),
            api: OnceLock::new(),
            clock: Clock,
        }
    }

    /// Says where the loopback API of this process is served. Without it no action can be run.
    pub fn serve_at(&self, base: String) {
        // It is served once.
        let _ = self.api.set(base);
    }
}

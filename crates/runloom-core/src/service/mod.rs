//! The use cases. A stand-in that accepts nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use runloom_protocol::resource::{
    RunAccepted, RunList, RunSnapshot, SessionCreated, SessionEvents, SessionList, SessionSnapshot,
};
use runloom_protocol::spec::{CreateMessage, CreateRun, CreateSession, SubmitToolResult};

use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::ports::store::{Idempotency, RunFilter, SessionFilter};

pub mod auth;
pub mod rate;
pub mod tenancy;

use auth::{Authenticator, Caller};
use rate::RateLimiter;
use tenancy::TenancyService;

/// Frames of a run's stream.
pub type EventStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// At most this many.
    pub limit: usize,
    /// Where the page begins.
    pub cursor: Option<String>,
    /// Rows to pass over after that.
    pub offset: usize,
    /// Whether to count.
    pub include_total: bool,
}

/// Which frames of a session's conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEventsRequest {
    /// All of them.
    pub full: bool,
    /// The last so many.
    pub last_messages: Option<usize>,
    /// Only those before this one.
    pub before_seq: Option<u64>,
}

/// The use cases.
#[derive(Debug)]
pub struct Service {
    auth: Authenticator,
    rates: RateLimiter,
    tenancy: TenancyService,
    catalog: Arc<Catalog>,
    clock: Clock,
}

fn refused<T>() -> Result<T> {
    Err(Error::Unavailable {
        message: "This server has no engine.".to_owned(),
        retry_after: Duration::from_secs(1),
    })
}

#[expect(
    missing_docs,
    clippy::missing_errors_doc,
    clippy::unused_async,
    reason = "a stand-in"
)]
impl Service {
    pub fn stand_in(
        auth: Authenticator,
        rates: RateLimiter,
        tenancy: TenancyService,
        catalog: Catalog,
    ) -> Self {
        Self {
            auth,
            rates,
            tenancy,
            catalog: Arc::new(catalog),
            clock: Clock,
        }
    }
    pub fn auth(&self) -> &Authenticator {
        &self.auth
    }
    pub fn rates(&self) -> &RateLimiter {
        &self.rates
    }
    pub fn tenancy(&self) -> &TenancyService {
        &self.tenancy
    }
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
    pub async fn create_run(
        &self,
        _: &Caller,
        _: CreateRun,
        _: Option<Idempotency>,
    ) -> Result<RunAccepted> {
        refused()
    }
    pub async fn run(&self, _: &Caller, _: &str) -> Result<RunSnapshot> {
        Err(Error::NotFound { what: "run" })
    }
    pub async fn list_runs(&self, _: &Caller, _: RunFilter, _: PageRequest) -> Result<RunList> {
        refused()
    }
    pub async fn stream(&self, _: &Caller, _: &str, _: u64) -> Result<EventStream> {
        refused()
    }
    pub async fn events(&self, _: &Caller, _: &str, _: u64, _: usize) -> Result<Vec<Bytes>> {
        refused()
    }
    pub async fn submit_tool_result(
        &self,
        _: &Caller,
        _: &str,
        _: SubmitToolResult,
        _: Option<Idempotency>,
    ) -> Result<()> {
        refused()
    }
    pub async fn cancel_run(&self, _: &Caller, _: &str) -> Result<()> {
        refused()
    }
    pub async fn create_session(
        &self,
        _: &Caller,
        _: CreateSession,
        _: Option<Idempotency>,
    ) -> Result<SessionCreated> {
        refused()
    }
    pub async fn session(&self, _: &Caller, _: &str) -> Result<SessionSnapshot> {
        Err(Error::NotFound { what: "session" })
    }
    pub async fn create_message(
        &self,
        _: &Caller,
        _: &str,
        _: CreateMessage,
        _: Option<Idempotency>,
    ) -> Result<RunAccepted> {
        refused()
    }
    pub async fn end_session(&self, _: &Caller, _: &str) -> Result<()> {
        refused()
    }
    pub async fn list_sessions(
        &self,
        _: &Caller,
        _: SessionFilter,
        _: PageRequest,
    ) -> Result<SessionList> {
        refused()
    }
    pub async fn session_events(
        &self,
        _: &Caller,
        _: &str,
        _: SessionEventsRequest,
    ) -> Result<SessionEvents> {
        refused()
    }
    pub async fn ready(&self) -> Result<()> {
        refused()
    }
}

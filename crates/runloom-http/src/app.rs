//! What every handler can reach.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use runloom_ports::shutdown::Shutdown;
use runloom_service::Service;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Largest request body unless an operator says otherwise.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// What an operator can set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Largest request body. Where the contract allows more, more is taken, unless this is less than the default: an operator who lowered it
    /// meant every body.
    pub max_body_bytes: usize,
    /// Connections at once on a listener.
    pub max_connections: usize,
    /// How long a request's body may take to arrive; shorter than the time of the whole request.
    pub body_timeout: Duration,
    /// From the first byte of a request to the head of its answer. Streams go on after that.
    pub request_timeout: Duration,
    /// How long who sends a message to an agent waits for its answer; shorter than the time of the whole request.
    pub answer_within: Duration,
    /// Silence after which a stream shows that it lives.
    pub heartbeat: Duration,
    /// What the OAuth server calls itself: where people and apps reach it, without a slash at the end.
    pub issuer: String,
    /// Opens the admin API; without one there is none.
    pub admin_token: Option<AdminToken>,
    /// Whether the dashboard is served.
    pub dashboard: bool,
    /// How clients reach the server, without a slash at the end; `None` = by the host that they name.
    pub public_url: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_body_bytes: MAX_BODY_BYTES,
            max_connections: 16_384,
            body_timeout: Duration::from_secs(45),
            request_timeout: Duration::from_secs(60),
            answer_within: Duration::from_secs(45),
            heartbeat: Duration::from_secs(15),
            issuer: "http://127.0.0.1:8787".to_owned(),
            admin_token: None,
            dashboard: true,
            public_url: None,
        }
    }
}

impl Settings {
    /// Largest body of a request that may have so many bytes by the contract.
    pub(crate) fn body_limit(&self, by_contract: usize) -> usize {
        if self.max_body_bytes < MAX_BODY_BYTES {
            self.max_body_bytes
        } else {
            self.max_body_bytes.max(by_contract)
        }
    }
}

/// The administrator's token; only its hash is kept.
#[derive(Clone)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// Takes the token from the configuration.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares in constant time; the hashes make the lengths equal.
    pub(crate) fn matches(&self, given: &str) -> bool {
        let given: [u8; 32] = Sha256::digest(given.as_bytes()).into();
        self.0.ct_eq(&given).into()
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken(…)")
    }
}

/// The state of the router. One count to clone: every layer of the router does, for every request.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// What the state is made of.
pub(crate) struct Parts {
    pub(crate) service: Arc<Service>,
    pub(crate) settings: Settings,
    /// Ends streams, and readiness before them.
    pub(crate) shutdown: Shutdown,
}

impl App {
    pub(crate) fn new(service: Arc<Service>, settings: Settings, shutdown: Shutdown) -> Self {
        Self(Arc::new(Parts {
            service,
            settings,
            shutdown,
        }))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

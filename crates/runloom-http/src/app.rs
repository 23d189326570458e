//! The shared state of all handlers.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use runloom_ports::shutdown::Shutdown;
use runloom_service::Services;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::cors::CorsOrigins;

/// Default of `max_body_bytes`.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// Settings of the operator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Maximum bytes of a request body. Routes with a larger limit by contract allow that, unless this is below the
    /// default.
    pub max_body_bytes: usize,
    /// Maximum connections of a listener.
    pub max_connections: usize,
    /// Maximum connections of one client address on a listener.
    pub max_connections_per_address: usize,
    /// Timeout of receiving a request body; shorter than `request_timeout`.
    pub body_timeout: Duration,
    /// Timeout from the first byte of a request to the head of its response. Streams continue after that.
    pub request_timeout: Duration,
    /// How long a message to a published agent waits for its answer; shorter than `request_timeout`.
    pub answer_within: Duration,
    /// Silence after which a stream sends a heartbeat.
    pub heartbeat: Duration,
    /// The issuer of the OAuth server: its public address without a slash at the end.
    pub issuer: String,
    /// The admin token; `None` disables the admin API.
    pub admin_token: Option<AdminToken>,
    /// Whether the dashboard is served.
    pub dashboard: bool,
    /// The address at which clients reach the server, without a slash at the end; `None` = the host of each request.
    pub public_url: Option<String>,
    /// The origins whose pages may call the API.
    pub cors_origins: CorsOrigins,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_body_bytes: MAX_BODY_BYTES,
            max_connections: 16_384,
            max_connections_per_address: 8_192,
            body_timeout: Duration::from_secs(45),
            request_timeout: Duration::from_secs(60),
            answer_within: Duration::from_secs(45),
            heartbeat: Duration::from_secs(15),
            issuer: "http://127.0.0.1:8787".to_owned(),
            admin_token: None,
            dashboard: true,
            public_url: None,
            cors_origins: CorsOrigins::None,
        }
    }
}

impl Settings {
    /// The body limit of a route that allows `by_contract` bytes.
    pub(crate) fn body_limit(&self, by_contract: usize) -> usize {
        if self.max_body_bytes < MAX_BODY_BYTES {
            self.max_body_bytes
        } else {
            self.max_body_bytes.max(by_contract)
        }
    }
}

/// The admin token; only its hash is stored.
#[derive(Clone)]
pub struct AdminToken([u8; 32]);

impl AdminToken {
    /// Takes the token from the configuration.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares hashes in constant time.
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

/// The state of the router. Cloning it increments one counter; every layer clones it for every request.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// The parts of the state.
pub(crate) struct Parts {
    pub(crate) service: Arc<Services>,
    pub(crate) settings: Settings,
    /// Ends streams, and readiness before them.
    pub(crate) shutdown: Shutdown,
}

impl App {
    pub(crate) fn new(service: Arc<Services>, settings: Settings, shutdown: Shutdown) -> Self {
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

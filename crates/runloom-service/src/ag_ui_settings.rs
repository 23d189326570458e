//! The settings of AG-UI.

use std::time::Duration;

use runloom_protocol::ag_ui::OnDisconnect;

/// What an operator can set about AG-UI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgUiSettings {
    /// Whether the endpoint is served.
    pub enabled: bool,
    /// How long calls of front-end tools wait for their results.
    pub tool_timeout: Duration,
    /// What happens to a run whose client closes the stream.
    pub on_disconnect: OnDisconnect,
    /// How long such a run goes on before it is cancelled.
    pub disconnect_grace: Duration,
}

impl Default for AgUiSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            tool_timeout: Duration::from_secs(24 * 60 * 60),
            on_disconnect: OnDisconnect::Continue,
            disconnect_grace: Duration::from_secs(5),
        }
    }
}

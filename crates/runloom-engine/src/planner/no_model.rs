//! Stand-in for a model that no longer exists.

use async_trait::async_trait;
use runloom_protocol::outcome::ErrorClass;

use runloom_ports::model::{Capabilities, Model, ModelError, ModelRequest, ModelStream};

/// A model whose calls fail with the reason.
#[derive(Debug)]
pub(super) struct NoModel {
    pub(super) reason: String,
}

#[async_trait]
impl Model for NoModel {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    async fn call(&self, _request: ModelRequest) -> Result<ModelStream, ModelError> {
        Err(ModelError::new(
            ErrorClass::InvalidRequest,
            self.reason.clone(),
        ))
    }
}

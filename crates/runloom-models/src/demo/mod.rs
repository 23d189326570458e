//! The offline model.
use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use runloom_core::ports::model::Model;
use std::sync::Arc;
/// Opens the demo model.
pub(crate) fn open(
    provider: &ProviderSettings,
    _model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    Err(provider.invalid("not yet".to_owned()))
}

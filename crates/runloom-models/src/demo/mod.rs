//! The offline demo model: deterministic and controlled by directives in the prompt, to try everything without a key.
//!
//! `script` parses the directives and `turn` plans the response of one call (both pure), `instance` makes a value that
//! follows a JSON Schema (with `pattern` for regular expressions), `files` describes attached files,
//! `summary` writes summaries, `stream` emits the
//! response with its delays, `attempts` counts the attempts of `fail CODE N`.

mod attempts;
mod files;
mod instance;
mod pattern;
mod script;
mod stream;
mod summary;
mod turn;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use runloom_ports::model::{
    Capabilities, Model, ModelError, ModelRequest, ModelStream, StructuredSupport,
};

use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use turn::Plan;

/// Name of the model that ignores `fail`, to be used as fallback.
const SPARE: &str = "demo-spare";

/// The demo model. It has no state.
#[derive(Debug)]
struct Demo {
    max_output_tokens: Option<u64>,
    /// Whether it obeys `fail`.
    fails: bool,
}

/// Opens the demo model. It needs neither key nor address.
pub(crate) fn open(
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    provider.check_extra(&[])?;
    Ok(Arc::new(Demo {
        max_output_tokens: model.max_output_tokens,
        fails: model.vendor_model_id != SPARE,
    }))
}

#[async_trait]
impl Model for Demo {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            reasoning: true,
            structured: StructuredSupport::Native,
            files: files::SUPPORTED,
        }
    }

    async fn call(&self, mut request: ModelRequest) -> Result<ModelStream, ModelError> {
        request.max_output_tokens = request.max_output_tokens.or(self.max_output_tokens);
        let plan = turn::plan(&request, |limit, prompt| {
            let within = |limit| attempts::count(&request.cache_key, prompt, limit);
            self.fails && limit.is_none_or(within)
        });
        match plan {
            Plan::Fail(error) => Err(error),
            Plan::Hang => Ok(futures_util::stream::pending().boxed()),
            Plan::Respond(response) => Ok(stream::play(*response)),
        }
    }
}

#[cfg(test)]
mod tests;

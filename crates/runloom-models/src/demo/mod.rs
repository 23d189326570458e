//! The offline model: deterministic, driven by directives in the prompt, good enough to try everything without a key.
//!
//! `script` reads the directives, `turn` decides what one call says (both pure), `instance` makes an answer that follows
//! a JSON Schema (with `pattern` for regular expressions), `files` tells what was attached, `stream` plays the turn with its delays, `faults` counts the
//! attempts of `fail CODE N`.

mod faults;
mod files;
mod instance;
mod pattern;
mod script;
mod stream;
mod turn;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use runloom_ports::model::{
    Capabilities, Model, ModelError, ModelRequest, ModelStream, StructuredSupport,
};

use crate::settings::{ModelSettings, OpenError, ProviderSettings};
use turn::Turn;

/// Name of the model that obeys everything but `fail`: it takes over from one that does.
const SPARE: &str = "demo-spare";

/// The demo model. It has no state of its own.
#[derive(Debug)]
struct Demo {
    max_output_tokens: Option<u64>,
    fails: bool,
}

/// Opens the demo model; needs neither key nor address.
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
            files: files::TAKEN,
        }
    }

    async fn call(&self, mut request: ModelRequest) -> Result<ModelStream, ModelError> {
        request.max_output_tokens = request.max_output_tokens.or(self.max_output_tokens);
        let turn = turn::plan(&request, |limit, prompt| {
            let within = |limit| faults::attempt(&request.cache_key, prompt, limit);
            self.fails && limit.is_none_or(within)
        });
        match turn {
            Turn::Fail(error) => Err(error),
            Turn::Hang => Ok(futures_util::stream::pending().boxed()),
            Turn::Speak(speech) => Ok(stream::play(*speech)),
        }
    }
}

#[cfg(test)]
mod tests;

//! The pure functions of an API, without HTTP.

use runloom_ports::model::{ModelError, ModelRequest};
use runloom_protocol::spec::OutputSchema;
use serde_json::json;

use crate::decode::Decoding;
use crate::payload::Payload;
use crate::settings::ModelSettings;
use crate::structured::HiddenTool;

/// The encoder and the decoder of one API.
pub(crate) struct Codec {
    /// Name of the API: its folder here, in the fixtures and in the fuzz corpus.
    pub(crate) api: &'static str,
    pub(crate) decoding: fn(DecoderOptions) -> Decoding,
    pub(crate) encode: fn(&ModelSettings, &ModelRequest) -> Result<Payload, ModelError>,
}

/// The request that a response belongs to, as far as decoders depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderOptions {
    /// Thinking was requested and is shown.
    pub show_thinking: bool,
    /// The output schema is enforced by a hidden tool, if the API needs one.
    pub hidden_tool: bool,
}

impl DecoderOptions {
    /// A hidden tool of this name, if one is offered.
    pub(crate) fn hidden_tool(self, name: &str) -> Option<HiddenTool> {
        let mut schema = serde_json::Map::new();
        schema.insert("type".to_owned(), json!("object"));
        let output = OutputSchema {
            name: "output".to_owned(),
            schema,
            enforcement: Default::default(),
        };
        self.hidden_tool
            .then(|| HiddenTool::new(name, &output, &[]))
    }
}

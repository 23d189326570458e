//! A narrow door to the pure parts, for fuzzing, measurements and nobody else: bytes through a decoder without HTTP, and a
//! request through an encoder without a call. Not part of the crate's interface; it changes whenever its users need it.

use runloom_ports::model::{ModelError, ModelEvent, ModelRequest};
use runloom_protocol::outcome::StructuredOutput;
use runloom_protocol::spec::OutputSchema;
use serde_json::json;

use crate::anthropic;
use crate::bedrock;
use crate::decode::{Decoding, StreamDecoder};
use crate::gemini;
use crate::openai_chat;
use crate::openai_responses;
use crate::settings::ModelSettings;
use crate::sse::Sse;
use crate::structured::{HiddenTool, NOT_CALLED};

/// Something that reads bytes from a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Server-sent events alone: a frame comes out as its text.
    Sse,
    /// AWS's event stream alone, likewise.
    EventStream,
    /// The Messages API.
    Anthropic,
    /// The Messages API in AWS's event stream.
    Bedrock,
    /// `streamGenerateContent`.
    Gemini,
    /// Chat completions.
    OpenAiChat,
    /// Responses.
    OpenAiResponses,
}

/// What the request had asked for: decoders differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Thinking is to be shown.
    pub thinking: bool,
    /// An output schema is enforced by a hidden tool, where the wire knows one.
    pub hidden_tool: bool,
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Sse,
        Self::EventStream,
        Self::Anthropic,
        Self::Bedrock,
        Self::Gemini,
        Self::OpenAiChat,
        Self::OpenAiResponses,
    ];

    fn decoding(self, asked: Asked) -> Decoding {
        let sse = Box::<Sse>::default;
        let frames = Box::<bedrock::Frames>::default;
        match self {
            Self::Sse => Decoding::new(sse(), Box::new(Echo)),
            Self::EventStream => Decoding::new(frames(), Box::new(Echo)),
            Self::Anthropic => Decoding::new(sse(), messages_api(asked)),
            Self::Bedrock => Decoding::new(frames(), messages_api(asked)),
            Self::Gemini => {
                let decoder = gemini::stream::Decoder::new(gemini::request::Expect {
                    model: "probe".to_owned(),
                    show_thinking: asked.thinking,
                    hidden: hidden(asked, gemini::request::HIDDEN_TOOL),
                    structured: NOT_CALLED,
                    turn: 1,
                });
                Decoding::new(sse(), Box::new(decoder))
            }
            Self::OpenAiChat => {
                let structured = StructuredOutput::default();
                let decoder = openai_chat::stream::Decoder::new(asked.thinking, 1, structured);
                Decoding::new(sse(), Box::new(decoder))
            }
            Self::OpenAiResponses => {
                let structured = StructuredOutput::default();
                let decoder =
                    openai_responses::stream::Decoder::new("probe", asked.thinking, structured);
                Decoding::new(sse(), Box::new(decoder))
            }
        }
    }
}

fn messages_api(asked: Asked) -> Box<dyn StreamDecoder> {
    let expect = anthropic::request::Expect {
        model: "probe".to_owned(),
        show_thinking: asked.thinking,
        hidden: hidden(asked, anthropic::request::HIDDEN_TOOL),
        structured: NOT_CALLED,
    };
    Box::new(anthropic::stream::Decoder::new(expect))
}

fn hidden(asked: Asked, name: &str) -> Option<HiddenTool> {
    let mut schema = serde_json::Map::new();
    schema.insert("type".to_owned(), json!("object"));
    let output = OutputSchema {
        name: "output".to_owned(),
        schema,
        enforcement: Default::default(),
    };
    asked
        .hidden_tool
        .then(|| HiddenTool::new(name, &output, &[]))
}

/// One answer that is being read.
pub struct Probe {
    decoding: Decoding,
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Probe").finish_non_exhaustive()
    }
}

impl Probe {
    /// Before the first byte.
    #[must_use]
    pub fn new(wire: Wire, asked: Asked) -> Self {
        Self {
            decoding: wire.decoding(asked),
        }
    }

    /// The next bytes.
    ///
    /// # Errors
    /// When they are not what the provider may send.
    pub fn chunk(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.decoding.chunk(bytes, out)
    }

    /// Nothing more needs to be read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.decoding.is_done()
    }

    /// The connection closed.
    ///
    /// # Errors
    /// When the answer is not complete.
    pub fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.decoding.end(out)
    }
}

/// The body that a provider kind is sent for a request; nothing for kinds without a wire.
///
/// # Errors
/// When the request cannot be encoded.
pub fn encode(
    kind: &str,
    model: &str,
    request: &ModelRequest,
) -> Result<Option<Vec<u8>>, ModelError> {
    let settings = ModelSettings {
        vendor_model_id: model.to_owned(),
        ..ModelSettings::default()
    };
    let body = match kind {
        "anthropic" => {
            anthropic::request::encode(anthropic::request::Road::Direct { model }, request)?.body
        }
        "google" => gemini::request::encode(&settings, request)?.body,
        "openai" => {
            let target = openai_responses::request::Target::new(&settings, model);
            openai_responses::request::encode(&target, request, openai_responses::Schema::AsAsked)?
        }
        "openai-compatible" => {
            let target = openai_chat::request::Target {
                model: model.to_owned(),
                max_output_tokens: None,
                dialect: openai_chat::request::Dialect::Compatible,
            };
            openai_chat::request::encode(&target, request)?
        }
        _ => return Ok(None),
    };
    Ok(Some(body.to_vec()))
}

/// Hands frames on as text: what a framing does, seen alone.
struct Echo;

impl StreamDecoder for Echo {
    fn event(
        &mut self,
        name: Option<&str>,
        data: &[u8],
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let name = name.unwrap_or_default();
        let data = String::from_utf8_lossy(data);
        out.push(ModelEvent::Text(format!("{name}:{data}")));
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        out.push(ModelEvent::Done(Default::default()));
        Ok(())
    }
}

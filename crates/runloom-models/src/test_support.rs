//! Hidden entry for fuzz targets, benchmarks and property tests: bytes through a decoder and a request through an
//! encoder, without HTTP. Not part of the crate's interface; it changes whenever its users need it.

use runloom_ports::model::{ModelError, ModelEvent, ModelRequest};
use runloom_protocol::definition::ProviderKind;

use crate::adapter;
use crate::bedrock::Frames;
use crate::codec::Codec;
pub use crate::codec::DecoderOptions;
use crate::decode::{Decoding, StreamDecoder};
use crate::settings::ModelSettings;
use crate::sse::Sse;

/// Name of server-sent events without an API: each frame becomes a text event.
pub const SSE: &str = "sse";

/// Name of AWS's event stream without an API: each frame becomes a text event.
pub const AWS_EVENT_STREAM: &str = "aws_event_stream";

/// The codecs of every provider kind; some kinds share one.
fn codecs() -> impl Iterator<Item = &'static Codec> {
    ProviderKind::ALL
        .iter()
        .filter_map(|kind| adapter(*kind).codec)
}

/// The names of every API.
#[must_use]
pub fn apis() -> Vec<&'static str> {
    let mut apis = Vec::new();
    for codec in codecs() {
        if !apis.contains(&codec.api) {
            apis.push(codec.api);
        }
    }
    apis
}

/// Decodes one response.
pub struct TestDecoder {
    decoding: Decoding,
}

impl std::fmt::Debug for TestDecoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TestDecoder")
            .finish_non_exhaustive()
    }
}

impl TestDecoder {
    /// The decoder of an API, or of a framing alone ([`SSE`], [`AWS_EVENT_STREAM`]); `None` if there is none of this
    /// name.
    #[must_use]
    pub fn new(name: &str, options: DecoderOptions) -> Option<Self> {
        let decoding = match name {
            SSE => Decoding::new(Box::<Sse>::default(), Box::new(Echo)),
            AWS_EVENT_STREAM => Decoding::new(Box::<Frames>::default(), Box::new(Echo)),
            api => (codecs().find(|codec| codec.api == api)?.decoding)(options),
        };
        Some(Self { decoding })
    }

    /// Decodes the next bytes.
    ///
    /// # Errors
    /// When the provider may not send them, or they report a failure.
    pub fn chunk(&mut self, bytes: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.decoding.chunk(bytes, out)
    }

    /// Whether the final event was emitted.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.decoding.is_done()
    }

    /// Ends the body.
    ///
    /// # Errors
    /// When the response is not complete.
    pub fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.decoding.end(out)
    }
}

/// The request body that an API is sent; `None` if there is no API of this name.
///
/// # Errors
/// When the request cannot be encoded.
pub fn encode(
    api: &str,
    model: &str,
    request: &ModelRequest,
) -> Result<Option<Vec<u8>>, ModelError> {
    let Some(codec) = codecs().find(|codec| codec.api == api) else {
        return Ok(None);
    };
    let settings = ModelSettings {
        vendor_model_id: model.to_owned(),
        ..ModelSettings::default()
    };
    Ok(Some((codec.encode)(&settings, request)?.to_vec()))
}

/// Turns each frame into a text event.
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

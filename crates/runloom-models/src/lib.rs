//! One folder per model API: a request encoder and a stream decoder as pure functions, and the HTTP call between them.
//!
//! Not here: retries, prompts, tools and the loop (the driver's), storage, and the HTTP of the server.
//!
//! Reading order: [`settings`] (of a provider and its models); `decode` (bytes → frames → events) and `sse`; `http`
//! (a call: `http_call`, status, error bodies) on `clients` (the shared connection pools), with `deadlines`,
//! `response` (its head and body), `event_stream` (the body as events) and `call_recorder` (one call, recorded for
//! debugging); `error` and `retry_after` (error classes); `structured` (output schemas), `conversation`, `files` and
//! `tools`; the request body: `request_body`, `alternating_roles` and `payload`. Then one folder per API, each with
//! `request` (neutral request → vendor JSON), `stream` (vendor frames → [`runloom_ports::model::ModelEvent`]), `wire`
//! (the vendor's types, which never leave their folder) and its `codec`, which gives fuzz targets and benchmarks
//! access to the pure functions through `test_support`. `listing` asks a provider for its models.
//!
//! Invariants: a decoder does no I/O and reads no clock; an unknown frame or field never fails a call; a stream that
//! ends without the vendor's final frame is an error; keys never reach messages or logs.

pub mod settings;
#[doc(hidden)]
pub mod test_support;

mod alternating_roles;
mod call_recorder;
mod clients;
mod codec;
mod conversation;
mod deadlines;
mod decode;
mod error;
mod event_stream;
mod files;
mod http;
mod http_call;
mod listing;
mod payload;
mod request_body;
mod response;
mod retry_after;
mod sse;
mod structured;
mod tools;

#[cfg(test)]
mod arbitrary;

mod anthropic;
mod bedrock;
mod demo;
mod gemini;
mod openai_chat;
mod openai_responses;

use std::sync::Arc;

use runloom_ports::model::Model;
use runloom_protocol::definition::ProviderKind;

pub use call_recorder::{CallRecorder, RecordedCall, RecordedRequest, RecordedResponse};
pub use listing::{ListError, ListedModel, can_list, list};
pub use settings::{ModelSettings, OpenError, ProviderSettings, Timeouts};

use crate::codec::Codec;

/// Opens one model of a provider.
type Open = fn(&ProviderSettings, &ModelSettings) -> Result<Arc<dyn Model>, OpenError>;

/// The adapter of a provider kind.
struct Adapter {
    open: Open,
    /// `None` for a kind that has no wire format.
    codec: Option<&'static Codec>,
}

/// The adapter of a provider kind. A new one is its folder, its `mod` line above and its arm here.
fn adapter(kind: ProviderKind) -> Adapter {
    match kind {
        ProviderKind::Anthropic => Adapter {
            open: anthropic::open,
            codec: Some(&anthropic::CODEC),
        },
        ProviderKind::Bedrock => Adapter {
            open: bedrock::open,
            codec: Some(&bedrock::CODEC),
        },
        ProviderKind::Openai => Adapter {
            open: openai_responses::open,
            codec: Some(&openai_responses::CODEC),
        },
        ProviderKind::AzureOpenai => Adapter {
            open: openai_responses::open_azure,
            codec: Some(&openai_responses::CODEC),
        },
        ProviderKind::Xai => Adapter {
            open: openai_chat::open_xai,
            codec: Some(&openai_chat::CODEC),
        },
        ProviderKind::OpenaiCompatible => Adapter {
            open: openai_chat::open,
            codec: Some(&openai_chat::CODEC),
        },
        ProviderKind::Demo => Adapter {
            open: demo::open,
            codec: None,
        },
        ProviderKind::Google => Adapter {
            open: gemini::open,
            codec: Some(&gemini::CODEC),
        },
    }
}

/// Opens a model: checks the settings and prepares its calls. Makes no connection.
///
/// # Errors
/// When a setting is missing, unknown or malformed.
pub fn open(
    kind: ProviderKind,
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    (adapter(kind).open)(provider, model)
}

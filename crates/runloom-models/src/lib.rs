//! One folder per LLM API: a pure request encoder and a pure stream decoder in each, and the HTTP between them.
//!
//! What is not here: retries, prompts, tools and the loop (they are the driver's), storage, and the server's HTTP.
//!
//! Reading order: [`settings`] (what the configuration says of a provider), `decode` (bytes → frames → events), `sse`,
//! `http` (one call: request, status, error bodies) on `clients` (the shared HTTP clients) with `deadlines`, `response` (its
//! head and body), `reading` (the body as events) and `exchange` (one call recorded for debugging); `error` and
//! `retry_after` (error classes), `structured` (output schemas), `conversation`, `files`, `tools`, and the request body:
//! `payload`, `list_body` and `turns`. Then one folder per API, each with `request` (neutral request → vendor JSON),
//! `stream` (vendor frames → [`runloom_ports::model::ModelEvent`]) and `wire` (the vendor's types, which never leave
//! their folder). `probe` gives fuzz targets and benchmarks access to the pure parts.
//!
//! Invariants: a decoder does no I/O and reads no clock; an unknown frame or field never fails a call; a stream that ends
//! without the vendor's final frame is an error; keys never reach messages or logs.

#[doc(hidden)]
pub mod probe;
pub mod settings;

mod clients;
mod conversation;
mod deadlines;
mod decode;
mod error;
mod exchange;
mod files;
mod http;
mod list_body;
mod payload;
mod reading;
mod response;
mod retry_after;
mod sse;
mod structured;
mod tools;
mod turns;

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

pub use exchange::{Exchange, Received, Recorder, Sent};
pub use settings::{ModelSettings, OpenError, ProviderSettings, Secret, Timeouts};

/// Opens one model of one provider.
type Open = fn(&ProviderSettings, &ModelSettings) -> Result<Arc<dyn Model>, OpenError>;

/// The adapter of a provider kind: a new one is its folder, its `mod` line above and its arm here.
fn adapter(kind: ProviderKind) -> Open {
    match kind {
        ProviderKind::Anthropic => anthropic::open,
        ProviderKind::Bedrock => bedrock::open,
        ProviderKind::Openai => openai_responses::open,
        ProviderKind::AzureOpenai => openai_responses::open_azure,
        ProviderKind::Xai => openai_chat::open_xai,
        ProviderKind::OpenaiCompatible => openai_chat::open,
        ProviderKind::Demo => demo::open,
        ProviderKind::Google => gemini::open,
    }
}

/// Opens a model: checks the settings and prepares what calls share. Makes no connection.
///
/// # Errors
/// When a setting is missing, unknown or malformed.
pub fn open(
    kind: ProviderKind,
    provider: &ProviderSettings,
    model: &ModelSettings,
) -> Result<Arc<dyn Model>, OpenError> {
    adapter(kind)(provider, model)
}

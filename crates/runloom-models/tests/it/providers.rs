//! The adapters under test: one row each.

use std::path::PathBuf;
use std::sync::Arc;

use runloom_models::{ModelSettings, ProviderSettings, Timeouts};
use runloom_ports::model::{Capabilities, Model};
use runloom_ports::secret::Secret;
use runloom_protocol::definition::ProviderKind;
use serde_json::{Map, Value};

use crate::server::Server;

/// The API key of every adapter; no message may show it.
pub const API_KEY: &str = "key-that-nobody-may-see";

/// One adapter.
pub struct Row {
    pub kind: ProviderKind,
    /// Folder of its source and of its fixtures.
    pub folder: &'static str,
    pub model: &'static str,
    /// Path of the base URL.
    pub base_path: &'static str,
    pub extra: &'static [(&'static str, &'static str)],
    pub content_type: &'static str,
    /// Frames a fixture, which is always written as SSE.
    pub wire: fn(&[u8]) -> Vec<u8>,
}

pub fn openai() -> Row {
    sse(ProviderKind::Openai, "openai_responses", "gpt-5.5", "/v1")
}

pub fn azure_openai() -> Row {
    Row {
        extra: &[
            ("deployment", "my-deployment"),
            ("api_version", "2025-04-01-preview"),
        ],
        ..sse(ProviderKind::AzureOpenai, "openai_responses", "gpt-5.5", "")
    }
}

pub fn xai() -> Row {
    sse(ProviderKind::Xai, "openai_chat", "grok-4", "/v1")
}

pub fn openai_compatible() -> Row {
    sse(
        ProviderKind::OpenaiCompatible,
        "openai_chat",
        "llama3.3",
        "/v1",
    )
}

pub fn anthropic() -> Row {
    sse(
        ProviderKind::Anthropic,
        "anthropic",
        "claude-sonnet-4-5",
        "",
    )
}

pub fn bedrock() -> Row {
    Row {
        extra: &[("region", "eu-central-1")],
        content_type: "application/vnd.amazon.eventstream",
        wire: crate::aws_event_stream::frames,
        ..sse(
            ProviderKind::Bedrock,
            "bedrock",
            "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "",
        )
    }
}

pub fn google() -> Row {
    sse(
        ProviderKind::Google,
        "gemini",
        "gemini-3.1-pro-preview",
        "/v1beta",
    )
}

fn sse(
    kind: ProviderKind,
    folder: &'static str,
    model: &'static str,
    base_path: &'static str,
) -> Row {
    Row {
        kind,
        folder,
        model,
        base_path,
        extra: &[],
        content_type: "text/event-stream",
        wire: <[u8]>::to_vec,
    }
}

impl Row {
    pub fn settings(&self, server: &Server) -> ProviderSettings {
        let extra = self.extra.iter();
        ProviderSettings {
            id: "under-test".into(),
            base_url: Some(format!("http://{}{}", server.address(), self.base_path)),
            api_key: Some(Secret::new(API_KEY)),
            extra: extra
                .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
                .collect::<Map<_, _>>(),
            ..Default::default()
        }
    }

    pub fn open(&self, server: &Server) -> Arc<dyn Model> {
        self.open_with(server, Timeouts::default())
    }

    pub fn open_with(&self, server: &Server, timeouts: Timeouts) -> Arc<dyn Model> {
        let provider = ProviderSettings {
            timeouts,
            ..self.settings(server)
        };
        let model = ModelSettings {
            vendor_model_id: self.model.to_owned(),
            ..Default::default()
        };
        runloom_models::open(self.kind, &provider, &model).unwrap()
    }

    /// Capabilities of the model.
    pub fn capabilities(&self) -> Capabilities {
        let extra = self.extra.iter();
        let provider = ProviderSettings {
            base_url: Some("http://127.0.0.1:1".into()),
            api_key: Some(Secret::new(API_KEY)),
            extra: extra
                .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
                .collect(),
            ..Default::default()
        };
        let model = ModelSettings {
            vendor_model_id: self.model.into(),
            ..Default::default()
        };
        let opened = runloom_models::open(self.kind, &provider, &model);
        opened.unwrap().capabilities()
    }

    /// A response of the vendor, framed. `@MEGABYTE@` is replaced by that much text.
    pub fn fixture(&self, name: &str) -> Vec<u8> {
        let path = fixtures().join(self.folder).join(format!("{name}.sse"));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (self.wire)(
            text.replace("@MEGABYTE@", &"x".repeat(1024 * 1024))
                .as_bytes(),
        )
    }

    /// The body of an error response.
    pub fn error_body(&self, name: &str) -> Vec<u8> {
        let path = fixtures().join(self.folder).join(format!("{name}.json"));
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

pub fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

//! The server that a load is sent to, and requests for it.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// A server under load.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// The provider or a floor: the response to the request is the stream.
    Direct(SocketAddr),
    /// Runloom: the run is created first, then its stream is read.
    Runloom {
        address: SocketAddr,
        workspace: String,
        key: String,
    },
}

/// An encoded request that can be sent any number of times.
#[derive(Debug, Clone)]
pub(crate) struct RunRequest {
    pub(crate) bytes: Vec<u8>,
    /// Pieces of text that the stream must have.
    pub(crate) tokens: u64,
}

/// The model and prompt of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt {
    /// A script's name; see [`crate::script`].
    pub(crate) model: &'static str,
    pub(crate) text: &'static str,
    /// Tokens that the script yields.
    pub(crate) tokens: u64,
}

impl Target {
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::Direct(address) | Self::Runloom { address, .. } => *address,
        }
    }

    /// A run without tools.
    pub(crate) fn run(&self, prompt: Prompt) -> RunRequest {
        match self {
            Self::Direct(_) => {
                let body = json!({"model": prompt.model, "stream": true, "input": prompt.text});
                self.post("/v1/responses", body.to_string().as_bytes(), prompt.tokens)
            }
            Self::Runloom { .. } => self.run_with_tools(prompt, &json!([])),
        }
    }

    /// A run of Runloom with the given `tools`.
    pub(crate) fn run_with_tools(&self, prompt: Prompt, tools: &Value) -> RunRequest {
        let mut body = json!({
            "modelId": model_id(prompt.model),
            "systemPrompt": "Answer.",
            "prompt": prompt.text,
        });
        if tools.as_array().is_some_and(|tools| !tools.is_empty()) {
            body["tools"] = tools.clone();
        }
        let path = self.path("/agent-runs");
        self.post(&path, body.to_string().as_bytes(), prompt.tokens)
    }

    pub(crate) fn post(&self, path: &str, body: &[u8], tokens: u64) -> RunRequest {
        let mut bytes = format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.authorization(),
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        RunRequest { bytes, tokens }
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        let authorization = self.authorization();
        format!("GET {path} HTTP/1.1\r\nhost: bench\r\n{authorization}\r\n").into_bytes()
    }

    /// The request for a run's event stream.
    pub(crate) fn get_stream(&self, run: &str) -> Vec<u8> {
        self.get(&self.path(&format!("/agent-runs/{run}/stream")))
    }

    /// A path below the workspace's; `path` itself where there are no workspaces.
    pub(crate) fn path(&self, path: &str) -> String {
        match self {
            Self::Direct(_) => path.to_owned(),
            Self::Runloom { workspace, .. } => format!("/api/v1/workspaces/{workspace}{path}"),
        }
    }

    fn authorization(&self) -> String {
        match self {
            Self::Direct(_) => String::new(),
            Self::Runloom { key, .. } => format!("authorization: Bearer {key}\r\n"),
        }
    }
}

/// A scripted model's id in the servers' configuration.
pub(crate) fn model_id(model: &str) -> String {
    format!("provider:script:{model}")
}

//! CPU time of reading and decoding a provider's response, measured in a process of its own.
//!
//! The response is read by the provider client of the server, and by the floor's HTTP client, which discards the
//! bytes. The provider client trusts the CA in `SSL_CERT_FILE`, which the parent process sets.

use std::process::Command;

use anyhow::Context;
use futures_util::StreamExt;
use runloom_models::{ModelSettings, ProviderSettings};
use runloom_ports::model::{Message, Model, ModelEvent, ModelRequest};
use runloom_ports::secret::Secret;
use runloom_protocol::definition::ProviderKind;
use serde::{Deserialize, Serialize};

use crate::procfs::Processes;
use crate::target::Prompt;
use crate::upstream::Endpoint;

/// A long response in one write.
pub(crate) const PROMPT: Prompt = Prompt {
    model: "bench-t10000-bulk",
    text: "Say ten thousand words.",
    tokens: 10_000,
};

/// A provider kind and the path that it calls.
const APIS: [(ProviderKind, &str); 2] = [
    (ProviderKind::Openai, "responses"),
    (ProviderKind::OpenaiCompatible, "chat/completions"),
];

/// CPU time per delta, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DecodingCost {
    /// The API's path.
    pub(crate) api: String,
    pub(crate) read_and_decode_ns: f64,
    pub(crate) read_ns: f64,
}

/// Measures in a child process.
pub(crate) fn measure_in_child(
    provider: &Endpoint,
    calls: u64,
) -> anyhow::Result<Vec<DecodingCost>> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let output = Command::new(program)
        .arg("decode")
        .args(provider.arguments())
        .arg(calls.to_string())
        .env("SSL_CERT_FILE", &provider.ca_file)
        .output()
        .context("cannot start this program again")?;
    let text = String::from_utf8_lossy(&output.stdout);
    anyhow::ensure!(output.status.success(), "{text}");
    Ok(serde_json::from_str(&text)?)
}

/// Measures in this process.
pub(crate) async fn measure(provider: &Endpoint, calls: u64) -> anyhow::Result<Vec<DecodingCost>> {
    let url = format!("{}/v1", provider.url);
    let deltas = (calls * PROMPT.tokens) as f64;
    let mut costs = Vec::new();
    for (kind, path) in APIS {
        let read = read(&provider.client()?, &format!("{url}/{path}"), calls).await?;
        let decode = decode(kind, &url, calls).await?;
        costs.push(DecodingCost {
            api: path.to_owned(),
            read_and_decode_ns: decode / deltas * 1e9,
            read_ns: read / deltas * 1e9,
        });
    }
    Ok(costs)
}

/// CPU seconds to fetch responses and discard them.
async fn read(client: &reqwest::Client, url: &str, calls: u64) -> anyhow::Result<f64> {
    let body = serde_json::json!({"model": PROMPT.model, "stream": true}).to_string();
    let processes = Processes::new([std::process::id()]);
    let before = processes.cpu_seconds()?;
    for _ in 0..calls {
        let response = client.post(url).body(body.clone()).send().await?;
        let mut pieces = response.error_for_status()?.bytes_stream();
        while let Some(piece) = pieces.next().await {
            piece?;
        }
    }
    Ok(processes.cpu_seconds()? - before)
}

/// CPU seconds to fetch and decode responses.
async fn decode(kind: ProviderKind, url: &str, calls: u64) -> anyhow::Result<f64> {
    let provider = ProviderSettings {
        id: "script".to_owned(),
        base_url: Some(url.to_owned()),
        api_key: Some(Secret::new("sk-bench")),
        ..ProviderSettings::default()
    };
    let settings = ModelSettings {
        vendor_model_id: PROMPT.model.to_owned(),
        ..ModelSettings::default()
    };
    let model = runloom_models::open(kind, &provider, &settings)?;
    let processes = Processes::new([std::process::id()]);
    let before = processes.cpu_seconds()?;
    for _ in 0..calls {
        let deltas = call(model.as_ref()).await?;
        anyhow::ensure!(
            deltas == PROMPT.tokens,
            "expected {} deltas, got {deltas}",
            PROMPT.tokens
        );
    }
    Ok(processes.cpu_seconds()? - before)
}

/// Calls the model and returns the number of deltas.
async fn call(model: &dyn Model) -> anyhow::Result<u64> {
    let request = ModelRequest {
        system: "Answer.".into(),
        cache_key: "bench".into(),
        ..ModelRequest::new(vec![Message::User {
            text: PROMPT.text.into(),
        }])
    };
    let mut stream = model.call(request).await.context("the call was refused")?;
    let mut deltas = 0;
    while let Some(event) = stream.next().await {
        if let ModelEvent::Text(_) = event.context("the response is incomplete")? {
            deltas += 1;
        }
    }
    Ok(deltas)
}

//! Snapshots of requests: `fixtures/<folder>/requests/<kind>/<name>.json`. The vendors' SDKs check the same files (see
//! `tests/vendor_python`). `UPDATE_REQUESTS=1` writes them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use runloom_ports::file::{File, FileContent};
use runloom_ports::model::{CallRequest, Message, ModelRequest, StructuredSupport};
use serde_json::{Value, json};

use crate::cases::{answer_calls, ask, listen, schema, stream};
use crate::files::{file, with_files};
use crate::providers::{API_KEY, Row, fixtures};
use crate::server::{Asked, Server};

/// Headers of the HTTP client, and headers that depend on the clock.
const NOISE: &[&str] = &[
    "host",
    "content-length",
    "accept",
    "user-agent",
    "x-amz-date",
];

pub async fn match_their_snapshots(row: &Row) {
    let mut differences = Vec::new();
    for (name, request) in requests(row) {
        let sent = sent(row, request).await;
        differences.extend(compare(row, name, &sent));
    }
    differences.extend(compare(row, "multi_turn", &multi_turn(row).await));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn requests(row: &Row) -> Vec<(&'static str, ModelRequest)> {
    let mut plain = ask("Hello");
    plain.tools = Arc::default();
    let mut tools_disabled = history();
    tools_disabled.tools_enabled = false;
    let level = |level| ModelRequest {
        reasoning_level: Some(level),
        ..ask("Think.")
    };
    let mut budget = plain.clone();
    budget.max_output_tokens = Some(4_000);
    let mut structured = ask("The answer?");
    structured.output_schema = Some(Arc::new(schema()));
    let support = row.capabilities().structured;
    let mut all = vec![
        ("plain", plain),
        ("tools", ask("Weather in Oslo?")),
        ("tools_disabled", tools_disabled),
        ("reasoning_off", level(0)),
        ("reasoning_low", level(30)),
        ("reasoning_high", level(80)),
        ("budget", budget),
        ("structured", structured.clone()),
        ("history", history()),
        ("files", with_files("Compare these.", files())),
        ("file_urls", with_files("", urls(row))),
        ("tool_files", tool_files()),
    ];
    if support == StructuredSupport::SyntheticTool {
        structured.force_output = true;
        all.push(("structured_forced", structured));
    }
    all
}

/// A conversation that another provider began: calls, a failed call, system messages in between.
fn history() -> ModelRequest {
    let mut request = ask("Weather in Oslo?");
    let call = |id: &str, name: &str, input: Value| CallRequest {
        id: id.into(),
        name: name.into(),
        input,
    };
    let result = |id: &str, name: &str, content: &str, is_error| Message::Tool {
        call_id: id.into(),
        name: name.into(),
        content: content.into(),
        is_error,
    };
    request.messages.append(vec![
        Message::Assistant {
            text: "Let me look.".into(),
            calls: vec![
                call("call_1", "get_weather", json!({"city": "Oslo"})),
                call("call_2", "get_time", json!({})),
            ],
            state: None,
        },
        result("call_1", "get_weather", "{\"degrees\":21}", false),
        result("call_2", "get_time", "no clock", true),
        Message::Assistant {
            text: "21 degrees.".into(),
            calls: vec![],
            state: None,
        },
        Message::System {
            text: "Speak French now.".into(),
        },
        Message::User {
            text: "Thanks!".into(),
        },
    ]);
    request
}

/// One file of each kind.
fn files() -> Vec<File> {
    let inline = |name, kind| file(name, kind, FileContent::Base64("QUJD".into()));
    vec![
        inline("chart.png", "image/png"),
        inline("report.pdf", "application/pdf"),
        inline("call.wav", "audio/wav"),
        file(
            "notes.csv",
            "text/csv",
            FileContent::Text("city,degrees\nOslo,21".into()),
        ),
    ]
}

/// URLs, if the provider fetches any; otherwise a file.
fn urls(row: &Row) -> Vec<File> {
    let taken = row.capabilities().files;
    let at = |name: &str, kind| {
        let url = format!("https://files.example/{name}");
        file(name, kind, FileContent::Url(url.into()))
    };
    let known = [
        at("chart.png", "image/png"),
        at("report.pdf", "application/pdf"),
    ];
    let mut fetched: Vec<File> = known
        .into_iter()
        .filter(|file| taken.fetches(&file.mime_type))
        .collect();
    if fetched.is_empty() {
        fetched.extend(files().into_iter().take(1));
    }
    fetched
}

/// Two calls, one of which returned files.
fn tool_files() -> ModelRequest {
    let mut request = ask("Weather in Oslo?");
    let call = |id: &str, name: &str| CallRequest {
        id: id.into(),
        name: name.into(),
        input: json!({}),
    };
    let result = |id: &str, name: &str| Message::Tool {
        call_id: id.into(),
        name: name.into(),
        content: "done".into(),
        is_error: false,
    };
    request.messages.append(vec![
        Message::Assistant {
            text: "".into(),
            calls: vec![call("call_1", "get_weather"), call("call_2", "get_time")],
            state: None,
        },
        result("call_1", "get_weather"),
        result("call_2", "get_time"),
        Message::UserFiles {
            text: "Files that the tool get_weather returned:".into(),
            files: files().into(),
        },
    ]);
    request
}

pub async fn sent(row: &Row, request: ModelRequest) -> Asked {
    let server = Server::start([stream(row, "text")]).await;
    listen(row.open(&server).as_ref(), request).await.done();
    server.asked().pop().unwrap()
}

async fn multi_turn(row: &Row) -> Asked {
    let server = Server::start([stream(row, "tool_call"), stream(row, "text")]).await;
    let model = row.open(&server);
    let mut request = ask("Weather in Oslo?");
    let heard = listen(model.as_ref(), request.clone()).await;
    answer_calls(&mut request, &heard);
    listen(model.as_ref(), request).await.done();
    server.asked().pop().unwrap()
}

pub fn compare(row: &Row, name: &str, asked: &Asked) -> Option<String> {
    let folder = fixtures()
        .join(row.folder)
        .join("requests")
        .join(row.kind.as_str());
    let path = folder.join(format!("{name}.json"));
    let shown = format!("{:#}\n", show(asked));
    if std::env::var_os("UPDATE_REQUESTS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&path, shown).unwrap();
        return None;
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    (wanted != shown).then(|| {
        format!(
            "{} differs (UPDATE_REQUESTS=1 writes it anew); sent:\n{shown}",
            path.display()
        )
    })
}

fn show(asked: &Asked) -> Value {
    let headers: BTreeMap<&str, &str> = asked
        .headers
        .iter()
        .filter(|(name, _)| !NOISE.contains(&name.as_str()))
        .map(|(name, value)| {
            let value = value.to_str().unwrap();
            let secret = value.contains(API_KEY) || name == "authorization";
            (name.as_str(), if secret { "***" } else { value })
        })
        .collect();
    let body: Value = serde_json::from_slice(&asked.body).unwrap();
    // A proxy gets the whole URL.
    let path = asked.path.trim_start_matches("http://provider.invalid");
    json!({"path": path, "headers": headers, "body": body})
}

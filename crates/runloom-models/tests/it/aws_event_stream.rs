//! AWS's binary event stream, for Bedrock's fixtures, and cases of Bedrock alone.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use runloom_models::{ModelSettings, ProviderSettings};
use serde_json::{Value, json};

use crate::cases::{ask, listen, stream};
use crate::providers;
use crate::server::Server;

/// Frames the events of a fixture, which is written as SSE. An event named `exception/<type>` becomes an exception.
pub(crate) fn frames(sse: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in std::str::from_utf8(sse)
        .unwrap()
        .split("\n\n")
        .filter(|event| !event.is_empty())
    {
        let (name, data) = event.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap();
        let data = data.strip_prefix("data: ").unwrap();
        write_message_to(&message(name, data), &mut bytes).unwrap();
    }
    bytes
}

fn message(name: &str, data: &str) -> Message {
    let header = |name: &'static str, value: &str| {
        Header::new(name, HeaderValue::String(value.to_owned().into()))
    };
    match name.strip_prefix("exception/") {
        Some(kind) => Message::new(data.to_owned())
            .add_header(header(":message-type", "exception"))
            .add_header(header(":exception-type", kind)),
        None => {
            // Bedrock pads its chunks. The padding here is so long that a cut stream which trickles on does not
            // complete the frame within the timeouts of the tests.
            let payload = json!({"bytes": STANDARD.encode(data), "p": "p".repeat(1_000)});
            Message::new(payload.to_string())
                .add_header(header(":message-type", "event"))
                .add_header(header(":event-type", "chunk"))
                .add_header(header(":content-type", "application/json"))
        }
    }
}

#[tokio::test]
async fn signs_every_request_and_hides_the_access_key() {
    let row = providers::bedrock();
    let server = Server::start([stream(&row, "text")]).await;
    let mut settings = ProviderSettings {
        api_key: None,
        ..row.settings(&server)
    };
    for (key, value) in [
        ("access_key_id", "AKIDEXAMPLE"),
        ("secret_access_key", "a-secret"),
        ("session_token", "token"),
    ] {
        settings.extra.insert(key.to_owned(), Value::from(value));
    }
    let model = ModelSettings {
        vendor_model_id: row.model.to_owned(),
        ..Default::default()
    };
    let model = runloom_models::open(row.kind, &settings, &model).unwrap();
    assert_eq!(
        listen(model.as_ref(), ask("Hello")).await.said(),
        "Hello, world!"
    );
    let asked = server.asked().pop().unwrap();
    let authorization = asked.headers["authorization"].to_str().unwrap();
    assert!(
        authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"),
        "{authorization}"
    );
    assert!(authorization.contains("/eu-central-1/bedrock/aws4_request"));
    assert_eq!(asked.headers["x-amz-security-token"], "token");
    assert!(!format!("{model:?} {settings:?}").contains("a-secret"));
}

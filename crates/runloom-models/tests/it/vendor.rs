//! Streams that the vendors' own SDKs wrote (see `tests/vendor_python`): `fixtures/<folder>/vendor/<case>.sse`.

use runloom_ports::model::ModelRequest;
use serde_json::json;

use crate::cases::{Heard, ask, listen};
use crate::providers::{self, Row, fixtures};
use crate::server::{Reply, Server, Then};

async fn hear_vendor(row: &Row, name: &str) -> Heard {
    let path = fixtures().join(row.folder).join("vendor").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let server = Server::start([Reply::Chunks {
        content_type: row.content_type,
        chunks: vec![(row.wire)(&bytes)],
        then: Then::Close,
    }])
    .await;
    let request = ModelRequest {
        reasoning_level: Some(50),
        ..ask("Hello")
    };
    listen(row.open(&server).as_ref(), request).await
}

#[tokio::test]
async fn decodes_streams_of_the_openai_sdk() {
    for row in [providers::openai(), providers::openai_compatible()] {
        let heard = hear_vendor(&row, "text.sse").await;
        assert_eq!(heard.said(), "Hello, world!", "{}", row.kind.as_str());
        assert_eq!(heard.finish(), "end_turn");
        assert_eq!(
            (heard.usage.input_tokens, heard.usage.output_tokens),
            (20, 5)
        );

        let heard = hear_vendor(&row, "tools.sse").await;
        assert_eq!(heard.called(), [("get_weather", json!({"city": "Oslo"}))]);
        assert_eq!(heard.finish(), "tool_use");
    }
}

//! Runs whose local tools are closures.

use std::sync::Arc;

use runloom_client::protocol::spec::ToolFile;
use runloom_client::{RunRequest, ToolHandlers, ToolOutput};
use tokio::sync::Barrier;

use crate::server::{Server, frame, json, result, stream_head, write};

fn call(seq: u64, id: &str, name: &str) -> String {
    let payload =
        serde_json::json!({"toolUseId": id, "name": name, "args": {"n": seq}, "kind": "local"});
    frame(seq, "local_tool_call", &payload.to_string())
}

/// Asks for `calls`, waits for as many answers, and ends.
fn asking(calls: String, count: usize) -> Server {
    Server::start(move |request, seen, stream| {
        if request.line.contains("/stream") {
            stream_head(stream);
            write(stream, &calls);
            seen.wait_for("/tool-results", count);
            write(stream, &result(9, "done"));
        } else if request.line.contains("/tool-results") {
            json(stream, "200 OK", r#"{"ok":true}"#);
        } else {
            json(
                stream,
                "202 Accepted",
                r#"{"runId":"run_1","streamUrl":"/x"}"#,
            );
        }
    })
}

fn answers(server: &Server) -> Vec<String> {
    let results = server
        .seen
        .all()
        .into_iter()
        .filter(|seen| seen.line.contains("/tool-results"));
    let mut bodies: Vec<_> = results.map(|seen| seen.body).collect();
    bodies.sort();
    bodies
}

#[tokio::test]
async fn runs_tools_concurrently() {
    let server = asking(call(1, "tu_1", "echo") + &call(2, "tu_2", "echo"), 2);
    // Each call waits for the other one: only concurrent execution gets past the barrier.
    let barrier = Arc::new(Barrier::new(2));
    let tools = ToolHandlers::new().on("echo", move |call| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok(call.args["n"].to_string())
        }
    });
    let end = server
        .client()
        .run_with_tools(&RunRequest::prompt("s", "p"), &tools)
        .await
        .unwrap();
    assert_eq!(end.text(), Some("done"));
    assert_eq!(
        answers(&server),
        [
            r#"{"toolUseId":"tu_1","result":"1"}"#,
            r#"{"toolUseId":"tu_2","result":"2"}"#
        ]
    );
}

#[tokio::test]
async fn returns_failures_as_errors() {
    let server = asking(call(1, "tu_1", "broken") + &call(2, "tu_2", "missing"), 2);
    let tools = ToolHandlers::new().on("broken", |_| async { Err("it broke".to_owned()) });
    server
        .client()
        .run_with_tools(&RunRequest::prompt("s", "p"), &tools)
        .await
        .unwrap();
    assert_eq!(
        answers(&server),
        [
            r#"{"toolUseId":"tu_1","error":"it broke"}"#,
            r#"{"toolUseId":"tu_2","error":"this client has no tool named `missing`"}"#
        ]
    );
}

#[tokio::test]
async fn late_result_does_not_end_the_run() {
    let server = Server::start(|request, seen, stream| {
        if request.line.contains("/stream") {
            stream_head(stream);
            write(stream, &call(1, "tu_1", "slow"));
            seen.wait_for("/tool-results", 1);
            write(stream, &result(2, "went on"));
        } else if request.line.contains("/tool-results") {
            let body =
                r#"{"error":"unknown_tool_use","code":"unknown_tool_use","message":"timed out"}"#;
            json(stream, "404 Not Found", body);
        } else {
            json(
                stream,
                "202 Accepted",
                r#"{"runId":"run_1","streamUrl":"/x"}"#,
            );
        }
    });
    let tools = ToolHandlers::new().on("slow", |_| async { Ok(String::new()) });
    let end = server
        .client()
        .run_with_tools(&RunRequest::prompt("s", "p"), &tools)
        .await
        .unwrap();
    assert_eq!(end.text(), Some("went on"));
}

#[tokio::test]
async fn sends_files_with_a_result() {
    let server = asking(call(1, "tu_1", "draw"), 1);
    let tools = ToolHandlers::new().on_with_files("draw", |_| async {
        Ok(ToolOutput {
            text: "drawn".to_owned(),
            files: vec![ToolFile {
                filename: "a.png".to_owned(),
                mime_type: "image/png".to_owned(),
                data: "QUJD".to_owned(),
            }],
        })
    });
    let end = server
        .client()
        .run_with_tools(&RunRequest::prompt("s", "p"), &tools)
        .await;
    assert_eq!(end.unwrap().text(), Some("done"));
    let sent: serde_json::Value = serde_json::from_str(&answers(&server)[0]).unwrap();
    let file = serde_json::json!({"filename": "a.png", "mimeType": "image/png", "data": "QUJD"});
    assert_eq!(sent["files"], serde_json::json!([file]));
    assert_eq!(sent["result"], "drawn");
}

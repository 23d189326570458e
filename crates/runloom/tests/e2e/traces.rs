//! Traces as a collector gets them, read with the vendor's own messages.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Known;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::json;

use crate::http::Api;
use crate::peer::{Asked, Peer, Reply};
use crate::server::{Server, settings};
use crate::sse::replay;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn collector(status: u16) -> Peer {
    Peer::start(move |_, _| Reply::Plain(status, Vec::new(), String::new()))
}

fn is_traces(asked: &Asked) -> bool {
    asked.method == "POST" && asked.path == "/v1/traces"
}

fn batches(peer: &Peer) -> Vec<ExportTraceServiceRequest> {
    let asked = peer.asked().into_iter().filter(is_traces);
    asked
        .map(|asked| ExportTraceServiceRequest::decode(asked.bytes.as_slice()).unwrap())
        .collect()
}

fn spans(batches: &[ExportTraceServiceRequest]) -> Vec<&Span> {
    let resources = batches.iter().flat_map(|batch| &batch.resource_spans);
    let scopes = resources.flat_map(|resource| &resource.scope_spans);
    scopes.flat_map(|scope| &scope.spans).collect()
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|pair| pair.key == key)?;
    match &found.value {
        Some(AnyValue {
            value: Some(Known::StringValue(text)),
        }) => Some(text),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn start(api: &Api, headers: &[(&str, &str)]) -> String {
    let body = json!({"systemPrompt": "s", "prompt": "say Hello.", "name": "greeter"});
    let headers = [&[("Content-Type", "application/json")], headers].concat();
    let answer = api.send("POST", "/agent-runs", &headers, body.to_string().as_bytes());
    let answer = answer.unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["runId"].as_str().unwrap().to_owned()
}

#[test]
fn exports_a_run_in_its_clients_trace() {
    let folder = tempfile::tempdir().unwrap();
    let peer = collector(200);
    let server = Server::dev(
        folder.path(),
        &settings([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", peer.url.as_str()),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-token=abc"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ]),
    );
    let api = server.api();
    let run = start(&api, &[("traceparent", PARENT)]);
    replay(&api, &run).unwrap();
    peer.until(1, is_traces);
    let batches = batches(&peer);
    let resource = batches[0].resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), Some("runloom"));
    let environment = text(&resource.attributes, "deployment.environment");
    assert_eq!(environment, Some("test"));
    let spans = spans(&batches);
    let root = spans
        .iter()
        .find(|span| span.name == "invoke_agent greeter");
    let root = root.unwrap_or_else(|| panic!("{spans:#?}"));
    assert_eq!(hex(&root.trace_id), TRACE);
    assert_eq!(hex(&root.parent_span_id), "b7ad6b7169203331");
    assert_eq!(text(&root.attributes, "runloom.run.id"), Some(run.as_str()));
    let chat = spans.iter().find(|span| span.name.starts_with("chat "));
    let chat = chat.unwrap_or_else(|| panic!("{spans:#?}"));
    assert_eq!(chat.parent_span_id, root.span_id);
    assert!(root.start_time_unix_nano <= chat.start_time_unix_nano);
    assert!(chat.end_time_unix_nano <= root.end_time_unix_nano);
    let asked = peer.asked();
    let token = asked[0].headers.iter().find(|(name, _)| name == "x-token");
    assert_eq!(token.unwrap().1, "abc");
}

#[test]
fn stopping_server_exports_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let peer = collector(200);
    let mut server = Server::dev(
        folder.path(),
        &settings([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", peer.url.as_str()),
            ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
        ]),
    );
    let api = server.api();
    replay(&api, &start(&api, &[])).unwrap();
    assert!(server.stop().success(), "{}", server.said());
    assert_eq!(spans(&batches(&peer)).len(), 2);
}

#[test]
fn failing_collector_costs_only_traces() {
    let folder = tempfile::tempdir().unwrap();
    let peer = collector(400);
    let mut server = Server::dev(
        folder.path(),
        &settings([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", peer.url.as_str()),
            ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ]),
    );
    let api = server.api();
    for count in 1..=2 {
        let log = replay(&api, &start(&api, &[])).unwrap();
        assert_eq!(log.last().unwrap().kind(), "result");
        peer.until(count, is_traces);
    }
    assert!(server.stop().success(), "{}", server.said());
    let said = server.said();
    assert_eq!(said.matches("trace export failed").count(), 1, "{said}");
}

#[test]
fn unsampled_run_is_not_exported() {
    let folder = tempfile::tempdir().unwrap();
    let peer = collector(200);
    let mut server = Server::dev(
        folder.path(),
        &settings([("OTEL_EXPORTER_OTLP_ENDPOINT", peer.url.as_str())]),
    );
    let api = server.api();
    let unsampled = PARENT.replace("-01", "-00");
    replay(&api, &start(&api, &[("traceparent", &unsampled)])).unwrap();
    assert!(server.stop().success(), "{}", server.said());
    assert_eq!(peer.asked().len(), 0);
}

#[test]
fn tools_get_the_trace_context() {
    let folder = tempfile::tempdir().unwrap();
    let (peer, shop) = (collector(200), collector(200));
    let host = shop.url.trim_start_matches("http://");
    let mut server = Server::dev(
        folder.path(),
        &settings([
            ("OTEL_EXPORTER_OTLP_ENDPOINT", peer.url.as_str()),
            ("RUNLOOM_OUTBOUND__ALLOW_HOSTS", host),
        ]),
    );
    let definition = json!({"type": "http", "url": shop.url, "description": "Looks."});
    let path = "/api/admin/v1/workspaces/demo/tools/look";
    let made = server.admin("PUT", path, &definition);
    assert!(made.status < 300, "{made:?}");
    let api = server.api();
    let tools = json!([{"kind": "mantyx", "id": "look"}]);
    let body = json!({"systemPrompt": "s", "prompt": "call look {}", "tools": tools});
    replay(&api, &api.run(&body)).unwrap();
    assert!(server.stop().success(), "{}", server.said());
    let batches = batches(&peer);
    let spans = spans(&batches);
    let tool = spans.iter().find(|span| span.name == "execute_tool look");
    let tool = tool.unwrap_or_else(|| panic!("{spans:#?}"));
    let asked = shop.asked();
    let told = asked[0]
        .headers
        .iter()
        .find(|(name, _)| name == "traceparent");
    let expected = format!("00-{}-{}-01", hex(&tool.trace_id), hex(&tool.span_id));
    assert_eq!(told.unwrap().1, expected);
}

#[test]
fn invalid_endpoint_disables_tracing_only() {
    for endpoint in [
        "localhost:4318",
        "not a url",
        "http://[::1",
        "ftp://127.0.0.1",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let variables = settings([("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)]);
        let server = Server::dev(folder.path(), &variables);
        let api = server.api();
        let log = replay(&api, &start(&api, &[])).unwrap();
        assert_eq!(log.last().unwrap().kind(), "result");
        let said = server.said();
        assert!(said.contains("tracing disabled"), "{endpoint}: {said}");
    }
}

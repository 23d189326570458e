//! Every response of the router in these tests is checked against the OpenAPI document: the status is documented, the
//! content type is one of those of the status, and body or events follow the schema and have no other fields.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use futures_util::StreamExt;
use runloom_protocol::sse::{SseEvent, SseParser};
use serde_json::{Value, json};

/// Largest body that is checked; tests have none that is larger.
const BODY_MAX: usize = 256 << 20;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let mut document: Value = serde_json::from_str(runloom_http::OPENAPI).unwrap();
    let schemas = document["components"]["schemas"].as_object_mut().unwrap();
    schemas.values_mut().for_each(refuse_other_fields);
    document
});

/// The router, with every response checked.
pub(crate) fn checked(router: Router) -> Router {
    router.layer(from_fn(check))
}

async fn check(request: Request, next: Next) -> Response {
    let method = request.method().as_str().to_ascii_lowercase();
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let response = next.run(request).await;
    if path == "/" || path.starts_with("/dashboard/") {
        return response;
    }
    let status = response.status().as_u16();
    // The answer to a preflight is CORS's, not an operation's.
    if method == "options" && status == 204 {
        return response;
    }
    let place = format!("{method} {path} answered {status}");
    let Some(item) = path_item(&path) else {
        assert_eq!(status, 404, "{place}, but the path is not documented");
        return response;
    };
    let is_head = method == "head";
    let Some(operation) = item.get(if is_head { "get" } else { &method }) else {
        assert_eq!(status, 405, "{place}, but the method is not documented");
        return response;
    };
    if status < 400 {
        check_query(operation, &query, &place);
    }
    let documented = resolved(&operation["responses"][status.to_string()]);
    assert!(documented.is_object(), "{place}, which is not documented");
    let content = &documented["content"];
    if is_head {
        return response;
    }
    check_body(response, content, place).await
}

async fn check_body(response: Response, content: &'static Value, place: String) -> Response {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.map_or("", |kind| kind.to_str().unwrap());
    let kind = kind.split(';').next().unwrap_or_default().to_owned();
    let (parts, body) = response.into_parts();
    if content.is_null() {
        let bytes = to_bytes(body, BODY_MAX).await.unwrap();
        assert!(
            bytes.is_empty(),
            "{place} with a body that is not documented"
        );
        return Response::from_parts(parts, Body::from(bytes));
    }
    let media = &content[&kind];
    assert!(media.is_object(), "{place} with the content type `{kind}`");
    let body = match kind.as_str() {
        "application/json" => {
            let bytes = to_bytes(body, BODY_MAX).await.unwrap();
            let value: Value = serde_json::from_slice(&bytes)
                .unwrap_or_else(|error| panic!("{place} with a body that is no JSON: {error}"));
            validate(&media["schema"], &value, &place);
            Body::from(bytes)
        }
        "text/event-stream" => checked_events(body, &media["x-event-schema"], place),
        _ => body,
    };
    Response::from_parts(parts, body)
}

/// The same stream; each event is checked when it passes.
fn checked_events(body: Body, schema: &'static Value, place: String) -> Body {
    let mut parser = SseParser::new(BODY_MAX);
    let chunks = body.into_data_stream().map(move |chunk| {
        if let Ok(bytes) = &chunk {
            let receive = |event: SseEvent<'_>| {
                // An event without data opens a stream of MCP.
                if !event.data.is_empty() {
                    let value = serde_json::from_slice(event.data).unwrap();
                    validate(schema, &value, &place);
                }
                Ok::<(), Infallible>(())
            };
            parser.push(bytes, receive).unwrap();
        }
        chunk
    });
    Body::from_stream(chunks)
}

fn check_query(operation: &Value, query: &str, place: &str) {
    let documented = operation["parameters"].as_array();
    let documented: Vec<&str> = documented
        .into_iter()
        .flatten()
        .filter(|parameter| parameter["in"] == "query")
        .filter_map(|parameter| parameter["name"].as_str())
        .collect();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or_default();
        assert!(
            documented.contains(&name),
            "{place}, but `{name}` is not documented"
        );
    }
}

/// The documented path that matches, with as few parameters as possible.
fn path_item(path: &str) -> Option<&'static Value> {
    let given: Vec<&str> = path.split('/').collect();
    let matches = |template: &str| {
        let wanted: Vec<&str> = template.split('/').collect();
        let fits = |(wanted, given): (&&str, &&str)| {
            wanted == given || (wanted.starts_with('{') && !given.is_empty())
        };
        wanted.len() == given.len() && wanted.iter().zip(&given).all(fits)
    };
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    paths
        .filter(|(template, _)| matches(template))
        .min_by_key(|(template, _)| template.matches('{').count())
        .map(|(_, item)| item)
}

fn resolved(node: &'static Value) -> &'static Value {
    match node["$ref"].as_str() {
        None => node,
        Some(reference) => DOCUMENT.pointer(reference.trim_start_matches('#')).unwrap(),
    }
}

/// Validators by schema: compiling one takes longer than using it.
static VALIDATORS: LazyLock<Mutex<BTreeMap<String, Arc<jsonschema::Validator>>>> =
    LazyLock::new(Mutex::default);

fn validate(schema: &Value, value: &Value, place: &str) {
    let validator = {
        let mut known = VALIDATORS.lock().unwrap();
        let compiled = || {
            let whole = json!({"allOf": [schema], "components": DOCUMENT["components"]});
            Arc::new(jsonschema::draft202012::new(&whole).unwrap())
        };
        known
            .entry(schema.to_string())
            .or_insert_with(compiled)
            .clone()
    };
    let violations: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(
        violations.is_empty(),
        "{place} with a body that the document does not describe: {violations:#?}\n{value:#}"
    );
}

/// Makes fields that a schema does not name a violation.
fn refuse_other_fields(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else {
        return;
    };
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(keyword) {
            refuse_other_fields(inner);
        }
    }
    for keyword in ["oneOf", "anyOf", "allOf"] {
        for inner in map
            .get_mut(keyword)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            refuse_other_fields(inner);
        }
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.values_mut().for_each(refuse_other_fields);
        if !map.contains_key("additionalProperties") {
            map.insert("additionalProperties".to_owned(), json!(false));
        }
    }
}

#[test]
fn undocumented_fields_are_violations() {
    let schema = json!({"$ref": "#/components/schemas/Ok"});
    validate(&schema, &json!({"ok": true}), "this");
    let other = std::panic::catch_unwind(|| {
        validate(&schema, &json!({"ok": true, "more": 1}), "this");
    });
    assert!(other.is_err());
}

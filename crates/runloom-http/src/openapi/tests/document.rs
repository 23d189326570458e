//! The document around the schemas: paths, parameters, responses and security.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use crate::operation::{Credential, ErrorShape, Operation, Parameter, Shape};
use crate::route::{Access, Route};
use crate::routes;

/// The whole document.
pub(super) fn document() -> Value {
    let routes = routes::all();
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let mut tags: Vec<Value> = Vec::new();
    let mut used = BTreeMap::new();
    for route in &routes {
        let tag =
            json!({"name": route.operation.tag.name, "description": route.operation.tag.about});
        if !tags.contains(&tag) {
            tags.push(tag);
        }
        let operation = operation(route, &mut schemas, &mut used);
        let path = paths.entry(&route.path).or_insert_with(|| json!({}));
        path[route.method] = operation;
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Runloom",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Agent runs: start them, follow them, execute their tools.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"apiKey": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "securitySchemes": security_schemes(),
            "headers": headers(),
            "responses": used.into_values().collect::<Map<String, Value>>(),
        },
    });
    schemas.finish(&mut document);
    document
}

/// One operation. `used` collects the error responses, by status and shape, with their names.
fn operation(
    route: &Route,
    schemas: &mut Schemas,
    used: &mut BTreeMap<(u16, ErrorShape), (String, Value)>,
) -> Value {
    let operation = &route.operation;
    let mut shown = json!({
        "operationId": operation.id,
        "tags": [operation.tag.name],
        "summary": operation.summary,
    });
    if !operation.about.is_empty() {
        shown["description"] = json!(operation.about);
    }
    describe_access(route, &mut shown);
    let parameters = parameters(route);
    if !parameters.is_empty() {
        shown["parameters"] = json!(parameters);
    }
    if let Some(body) = &operation.body {
        let content = content(body, schemas.request(body));
        shown["requestBody"] = json!({"required": true, "content": content});
    }
    let mut responses = Map::new();
    for success in &operation.successes {
        let status = success.status.to_string();
        let response = responses
            .entry(status)
            .or_insert_with(|| json!({"description": success.about}));
        let headers = success_headers(route);
        if !headers.is_empty() {
            response["headers"] = Value::Object(headers);
        }
        if success.shape.media_type.is_some() {
            let added = content(&success.shape, schemas.response(&success.shape));
            let known = response.as_object_mut().unwrap();
            let known = known.entry("content").or_insert_with(|| json!({}));
            known.as_object_mut().unwrap().extend(added);
        }
    }
    for (status, shapes) in errors(route) {
        responses.insert(status.to_string(), error(status, &shapes, schemas, used));
    }
    responses.sort_keys();
    shown["responses"] = Value::Object(responses);
    shown
}

fn content(shape: &Shape, schema: Value) -> Map<String, Value> {
    let media_type = shape.media_type.unwrap_or_default();
    let media = if media_type == "text/event-stream" {
        json!({"schema": {"type": "string"}, "x-event-schema": schema})
    } else {
        json!({ "schema": schema })
    };
    Map::from_iter([(media_type.to_owned(), media)])
}

fn describe_access(route: &Route, shown: &mut Value) {
    let bucket = match route.access {
        Access::Workspace(bucket, _)
        | Access::Published(_, bucket, _)
        | Access::Either(_, bucket, _) => Some(bucket),
        Access::Open | Access::Admin => None,
    };
    if let Some(bucket) = bucket {
        shown["x-rate-limit-bucket"] = json!(bucket.as_str());
    }
    if let Some(scopes) = route.scopes() {
        shown["x-oauth-scope"] = json!(scopes);
    }
    match (route.access, route.operation.credential) {
        (_, Credential::Workspace { scope }) if !scope.is_empty() => {
            shown["x-oauth-scope"] = json!(scope);
        }
        (_, Credential::Workspace { .. }) => {}
        (_, Credential::Client) => shown["security"] = json!([{"client": []}]),
        (Access::Open, Credential::OfAccess) => shown["security"] = json!([]),
        (Access::Admin, Credential::OfAccess) => shown["security"] = json!([{"adminToken": []}]),
        _ => {}
    }
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters = Vec::new();
    if route.path.contains("{slug}") {
        parameters.push(json!({
            "name": "slug",
            "in": "path",
            "required": true,
            "description": "The workspace.",
            "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
        }));
    }
    if route.path.contains("{id}") {
        parameters.push(json!({
            "name": "id",
            "in": "path",
            "required": true,
            "description": route.operation.target,
            "schema": {"type": "string"},
        }));
    }
    let shown = |parameter: &Parameter| {
        let mut shown = json!({"name": parameter.name, "in": parameter.place});
        if parameter.required {
            shown["required"] = json!(true);
        }
        shown["description"] = json!(parameter.about);
        shown["schema"] = parameter.schema.clone();
        shown
    };
    parameters.extend(route.operation.parameters.iter().map(shown));
    parameters
}

/// The error statuses of a route, each with the bodies that it can have.
fn errors(route: &Route) -> BTreeMap<u16, Vec<ErrorShape>> {
    let Operation {
        body, parameters, ..
    } = &route.operation;
    let mut found: BTreeMap<u16, Vec<ErrorShape>> = BTreeMap::new();
    let mut add = |statuses: &[u16], shape| {
        for status in statuses {
            let shapes = found.entry(*status).or_default();
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
    };
    for (status, shape) in &route.operation.errors {
        add(&[*status], *shape);
    }
    let mut usual = vec![500, 503];
    match (route.access, route.operation.credential) {
        (Access::Open, Credential::OfAccess) => {}
        (Access::Open, Credential::Workspace { .. }) => usual.extend([401, 403, 429]),
        (Access::Open, Credential::Client) => usual.push(429),
        (Access::Admin, _) => usual.extend([401, 403]),
        _ => usual.extend([401, 403, 429]),
    }
    if route.path.contains('{') {
        usual.push(404);
    }
    if !parameters.is_empty() || body.is_some() {
        usual.push(400);
    }
    if body.is_some() {
        usual.extend([408, 413, 415]);
    }
    let given: Vec<u16> = route.operation.errors.iter().map(|error| error.0).collect();
    // A route that names another body for a status of its own has only that one; these two can always occur.
    usual.retain(|status| !given.contains(status) || [500, 503].contains(status));
    add(&usual, ErrorShape::Json);
    found
}

fn error(
    status: u16,
    shapes: &[ErrorShape],
    schemas: &mut Schemas,
    used: &mut BTreeMap<(u16, ErrorShape), (String, Value)>,
) -> Value {
    if let [shape] = shapes {
        let entry = used.entry((status, *shape)).or_insert_with(|| {
            let suffix = match shape {
                ErrorShape::Json => "",
                ErrorShape::Oauth => "Oauth",
                ErrorShape::Rpc => "Rpc",
                ErrorShape::Page => "Page",
            };
            let name = format!("{}{suffix}", status_facts(status).name);
            (name, error_response(status, &[*shape], schemas))
        });
        return json!({"$ref": format!("#/components/responses/{}", entry.0)});
    }
    error_response(status, shapes, schemas)
}

fn error_response(status: u16, shapes: &[ErrorShape], schemas: &mut Schemas) -> Value {
    let facts = status_facts(status);
    let mut content = Map::new();
    for shape in shapes {
        let shape = match shape {
            ErrorShape::Json => Shape::json::<runloom_protocol::error::ErrorBody>(),
            ErrorShape::Oauth => Shape::json::<runloom_protocol::oauth::OauthError>(),
            ErrorShape::Rpc => crate::rpc::response_shape(),
            ErrorShape::Page => Shape::text("text/html"),
        };
        let schema = schemas.response(&shape);
        for (media_type, media) in self::content(&shape, schema) {
            match content.get_mut(&media_type) {
                None => drop(content.insert(media_type, media)),
                Some(known) => {
                    let either = json!([known["schema"], media["schema"]]);
                    *known = json!({"schema": {"anyOf": either}});
                }
            }
        }
    }
    let mut response = json!({"description": facts.about, "content": content});
    if !facts.headers.is_empty() {
        response["headers"] = Value::Object(header_refs(facts.headers));
    }
    response
}

/// What an error status means on every route.
struct StatusFacts {
    name: &'static str,
    about: &'static str,
    headers: &'static [&'static str],
}

const RATE_HEADERS: [&str; 4] = [
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-RateLimit-Bucket",
];

fn status_facts(status: u16) -> StatusFacts {
    let (name, about, headers): (_, _, &[&str]) = match status {
        400 => (
            "BadRequest",
            "The request is not valid: `invalid_request` with `issues`, `invalid_model` with `candidates`, or \
             `invalid_plugin`.",
            &[],
        ),
        401 => (
            "Unauthorized",
            "No credential, or one that is unknown, expired or revoked: `unauthorized`.",
            &["WWW-Authenticate"],
        ),
        403 => (
            "Forbidden",
            "The credential may not do this: `forbidden`, `insufficient_scope`, `api_keys_plan` or `oauth_apps_plan`.",
            &[],
        ),
        404 => (
            "NotFound",
            "There is no such resource in this workspace: `not_found`, or `unknown_tool_use` for a tool call that \
             waits for no result. With the slug of another workspace, `hint` names the right one.",
            &[],
        ),
        405 => (
            "MethodNotAllowed",
            "The path has other methods: `method_not_allowed`.",
            &[],
        ),
        408 => (
            "RequestTimeout",
            "The body did not arrive in time: `request_timeout`.",
            &[],
        ),
        409 => (
            "Conflict",
            "The state of the resource does not allow this: `run_terminal`, `session_ended`, `idempotency_conflict` \
             or `conflict`.",
            &[],
        ),
        412 => (
            "PreconditionFailed",
            "The document was changed, created or deleted meanwhile: `precondition_failed`.",
            &[],
        ),
        413 => (
            "PayloadTooLarge",
            "The body is too large: `payload_too_large`.",
            &[],
        ),
        415 => (
            "UnsupportedMediaType",
            "The media type of the body is not accepted: `unsupported_media_type`.",
            &[],
        ),
        429 => (
            "RateLimited",
            "The rate limit is reached: `rate_limit_exceeded`.",
            &["Retry-After"],
        ),
        500 => (
            "Internal",
            "An internal error: `internal`. `X-Request-Id` names it to the operator.",
            &[],
        ),
        503 => (
            "Unavailable",
            "The server is stopping, or a service behind it is not available: `unavailable`.",
            &["Retry-After"],
        ),
        other => panic!("describe the status {other} here"),
    };
    StatusFacts {
        name,
        about,
        headers,
    }
}

fn success_headers(route: &Route) -> Map<String, Value> {
    let mut names = vec!["X-Request-Id"];
    if !matches!(route.access, Access::Open | Access::Admin) {
        names.extend(RATE_HEADERS);
    }
    if route.operation.has_etag {
        names.push("ETag");
    }
    header_refs(&names)
}

fn header_refs(names: &[&str]) -> Map<String, Value> {
    let reference = |name: &&str| {
        let reference = json!({"$ref": format!("#/components/headers/{name}")});
        ((*name).to_owned(), reference)
    };
    names.iter().map(reference).collect()
}

fn headers() -> Value {
    let text = |about: &str| json!({"description": about, "schema": {"type": "string"}});
    let number = |about: &str| json!({"description": about, "schema": {"type": "integer"}});
    json!({
        "X-Request-Id": text("Names the request in the server's log. A valid id from the client is kept."),
        "X-RateLimit-Limit": number("Requests per minute."),
        "X-RateLimit-Remaining": number("Requests left in the window."),
        "X-RateLimit-Reset": number("Seconds until the oldest request leaves the window."),
        "X-RateLimit-Bucket": text("The rate limit that the request counted for."),
        "Retry-After": number("Seconds to wait before the next attempt."),
        "WWW-Authenticate": text("How to authenticate."),
        "ETag": text("The value for `If-Match`. It changes with every version."),
    })
}

fn security_schemes() -> Value {
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key (`mantyx_…`), or an OAuth access token (`mantyx_at_…`) with the scope under \
                `x-oauth-scope`.",
        },
        "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same credential."},
        "adminToken": {"type": "http", "scheme": "bearer", "description": "The server's admin token."},
        "client": {
            "type": "http",
            "scheme": "basic",
            "description": "The client id and secret of an OAuth app. The form fields `client_id` and \
                `client_secret` are the alternative.",
        },
    })
}

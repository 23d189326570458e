//! JSON-RPC 2.0 as A2A and MCP use it: one message in a request body, one response.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::operation::Shape;

/// The body is not JSON.
pub(crate) const PARSE: i64 = -32700;
/// The JSON is not a request.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// Unknown method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// Invalid parameters.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// Error of the server.
pub(crate) const INTERNAL: i64 = -32603;

/// Maximum length of a request id.
const ID_MAX_BYTES: usize = 256;

/// The body of a request in the OpenAPI document.
pub(crate) fn request_shape() -> Shape {
    Shape::named_json("RpcRequest", request_schema)
}

/// The body of a response in the OpenAPI document.
pub(crate) fn response_shape() -> Shape {
    Shape::named_json("RpcResponse", response_schema)
}

/// The messages of a stream in the OpenAPI document.
pub(crate) fn stream_shape() -> Shape {
    Shape::named_events("RpcMessage", message_schema)
}

fn request_schema() -> Value {
    json!({
        "type": "object",
        "description": "A JSON-RPC 2.0 request, or a notification without `id`. Batches are refused.",
        "properties": {
            "jsonrpc": {"const": "2.0", "description": "The version."},
            "id": {"type": ["string", "number"], "description": "Repeated in the response."},
            "method": {"type": "string", "description": "The method."},
            "params": {"type": "object", "description": "The parameters of the method."},
        },
        "required": ["jsonrpc", "method"],
    })
}

fn response_schema() -> Value {
    json!({
        "type": "object",
        "description": "A JSON-RPC 2.0 response: `result` or `error`.",
        "properties": {
            "jsonrpc": {"const": "2.0", "description": "The version."},
            "id": {"type": ["string", "number", "null"], "description": "The id of the request."},
            "result": {"description": "The result of the method."},
            "error": {
                "type": "object",
                "description": "Why there is no result.",
                "properties": {
                    "code": {"type": "integer", "description": "The error code of JSON-RPC or of the protocol above it."},
                    "message": {"type": "string", "description": "What was wrong."},
                    "data": {"description": "Details."},
                },
                "required": ["code", "message"],
            },
        },
        "required": ["jsonrpc", "id"],
    })
}

fn message_schema() -> Value {
    json!({
        "type": "object",
        "description": "A JSON-RPC 2.0 response or notification in a stream.",
        "properties": {
            "jsonrpc": {"const": "2.0", "description": "The version."},
            "id": {"type": ["string", "number", "null"], "description": "The id of the request; absent in notifications."},
            "method": {"type": "string", "description": "The method of a notification."},
            "params": {"type": "object", "description": "The parameters of a notification."},
            "result": {"description": "The result of the method."},
            "error": {"type": "object", "description": "Why there is no result.", "additionalProperties": true},
        },
        "required": ["jsonrpc"],
    })
}

/// The message of a body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    /// A request.
    Call {
        /// The id, repeated in the response: a string or a number.
        id: Value,
        /// The method.
        method: String,
        /// The parameters; empty when there are none.
        params: Map<String, Value>,
    },
    /// A notification, which gets no response.
    Notice {
        /// The method.
        method: String,
        /// The parameters.
        params: Map<String, Value>,
    },
    /// A response; this server sends no requests.
    Answer,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    /// The error code of the protocol.
    pub(crate) code: i64,
    /// What is wrong and what would be right.
    pub(crate) message: String,
    /// Structured details.
    pub(crate) data: Option<Value>,
}

impl Fault {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(crate) fn with_data(self, data: Value) -> Self {
        Self {
            data: Some(data),
            ..self
        }
    }

    /// The error response.
    pub(crate) fn to_response(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

/// The response with a result.
pub(crate) fn answer(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Reads the one message of a body.
///
/// # Errors
/// The error, and the id of the response: `null` when the body has no readable id.
pub(crate) fn read(body: Result<Value, String>) -> Result<Message, Box<(Value, Fault)>> {
    let nobody = |code: i64, words: String| Box::new((Value::Null, Fault::new(code, words)));
    let body = body.map_err(|words| nobody(PARSE, format!("Parse error: the body {words}")))?;
    let mut body = match body {
        Value::Object(body) => body,
        Value::Array(_) => {
            let words = "Batches are not taken: send each request in a body of its own.";
            return Err(nobody(INVALID_REQUEST, words.to_owned()));
        }
        _ => {
            let words = "The body must be a JSON-RPC 2.0 request: an object.";
            return Err(nobody(INVALID_REQUEST, words.to_owned()));
        }
    };
    let id = body.remove("id");
    let fits = match &id {
        None | Some(Value::Number(_)) => true,
        Some(Value::String(text)) => text.len() <= ID_MAX_BYTES,
        Some(_) => false,
    };
    if !fits {
        let words = format!("`id` must be a number or a text of at most {ID_MAX_BYTES} bytes.");
        return Err(nobody(INVALID_REQUEST, words));
    }
    let shown = id.clone().unwrap_or(Value::Null);
    let fault = |code: i64, words: &str| Box::new((shown.clone(), Fault::new(code, words)));
    if body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(fault(INVALID_REQUEST, "`jsonrpc` must be \"2.0\"."));
    }
    let method = match body.remove("method") {
        Some(Value::String(method)) => method,
        None if id.is_some() && (body.contains_key("result") || body.contains_key("error")) => {
            return Ok(Message::Answer);
        }
        _ => return Err(fault(INVALID_REQUEST, "`method` must be a text.")),
    };
    let params = match body.remove("params") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(fault(INVALID_PARAMS, "`params` must be an object.")),
    };
    Ok(match id {
        Some(id) => Message::Call { id, method, params },
        None => Message::Notice { method, params },
    })
}

/// A response as an HTTP body.
pub(crate) fn respond(status: StatusCode, answer: &Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json")];
    (status, headers, answer.to_string()).into_response()
}

/// A message as one server-sent event. Compact JSON has no line breaks.
pub(crate) fn event(id: Option<&str>, message: &Value) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Bytes::from(format!("{id}event: message\ndata: {message}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_each_kind_of_message() {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"x": 1}});
        assert!(
            matches!(read(Ok(call)), Ok(Message::Call { id, method, params }) if id == 1 && method == "a" && params["x"] == 1)
        );
        let notice = json!({"jsonrpc": "2.0", "method": "n"});
        assert!(
            matches!(read(Ok(notice)), Ok(Message::Notice { method, params }) if method == "n" && params.is_empty())
        );
        let answer = json!({"jsonrpc": "2.0", "id": "q", "result": {}});
        assert_eq!(read(Ok(answer)), Ok(Message::Answer));
    }

    #[test]
    fn reports_malformed_messages() {
        for (body, code, id) in [
            (Err("is not valid JSON".to_owned()), PARSE, Value::Null),
            (Ok(json!([])), INVALID_REQUEST, Value::Null),
            (Ok(json!("hi")), INVALID_REQUEST, Value::Null),
            (
                Ok(json!({"id": 1, "method": "a"})),
                INVALID_REQUEST,
                json!(1),
            ),
            (
                Ok(json!({"jsonrpc": "2.0", "id": null, "method": "a"})),
                INVALID_REQUEST,
                Value::Null,
            ),
            (
                Ok(json!({"jsonrpc": "2.0", "id": {}, "method": "a"})),
                INVALID_REQUEST,
                Value::Null,
            ),
            (
                Ok(json!({"jsonrpc": "2.0", "id": "x".repeat(300), "method": "a"})),
                INVALID_REQUEST,
                Value::Null,
            ),
            (
                Ok(json!({"jsonrpc": "2.0", "id": 2, "method": 3})),
                INVALID_REQUEST,
                json!(2),
            ),
            (
                Ok(json!({"jsonrpc": "2.0", "id": 2})),
                INVALID_REQUEST,
                json!(2),
            ),
            (
                Ok(json!({"jsonrpc": "2.0", "id": "a", "method": "m", "params": [1]})),
                INVALID_PARAMS,
                json!("a"),
            ),
        ] {
            let (shown, fault) = *read(body.clone()).unwrap_err();
            assert_eq!((fault.code, shown), (code, id), "{body:?}");
        }
    }
}

//! Requests of one call: send, poll, cancel. Each is made exactly once, except where an endpoint reported that it does
//! not exist.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::card::{A2aVersion, AgentEndpoint, Binding, UrlScope, append_path};
use super::wire::{self, AgentReply, MessageFormat, UserMessage};
use crate::content::truncate;
use crate::escape;
use crate::outbound::{Outbound, OutboundError, OutboundRequest};

/// JSON-RPC codes for an unsupported method or version: nothing was done.
const UNSUPPORTED_CODES: &[i64] = &[-32601, -32009];

/// Maximum bytes of an agent's error that are passed to the model.
const MAX_REFUSAL_BYTES: usize = 1000;

/// Why a request failed. The message is for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskError {
    pub(super) message: String,
    pub(super) kind: TaskErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskErrorKind {
    /// The endpoint does not exist or does not speak the protocol. Nothing was done, the next endpoint may be tried.
    NotHere,
    /// The agent could not parse the message format. Nothing was done, another format may be tried.
    UnreadableFormat,
    /// The agent asked for credentials.
    Denied,
    /// The agent refused or failed, or the outcome is unknown.
    Failed,
}

/// Client of one agent.
#[derive(Debug, Clone)]
pub(super) struct TaskClient {
    pub(super) outbound: Outbound,
    pub(super) headers: HeaderMap,
    pub(super) endpoint: AgentEndpoint,
}

/// One request to an agent, for both bindings.
struct AgentRequest {
    method: &'static str,
    params: Value,
    http: Method,
    path: String,
    timeout: Duration,
}

impl TaskClient {
    /// Sends the message.
    pub(super) async fn send(
        &self,
        message: &UserMessage,
        timeout: Duration,
    ) -> Result<AgentReply, TaskError> {
        let mut last = TaskError::failed("no message format is supported");
        for format in self.formats() {
            let tenant = self.endpoint.tenant.as_deref();
            let request = AgentRequest {
                method: wire::methods(self.endpoint.version).send,
                params: wire::send_params(message, *format, tenant),
                http: Method::POST,
                path: self.path("/message:send"),
                timeout,
            };
            match self.request(request).await {
                Ok(result) => {
                    let unknown = "its response is neither a message nor a task";
                    return AgentReply::read(&result).ok_or_else(|| TaskError::failed(unknown));
                }
                Err(error) => {
                    let may_retry = error.kind == TaskErrorKind::UnreadableFormat;
                    last = error;
                    if !may_retry {
                        break;
                    }
                }
            }
        }
        Err(last)
    }

    /// Reads the state of a task.
    pub(super) async fn get(&self, id: &str, timeout: Duration) -> Result<AgentReply, TaskError> {
        let request = AgentRequest {
            method: wire::methods(self.endpoint.version).get,
            params: self.task_params(id),
            http: Method::GET,
            path: self.path(&format!("/tasks/{}", escape::percent(id))),
            timeout,
        };
        let result = self.request(request).await?;
        AgentReply::read(&result).ok_or_else(|| TaskError::failed("its task cannot be read"))
    }

    /// Cancels a task.
    pub(super) async fn cancel(&self, id: &str, timeout: Duration) -> Result<(), TaskError> {
        let request = AgentRequest {
            method: wire::methods(self.endpoint.version).cancel,
            params: self.task_params(id),
            http: Method::POST,
            path: self.path(&format!("/tasks/{}:cancel", escape::percent(id))),
            timeout,
        };
        self.request(request).await.map(drop)
    }

    fn task_params(&self, id: &str) -> Value {
        let mut params = json!({"id": id});
        if let Some(tenant) = &self.endpoint.tenant {
            params["tenant"] = json!(tenant);
        }
        params
    }

    fn formats(&self) -> &'static [MessageFormat] {
        match (self.endpoint.binding, self.endpoint.version) {
            (_, A2aVersion::V10) => &[MessageFormat::Fields],
            (Binding::JsonRpc, A2aVersion::V03) => &[MessageFormat::Kinds],
            (Binding::Rest, A2aVersion::V03) => match self.endpoint.scope {
                UrlScope::SendMethod => &[MessageFormat::Kinds],
                // The specification and its protobuf definition disagree on 0.3 over HTTP.
                UrlScope::Agent => &[MessageFormat::Protobuf03, MessageFormat::Kinds],
            },
        }
    }

    /// The path of a REST method in the endpoint's version.
    fn path(&self, path: &str) -> String {
        match self.endpoint.version {
            A2aVersion::V03 => format!("/v1{path}"),
            A2aVersion::V10 => path.to_owned(),
        }
    }

    async fn request(&self, request: AgentRequest) -> Result<Value, TaskError> {
        let timeout = request.timeout;
        let outgoing = match self.endpoint.binding {
            Binding::JsonRpc => {
                let body = json!({
                    "jsonrpc": "2.0", "id": 1, "method": request.method, "params": request.params,
                });
                OutboundRequest::new(Method::POST, self.endpoint.url.clone()).body(body.to_string())
            }
            Binding::Rest => {
                let outgoing = OutboundRequest::new(request.http.clone(), self.rest_url(&request));
                match request.http {
                    Method::POST => outgoing.body(request.params.to_string()),
                    _ => outgoing,
                }
            }
        };
        let outgoing = outgoing
            .headers(self.request_headers())
            .within(timeout)
            .keeping_method();
        let sent = self.outbound.send(outgoing).await;
        let response = sent.map_err(TaskError::network)?;
        let status = response.status();
        let body = response.bytes().await.map_err(TaskError::network)?;
        self.read(status, &body)
    }

    /// The URL of a REST method. Beside a probed `message:send`, tasks are siblings of it.
    fn rest_url(&self, request: &AgentRequest) -> reqwest::Url {
        if self.endpoint.scope == UrlScope::Agent {
            return append_path(&self.endpoint.url, &request.path);
        }
        let mut url = self.endpoint.url.clone();
        if let Some(task) = request.path.strip_prefix("/v1/tasks/") {
            let path = url.path();
            let suffixes = ["/message:send", "/message/send"];
            let base = suffixes.iter().find_map(|end| path.strip_suffix(end));
            let path = format!("{}/tasks/{task}", base.unwrap_or_default());
            url.set_path(&path);
        }
        url
    }

    fn request_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.endpoint.version == A2aVersion::V10 {
            let version = HeaderName::from_static("a2a-version");
            headers.insert(version, HeaderValue::from_static("1.0"));
        }
        headers
    }

    /// The result of a response.
    fn read(&self, status: StatusCode, body: &[u8]) -> Result<Value, TaskError> {
        let parsed: Option<Value> = serde_json::from_slice(body).ok();
        if let Some(error) = parsed.as_ref().and_then(|body| body.get("error"))
            && self.endpoint.binding == Binding::JsonRpc
            && error.is_object()
        {
            return Err(TaskError::rpc(error));
        }
        if !status.is_success() {
            return Err(TaskError::status(status, body));
        }
        let Some(parsed) = parsed else {
            return Err(TaskError::failed("its response is not JSON"));
        };
        match self.endpoint.binding {
            Binding::Rest => Ok(parsed.get("result").cloned().unwrap_or(parsed)),
            Binding::JsonRpc => match parsed.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(TaskError::failed("its response is not JSON-RPC")),
            },
        }
    }
}

impl TaskError {
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            kind: TaskErrorKind::Failed,
        }
    }

    fn not_here(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            kind: TaskErrorKind::NotHere,
        }
    }

    fn network(error: OutboundError) -> Self {
        if error.is_unsent() {
            return Self::not_here(error.to_string());
        }
        Self::failed(format!("{error}; what the agent did is unknown"))
    }

    fn rpc(error: &Value) -> Self {
        let code = error
            .get("code")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let text = error.get("message").and_then(Value::as_str);
        let text = truncate(text.unwrap_or("no reason given"), MAX_REFUSAL_BYTES);
        let message = format!("it answered with error {code}: {text}");
        if UNSUPPORTED_CODES.contains(&code) {
            return Self::not_here(message);
        }
        Self::failed(message)
    }

    fn status(status: StatusCode, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let message = match truncate(text.trim(), MAX_REFUSAL_BYTES) {
            "" => format!("it answered with HTTP status {status}"),
            text => format!("it answered with HTTP status {status}: {text}"),
        };
        let kind = match status {
            StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::GONE
            | StatusCode::NOT_IMPLEMENTED => TaskErrorKind::NotHere,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => TaskErrorKind::Denied,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
                TaskErrorKind::UnreadableFormat
            }
            _ => TaskErrorKind::Failed,
        };
        Self { message, kind }
    }
}

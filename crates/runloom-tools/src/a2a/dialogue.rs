//! The requests of one call: send, poll, cancel; each exactly once, except where an agent said that it is not there.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::card::{Binding, Endpoint, Generation, below};
use super::wire::{self, Outgoing, Reply, Spelling};
use crate::content::cut;
use crate::outbound::{Outbound, OutboundError, OutboundRequest};

/// JSON-RPC codes that say the method or the version is not spoken here, so that nothing was done.
const NOT_SPOKEN: &[i64] = &[-32601, -32009];

/// Bytes of a refusal that are repeated to the model.
const MAX_REFUSAL_BYTES: usize = 1000;

/// Why an endpoint gave no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Miss {
    /// Nothing that speaks this is here: nothing was done, the next address may be tried.
    Elsewhere(String),
    /// The agent refused or failed, or nobody knows what it did.
    Failed(String),
}

impl Miss {
    pub(super) fn words(&self) -> &str {
        match self {
            Self::Elsewhere(words) | Self::Failed(words) => words,
        }
    }
}

/// How to reach one agent.
#[derive(Debug, Clone)]
pub(super) struct Speaker {
    pub(super) outbound: Outbound,
    pub(super) headers: HeaderMap,
    pub(super) endpoint: Endpoint,
}

/// One request to an agent.
struct Ask {
    method: &'static str,
    params: Value,
    http: Method,
    path: String,
    within: Duration,
}

impl Speaker {
    /// Sends the message.
    pub(super) async fn send(&self, message: &Outgoing, within: Duration) -> Result<Reply, Miss> {
        let [method, _, _] = wire::methods(self.endpoint.generation);
        let mut missed = Miss::Failed("no way to write the message".to_owned());
        for spelling in self.spellings() {
            let tenant = self.endpoint.tenant.as_deref();
            let ask = Ask {
                method,
                params: wire::send_params(message, *spelling, tenant),
                http: Method::POST,
                path: self.path("/message:send"),
                within,
            };
            match self.ask(ask).await {
                Ok(result) => {
                    let words = "its answer is neither a message nor a task";
                    return Reply::read(&result).ok_or_else(|| Miss::Failed(words.to_owned()));
                }
                Err(Missed { miss, unreadable }) => {
                    missed = miss;
                    if !unreadable {
                        break;
                    }
                }
            }
        }
        Err(missed)
    }

    /// Asks how a task stands.
    pub(super) async fn get(&self, id: &str, within: Duration) -> Result<Reply, Miss> {
        let [_, method, _] = wire::methods(self.endpoint.generation);
        let ask = Ask {
            method,
            params: self.task_params(id),
            http: Method::GET,
            path: self.path(&format!("/tasks/{}", escaped(id))),
            within,
        };
        let result = self.ask(ask).await.map_err(|missed| missed.miss)?;
        Reply::read(&result).ok_or_else(|| Miss::Failed("its task cannot be read".to_owned()))
    }

    /// Asks for the end of a task.
    pub(super) async fn cancel(&self, id: &str, within: Duration) -> Result<(), Miss> {
        let [_, _, method] = wire::methods(self.endpoint.generation);
        let ask = Ask {
            method,
            params: self.task_params(id),
            http: Method::POST,
            path: self.path(&format!("/tasks/{}:cancel", escaped(id))),
            within,
        };
        self.ask(ask).await.map(drop).map_err(|missed| missed.miss)
    }

    fn task_params(&self, id: &str) -> Value {
        let mut params = json!({"id": id});
        if let Some(tenant) = &self.endpoint.tenant {
            params["tenant"] = json!(tenant);
        }
        params
    }

    fn spellings(&self) -> &'static [Spelling] {
        match (self.endpoint.binding, self.endpoint.generation) {
            (_, Generation::V10) => &[Spelling::Fields],
            (Binding::JsonRpc, Generation::V03) => &[Spelling::Kinds],
            (Binding::Rest, Generation::V03) if self.endpoint.exact => &[Spelling::Kinds],
            // The documents and protobuf disagree on 0.3 over HTTP; a message that cannot be read was not acted upon.
            (Binding::Rest, Generation::V03) => &[Spelling::Protobuf03, Spelling::Kinds],
        }
    }

    /// The path below the endpoint in its generation.
    fn path(&self, path: &str) -> String {
        match self.endpoint.generation {
            Generation::V03 => format!("/v1{path}"),
            Generation::V10 => path.to_owned(),
        }
    }

    async fn ask(&self, ask: Ask) -> Result<Value, Missed> {
        let within = ask.within;
        let request = match self.endpoint.binding {
            Binding::JsonRpc => {
                let body =
                    json!({"jsonrpc": "2.0", "id": 1, "method": ask.method, "params": ask.params});
                OutboundRequest::new(Method::POST, self.endpoint.url.clone()).body(body.to_string())
            }
            Binding::Rest => {
                let url = if self.endpoint.exact {
                    self.exact(&ask)
                } else {
                    below(&self.endpoint.url, &ask.path)
                };
                let request = OutboundRequest::new(ask.http.clone(), url);
                match ask.http {
                    Method::POST => request.body(ask.params.to_string()),
                    _ => request,
                }
            }
        };
        let request = request.headers(self.head()).within(within).keeping_method();
        let response = self.outbound.send(request).await.map_err(Missed::network)?;
        let status = response.status();
        let body = response.bytes().await.map_err(Missed::network)?;
        self.answer(status, &body)
    }

    /// A probed `message:send` stands for the whole agent: tasks lie beside it.
    fn exact(&self, ask: &Ask) -> reqwest::Url {
        let mut url = self.endpoint.url.clone();
        if let Some(task) = ask.path.strip_prefix("/v1/tasks/") {
            let path = url.path();
            let ending = ["/message:send", "/message/send"];
            let base = ending.iter().find_map(|end| path.strip_suffix(end));
            let path = format!("{}/tasks/{task}", base.unwrap_or_default());
            url.set_path(&path);
        }
        url
    }

    fn head(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.endpoint.generation == Generation::V10 {
            let version = HeaderName::from_static("a2a-version");
            headers.insert(version, HeaderValue::from_static("1.0"));
        }
        headers
    }

    fn answer(&self, status: StatusCode, body: &[u8]) -> Result<Value, Missed> {
        let parsed: Option<Value> = serde_json::from_slice(body).ok();
        if let Some(error) = parsed.as_ref().and_then(|body| body.get("error"))
            && self.endpoint.binding == Binding::JsonRpc
            && error.is_object()
        {
            return Err(Missed::rpc(error));
        }
        if !status.is_success() {
            return Err(Missed::status(status, body));
        }
        let Some(parsed) = parsed else {
            return Err(Missed::failed("its answer is not JSON"));
        };
        match self.endpoint.binding {
            Binding::Rest => Ok(parsed.get("result").cloned().unwrap_or(parsed)),
            Binding::JsonRpc => match parsed.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(Missed::failed("its answer is not JSON-RPC")),
            },
        }
    }
}

/// A [`Miss`], and whether the agent only could not read the spelling.
struct Missed {
    miss: Miss,
    unreadable: bool,
}

impl Missed {
    fn failed(words: impl Into<String>) -> Self {
        Self {
            miss: Miss::Failed(words.into()),
            unreadable: false,
        }
    }

    fn elsewhere(words: impl Into<String>) -> Self {
        Self {
            miss: Miss::Elsewhere(words.into()),
            unreadable: false,
        }
    }

    fn network(error: OutboundError) -> Self {
        if error.is_unsent() {
            return Self::elsewhere(error.to_string());
        }
        Self::failed(format!("{error}; what the agent did is unknown"))
    }

    fn rpc(error: &Value) -> Self {
        let code = error
            .get("code")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let text = error.get("message").and_then(Value::as_str);
        let text = cut(text.unwrap_or("no reason given"), MAX_REFUSAL_BYTES);
        let words = format!("it answered with error {code}: {text}");
        if NOT_SPOKEN.contains(&code) {
            return Self::elsewhere(words);
        }
        Self::failed(words)
    }

    fn status(status: StatusCode, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let words = match cut(text.trim(), MAX_REFUSAL_BYTES) {
            "" => format!("it answered with HTTP status {status}"),
            text => format!("it answered with HTTP status {status}: {text}"),
        };
        let gone = [
            StatusCode::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED,
            StatusCode::GONE,
            StatusCode::NOT_IMPLEMENTED,
        ];
        if gone.contains(&status) {
            return Self::elsewhere(words);
        }
        Self {
            miss: Miss::Failed(words),
            unreadable: matches!(
                status,
                StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY
            ),
        }
    }
}

/// An id as one segment of a path.
fn escaped(id: &str) -> String {
    use std::fmt::Write as _;
    id.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

//! Records the request and the response of a call, without credentials, for `runloom models test`. Other calls have no
//! recorder and pay nothing.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::HeaderMap;
use runloom_ports::secret::Secret;
use serde::Serialize;

use crate::error;
use crate::http_call::HttpCall;

/// Longest recorded body, in bytes.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// Response headers that help with debugging. Others, such as cookies, are not recorded.
const RECORDED_HEADERS: &[&str] = &[
    "apim-request-id",
    "cf-ray",
    "content-type",
    "location",
    "openai-processing-ms",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "server",
    "www-authenticate",
    "x-amzn-errortype",
    "x-amzn-requestid",
    "x-request-id",
    "x-should-retry",
];

/// A request and its response, without credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecordedCall {
    /// The request.
    pub sent: RecordedRequest,
    /// The response, if there was one.
    pub received: Option<RecordedResponse>,
}

/// A recorded request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecordedRequest {
    /// HTTP method.
    pub method: &'static str,
    /// Full URL; credentials are `***`.
    pub url: String,
    /// Names and values; credentials are `***`.
    pub headers: Vec<(String, String)>,
    /// The beginning of the body.
    pub body: String,
}

/// A recorded response.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RecordedResponse {
    /// HTTP status.
    pub status: u16,
    /// Names and values of the recorded headers.
    pub headers: Vec<(String, String)>,
    /// The beginning of the body.
    pub body: String,
}

/// Keeps the last call that was made with it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CallRecorder {
    last: Arc<Mutex<Option<Recording>>>,
}

#[derive(Debug, Default)]
struct Recording {
    sent: RecordedRequest,
    received: Option<RecordedResponse>,
    body: Vec<u8>,
    secrets: Vec<Secret>,
}

impl CallRecorder {
    /// The last call, if there was one.
    #[must_use]
    pub fn last(&self) -> Option<RecordedCall> {
        let recording = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let recording = recording.as_ref()?;
        let mut received = recording.received.clone();
        if let Some(received) = &mut received {
            received.body = shown(&recording.body, &recording.secrets);
        }
        Some(RecordedCall {
            sent: recording.sent.clone(),
            received,
        })
    }

    /// Records a request and forgets the call before it.
    pub(crate) fn record_request(&self, call: &HttpCall, secrets: &[Secret]) {
        self.change(|recording| {
            *recording = Recording {
                sent: RecordedRequest {
                    method: "POST",
                    url: error::without_secrets(&call.url, secrets),
                    headers: call
                        .headers
                        .iter()
                        .map(|(name, value)| {
                            let value = if value.is_sensitive() || is_credential(name.as_str()) {
                                "***".to_owned()
                            } else {
                                shown(value.as_bytes(), secrets)
                            };
                            (name.as_str().to_owned(), value)
                        })
                        .collect(),
                    body: shown(&call.body.to_vec(), secrets),
                },
                secrets: secrets.to_vec(),
                ..Recording::default()
            };
        });
    }

    /// Records the head of the response.
    pub(crate) fn record_head(&self, status: u16, headers: &HeaderMap) {
        self.change(|recording| {
            let headers = headers.iter().filter(|(name, _)| {
                RECORDED_HEADERS.contains(&name.as_str()) || name.as_str().contains("ratelimit")
            });
            recording.received = Some(RecordedResponse {
                status,
                headers: headers
                    .map(|(name, value)| {
                        let value = shown(value.as_bytes(), &recording.secrets);
                        (name.as_str().to_owned(), value)
                    })
                    .collect(),
                body: String::new(),
            });
        });
    }

    /// Records more of the response body.
    pub(crate) fn record_chunk(&self, bytes: &[u8]) {
        self.change(|recording| {
            // One byte more than is shown marks the body as cut.
            let room = (MAX_BODY_BYTES + 1).saturating_sub(recording.body.len());
            recording
                .body
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Recording)) {
        let mut recording = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        change(recording.get_or_insert_default());
    }
}

/// Whether a header holds a credential, even if no adapter has marked its value as sensitive.
fn is_credential(header: &str) -> bool {
    matches!(
        header,
        "authorization" | "api-key" | "x-api-key" | "x-goog-api-key" | "x-amz-security-token"
    )
}

/// The beginning of a header value or body, as text and without credentials.
fn shown(bytes: &[u8], secrets: &[Secret]) -> String {
    let beginning = &bytes[..bytes.len().min(MAX_BODY_BYTES)];
    let mut text = error::without_secrets(&String::from_utf8_lossy(beginning), secrets);
    if bytes.len() > MAX_BODY_BYTES {
        text.push_str(" …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    #[test]
    fn cuts_long_bodies_and_hides_credentials() {
        let recorder = CallRecorder::default();
        assert_eq!(recorder.last(), None);
        let secrets = [Secret::new("very-secret")];
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "very-secret".parse().unwrap());
        headers.insert("x-plain", "yes".parse().unwrap());
        let request = HttpCall {
            url: "http://h/?key=very-secret".to_owned(),
            headers,
            body: Payload::of(vec![vec![b'a'; MAX_BODY_BYTES + 10].into()]),
        };
        recorder.record_request(&request, &secrets);
        let mut response = HeaderMap::new();
        response.insert("retry-after", "3".parse().unwrap());
        response.insert("set-cookie", "c".parse().unwrap());
        recorder.record_head(429, &response);
        for _ in 0..3 {
            recorder.record_chunk(&vec![b'b'; MAX_BODY_BYTES]);
        }
        recorder.record_chunk(b"very-secret");
        let call = recorder.last().unwrap();
        assert_eq!(call.sent.url, "http://h/?key=***");
        assert_eq!(call.sent.body.len(), MAX_BODY_BYTES + " …".len());
        let received = call.received.clone().unwrap();
        assert_eq!(
            received.headers,
            [("retry-after".to_owned(), "3".to_owned())]
        );
        assert_eq!(received.body.len(), MAX_BODY_BYTES + " …".len());
        let all = serde_json::to_string(&call).unwrap();
        assert!(!all.contains("very-secret"), "{all}");
        assert!(all.contains(r#"["x-plain","yes"]"#), "{all}");
    }
}

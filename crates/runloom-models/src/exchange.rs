//! What went over the wire in one call, for the person who looks for the fault. Only who asks for it pays for it.

use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::HeaderMap;
use serde::Serialize;

use crate::error;
use crate::http::HttpCall;
use crate::settings::Secret;

/// How much of a body is kept, in bytes.
const MAX_BODY_BYTES: usize = 16 * 1024;

/// Headers of an answer that help to find a fault; the others are noise, or a cookie.
const OF_INTEREST: &[&str] = &[
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

/// One request and what came back, without credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// The request.
    pub sent: Sent,
    /// The answer, as far as there was one.
    pub received: Option<Received>,
}

/// A request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// HTTP method.
    pub method: &'static str,
    /// Where to.
    pub url: String,
    /// Names and values; credentials are `***`.
    pub headers: Vec<(String, String)>,
    /// The beginning of the body.
    pub body: String,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Received {
    /// HTTP status.
    pub status: u16,
    /// Those that help to find a fault.
    pub headers: Vec<(String, String)>,
    /// The beginning of the body.
    pub body: String,
}

/// Keeps the last exchange of the calls that are made with it.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    last: Arc<Mutex<Option<Tape>>>,
}

#[derive(Debug, Default)]
struct Tape {
    sent: Sent,
    received: Option<Received>,
    body: Vec<u8>,
    secrets: Vec<Secret>,
}

impl Recorder {
    /// The last exchange, when there was one.
    #[must_use]
    pub fn last(&self) -> Option<Exchange> {
        let tape = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let tape = tape.as_ref()?;
        let mut received = tape.received.clone();
        if let Some(received) = &mut received {
            received.body = shown(&tape.body, &tape.secrets);
        }
        Some(Exchange {
            sent: tape.sent.clone(),
            received,
        })
    }

    pub(crate) fn sent(&self, call: &HttpCall, secrets: &[Secret]) {
        self.change(|tape| {
            *tape = Tape {
                sent: Sent {
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
                ..Tape::default()
            };
        });
    }

    pub(crate) fn answered(&self, status: u16, headers: &HeaderMap) {
        self.change(|tape| {
            let headers = headers.iter().filter(|(name, _)| {
                OF_INTEREST.contains(&name.as_str()) || name.as_str().contains("ratelimit")
            });
            tape.received = Some(Received {
                status,
                headers: headers
                    .map(|(name, value)| {
                        let value = shown(value.as_bytes(), &tape.secrets);
                        (name.as_str().to_owned(), value)
                    })
                    .collect(),
                body: String::new(),
            });
        });
    }

    pub(crate) fn read(&self, bytes: &[u8]) {
        self.change(|tape| {
            // One byte more than is shown tells that there was more.
            let room = (MAX_BODY_BYTES + 1).saturating_sub(tape.body.len());
            tape.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Tape)) {
        let mut tape = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        change(tape.get_or_insert_default());
    }
}

/// A signature or a token, also where no adapter has marked it.
fn is_credential(header: &str) -> bool {
    matches!(
        header,
        "authorization" | "api-key" | "x-api-key" | "x-goog-api-key" | "x-amz-security-token"
    )
}

/// The beginning of something, as text and without credentials.
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
    fn long_bodies_are_cut_and_credentials_hidden() {
        let recorder = Recorder::default();
        assert_eq!(recorder.last(), None);
        let secrets = [Secret::new("very-secret")];
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "very-secret".parse().unwrap());
        headers.insert("x-plain", "yes".parse().unwrap());
        let call = HttpCall {
            url: "http://h/?key=very-secret".to_owned(),
            headers,
            body: Payload::of(vec![vec![b'a'; MAX_BODY_BYTES + 10].into()]),
        };
        recorder.sent(&call, &secrets);
        let mut answer = HeaderMap::new();
        answer.insert("retry-after", "3".parse().unwrap());
        answer.insert("set-cookie", "c".parse().unwrap());
        recorder.answered(429, &answer);
        for _ in 0..3 {
            recorder.read(&vec![b'b'; MAX_BODY_BYTES]);
        }
        recorder.read(b"very-secret");
        let exchange = recorder.last().unwrap();
        assert_eq!(exchange.sent.url, "http://h/?key=***");
        assert_eq!(exchange.sent.body.len(), MAX_BODY_BYTES + " …".len());
        let received = exchange.received.clone().unwrap();
        assert_eq!(
            received.headers,
            [("retry-after".to_owned(), "3".to_owned())]
        );
        assert_eq!(received.body.len(), MAX_BODY_BYTES + " …".len());
        let all = serde_json::to_string(&exchange).unwrap();
        assert!(!all.contains("very-secret"), "{all}");
        assert!(all.contains(r#"["x-plain","yes"]"#), "{all}");
    }
}

//! Framing of AWS's binary event stream.
//!
//! A message has a length, headers, a payload and two checksums. The payload of a `chunk` is `{"bytes": "<base64>"}`,
//! whose bytes are one event of the Messages API. An exception is a message of another type.

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use runloom_ports::model::ModelError;
use runloom_protocol::outcome::ErrorClass;
use serde::Deserialize;
use serde_json::Value;

use crate::decode::{Framing, OnFrame};
use crate::error::{self, ErrorBody};
use crate::sse::MAX_EVENT_BYTES;

/// Length of the message, length of the headers, checksum of both.
const PRELUDE_BYTES: usize = 12;

/// The prelude and the checksum of the message.
const MIN_MESSAGE_BYTES: usize = PRELUDE_BYTES + 4;

/// Parser state between two chunks.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    buffer: Vec<u8>,
}

#[derive(Debug, Deserialize)]
struct ChunkPayload<'a> {
    #[serde(borrow, default)]
    bytes: std::borrow::Cow<'a, str>,
}

impl Framing for Frames {
    fn feed(&mut self, bytes: &[u8], on_frame: &mut OnFrame<'_>) -> Result<(), ModelError> {
        self.buffer.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(length) = message_length(&self.buffer[start..])? {
            let end = start + length;
            let Some(whole) = self.buffer.get(start..end) else {
                break;
            };
            let message =
                read_message_from(whole).map_err(|failure| broken(&failure.to_string()))?;
            read(&message, on_frame)?;
            start = end;
        }
        self.buffer.drain(..start);
        Ok(())
    }

    fn finish(&mut self, _on_frame: &mut OnFrame<'_>) -> Result<(), ModelError> {
        // An incomplete message is ignored; the decoder reports the incomplete response.
        Ok(())
    }
}

/// Length of the message that begins here, once its prelude has come.
fn message_length(bytes: &[u8]) -> Result<Option<usize>, ModelError> {
    let Some(prelude) = bytes.first_chunk::<PRELUDE_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([prelude[0], prelude[1], prelude[2], prelude[3]]) as usize;
    if (MIN_MESSAGE_BYTES..=MAX_EVENT_BYTES).contains(&length) {
        Ok(Some(length))
    } else {
        Err(broken(&format!("a message of {length} bytes")))
    }
}

fn read(message: &Message, on_frame: &mut OnFrame<'_>) -> Result<(), ModelError> {
    match header(message, ":message-type") {
        Some("exception") => Err(exception(message, header(message, ":exception-type"))),
        Some("error") => {
            let mut body =
                ErrorBody::default().with_code(header(message, ":error-code").unwrap_or_default());
            body.message = header(message, ":error-message")
                .unwrap_or_default()
                .to_owned();
            Err(error::from_stream(body))
        }
        _ if header(message, ":event-type") == Some("chunk") => {
            let payload: ChunkPayload<'_> = serde_json::from_slice(message.payload())
                .map_err(|failure| error::unreadable_frame(&failure))?;
            let event = STANDARD
                .decode(payload.bytes.as_bytes())
                .map_err(|_| broken("a chunk that is not base64"))?;
            on_frame(None, &event)
        }
        // Unknown types are ignored.
        _ => Ok(()),
    }
}

fn exception(message: &Message, kind: Option<&str>) -> ModelError {
    let payload: Value = serde_json::from_slice(message.payload()).unwrap_or_default();
    let mut body = ErrorBody::from_value(&payload).with_code(kind.unwrap_or("exception"));
    // The status of the model's own failure, if Bedrock passes one on.
    body.status = payload
        .get("originalStatusCode")
        .and_then(Value::as_u64)
        .and_then(|status| u16::try_from(status).ok())
        .filter(|status| (400..600).contains(status));
    error::from_stream(body)
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    let header = message
        .headers()
        .iter()
        .find(|header| header.name().as_str() == name)?;
    header.value().as_string().ok().map(|value| value.as_str())
}

fn broken(what: &str) -> ModelError {
    ModelError::new(
        ErrorClass::Server,
        format!("the provider's event stream is broken: {what}"),
    )
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;

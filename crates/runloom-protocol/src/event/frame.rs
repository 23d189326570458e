//! The SSE frame: the bytes that are stored, streamed and read back.
//!
//! `id: <seq>\nevent: <kind>\ndata: {"seq":…,"type":…,…payload,"data":{…payload}}\n\n`. This is the hottest path of the
//! server: a frame is written straight into the buffer it is sent from, and its payload is serialised once.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Event, Sequenced, TextDelta};

/// Bytes of a frame beside its payload, generously: both numbers, both kinds, the fixed text.
const ENVELOPE_BYTES: usize = 160;

/// Why a frame is no event.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Of a newer version: this one decides nothing by it.
    #[error("unknown event type `{0}`")]
    Unknown(String),
    /// Not what this or any other version wrote.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
}

impl Event {
    /// Writes the event as the SSE frame that is stored and streamed: the payload stands both at the top level and
    /// under `data`, because the SDKs differ in where they read it. `out` keeps what it had; on an error it is as
    /// before.
    ///
    /// # Errors
    /// When the payload cannot be serialised, which no payload of this crate can cause.
    pub fn write_frame(&self, seq: u64, out: &mut BytesMut) -> Result<(), serde_json::Error> {
        let start = out.len();
        let written = self.write_parts(seq, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn write_parts(&self, seq: u64, out: &mut BytesMut) -> Result<(), serde_json::Error> {
        if let Self::AssistantDelta(delta) | Self::ThinkingDelta(delta) = self {
            out.reserve(ENVELOPE_BYTES + 2 * delta.text.len());
        }
        let kind = self.kind().as_bytes();
        let mut digits = [0; 20];
        let seq = decimal(seq, &mut digits);
        for part in [b"id: ", seq, b"\nevent: ", kind, b"\ndata: {\"seq\":", seq] {
            out.put_slice(part);
        }
        for part in [b",\"type\":\"".as_slice(), kind, b"\""] {
            out.put_slice(part);
        }
        let payload = out.len();
        self.write_payload(out)?;
        mirror_payload(payload, out);
        out.put_slice(b"}}\n\n");
        Ok(())
    }

    fn write_payload(&self, out: &mut BytesMut) -> Result<(), serde_json::Error> {
        match self {
            Self::Started(p) => write_json(p, out),
            Self::AssistantDelta(p) | Self::ThinkingDelta(p) => write_delta(p, out),
            Self::AssistantMessage(p) => write_json(p, out),
            Self::TurnRestarted(p) => write_json(p, out),
            Self::ModelFallback(p) => write_json(p, out),
            Self::ToolCall(p) => write_json(p, out),
            Self::ToolResult(p) => write_json(p, out),
            Self::ToolFiles(p) => write_json(p, out),
            Self::LocalToolCall(p) => write_json(p, out),
            Self::LocalToolResultIn(p) => write_json(p, out),
            Self::LoopDetected(p) => write_json(p, out),
            Self::ToolBudgetExceeded(p) => write_json(p, out),
            Self::Result(p) => write_json(p, out),
            Self::Error(p) => write_json(p, out),
            Self::Cancelled(p) => write_json(p, out),
        }
    }

    fn from_payload(kind: &str, data: &str) -> Result<Self, FrameError> {
        Ok(match kind {
            "started" => Self::Started(serde_json::from_str(data)?),
            "assistant_delta" => Self::AssistantDelta(serde_json::from_str(data)?),
            "thinking_delta" => Self::ThinkingDelta(serde_json::from_str(data)?),
            "assistant_message" => Self::AssistantMessage(serde_json::from_str(data)?),
            "turn_restarted" => Self::TurnRestarted(serde_json::from_str(data)?),
            "model_fallback" => Self::ModelFallback(serde_json::from_str(data)?),
            "tool_call" => Self::ToolCall(serde_json::from_str(data)?),
            "tool_result" => Self::ToolResult(serde_json::from_str(data)?),
            "tool_files" => Self::ToolFiles(serde_json::from_str(data)?),
            "local_tool_call" => Self::LocalToolCall(serde_json::from_str(data)?),
            "local_tool_result_in" => Self::LocalToolResultIn(serde_json::from_str(data)?),
            "loop_detected" => Self::LoopDetected(serde_json::from_str(data)?),
            "tool_budget_exceeded" => Self::ToolBudgetExceeded(serde_json::from_str(data)?),
            "result" => Self::Result(serde_json::from_str(data)?),
            "error" => Self::Error(serde_json::from_str(data)?),
            "cancelled" => Self::Cancelled(serde_json::from_str(data)?),
            other => return Err(FrameError::Unknown(other.to_owned())),
        })
    }
}

fn write_json(payload: &impl Serialize, out: &mut BytesMut) -> Result<(), serde_json::Error> {
    serde_json::to_writer(out.writer(), payload)
}

/// What [`write_json`] would write, without the detour: most events are deltas, and most of them have nothing to escape.
fn write_delta(delta: &TextDelta, out: &mut BytesMut) -> Result<(), serde_json::Error> {
    let TextDelta { text } = delta;
    out.put_slice(b"{\"text\":");
    if text
        .bytes()
        .any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\')
    {
        write_json(text, out)?;
    } else {
        for part in [b"\"", text.as_bytes(), b"\""] {
            out.put_slice(part);
        }
    }
    out.put_u8(b'}');
    Ok(())
}

/// Turns the object `{…}` that stands from `at` to the end into `,…,"data":{…`: its braces become the commas that the
/// flat copy needs, and its inside is copied once more. The caller closes both objects.
fn mirror_payload(at: usize, out: &mut BytesMut) {
    const NESTED: &[u8] = b"\"data\":{";
    let inside = at + 1..out.len().saturating_sub(1);
    if inside.is_empty() {
        out.truncate(at);
        out.put_u8(b',');
        out.put_slice(NESTED);
        return;
    }
    out[at] = b',';
    out[inside.end] = b',';
    out.reserve(NESTED.len() + inside.len() + 4);
    out.put_slice(NESTED);
    let copy = out.len();
    out.resize(copy + inside.len(), 0);
    out.copy_within(inside, copy);
}

/// The digits of `number`, written from the end of `buffer`; 20 digits hold every `u64`.
fn decimal(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 || at == 0 {
            return &buffer[at..];
        }
    }
}

/// Splits a run of frames into single frames, each with its closing blank line. JSON has no raw line ends, so the
/// blank line cannot stand inside a frame. Bytes after the last blank line are not a frame and are left out.
pub fn split_frames(frames: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memmem::find_iter(frames, b"\n\n").map(move |blank| {
        let frame = &frames[start..blank + 2];
        start = blank + 2;
        frame
    })
}

/// The JSON of a frame that [`Event::write_frame`] wrote.
#[must_use]
pub fn frame_json(frame: &[u8]) -> Option<&[u8]> {
    const DATA: &[u8] = b"\ndata: ";
    let start = memmem::find(frame, DATA)? + DATA.len();
    frame.get(start..)?.strip_suffix(b"\n\n")
}

/// The word on the `event:` line of a frame, without reading its JSON. `None` for a comment and for anything else
/// that has no such line before its data.
#[must_use]
pub fn kind_of_frame(frame: &[u8]) -> Option<&str> {
    let line = frame
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.starts_with(b"data:"))
        .find_map(|line| line.strip_prefix(b"event:"))?;
    std::str::from_utf8(line.strip_prefix(b" ").unwrap_or(line)).ok()
}

/// Reads a frame back. `None` when it has no data, as a heartbeat comment; an error when the data is not an event
/// that this version knows, or cannot be read.
#[must_use]
pub fn parse_frame(frame: &[u8]) -> Option<Result<Sequenced, FrameError>> {
    frame_json(frame).map(parse_json)
}

/// The nested payload is taken as it stands and parsed once; the flat copy is only skipped over.
fn parse_json(json: &[u8]) -> Result<Sequenced, FrameError> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        seq: u64,
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        data: &'a RawValue,
    }
    let envelope: Envelope<'_> = serde_json::from_slice(json)?;
    Ok(Sequenced {
        seq: envelope.seq,
        event: Event::from_payload(&envelope.kind, envelope.data.get())?,
    })
}

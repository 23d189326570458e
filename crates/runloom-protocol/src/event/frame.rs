//! The SSE frame: the bytes that are stored, streamed and read back.
//!
//! `id: <seq>\nevent: <kind>\ndata: {"seq":…,"type":…,"at":…,…payload,"data":{…payload}}\n\n`. This is the hottest path
//! of the server: a frame is written straight into the buffer it is sent from, and its payload is serialised once.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::{Event, EventKind, Sequenced, TextDelta};

/// Upper bound of a frame's bytes beside its payload: the three numbers, both kinds, the fixed text.
const ENVELOPE_BYTES: usize = 190;

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// An event of a newer version; it can be skipped.
    #[error("unknown event type `{0}`")]
    Unknown(String),
    /// The frame is damaged.
    #[error(transparent)]
    Unreadable(#[from] serde_json::Error),
}

impl Event {
    /// Appends the event to `out` as the SSE frame that is stored and streamed. The payload stands both at the top
    /// level and under `data`, because SDKs read it from either place. `at` is the time of writing in milliseconds
    /// since 1970. On an error, `out` is unchanged.
    ///
    /// # Errors
    /// When the payload cannot be serialised, which no payload of this crate can cause.
    pub fn write_frame(
        &self,
        seq: u64,
        at: u64,
        out: &mut BytesMut,
    ) -> Result<(), serde_json::Error> {
        let start = out.len();
        let written = self.write_parts(seq, at, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn write_parts(&self, seq: u64, at: u64, out: &mut BytesMut) -> Result<(), serde_json::Error> {
        if let Self::AssistantDelta(delta) | Self::ThinkingDelta(delta) = self {
            out.reserve(ENVELOPE_BYTES + 2 * delta.text.len());
        }
        let kind = self.kind().as_str().as_bytes();
        let mut digits = [0; 20];
        let seq = decimal(seq, &mut digits);
        for part in [b"id: ", seq, b"\nevent: ", kind, b"\ndata: {\"seq\":", seq] {
            out.put_slice(part);
        }
        let mut digits = [0; 20];
        let at = decimal(at, &mut digits);
        for part in [b",\"type\":\"".as_slice(), kind, b"\",\"at\":", at] {
            out.put_slice(part);
        }
        let payload = out.len();
        self.write_payload(out)?;
        mirror_payload(payload, out);
        out.put_slice(b"}}\n\n");
        Ok(())
    }

    fn write_payload(&self, out: &mut BytesMut) -> Result<(), serde_json::Error> {
        if let Self::AssistantDelta(delta) | Self::ThinkingDelta(delta) = self {
            return write_delta(delta, out);
        }
        // serde writes `{"type":"…","data":{…}}`; the payload is moved to the front.
        let start = out.len();
        write_json(self, out)?;
        let head = "{\"type\":\"\",\"data\":".len() + self.kind().as_str().len();
        let payload = start + head..out.len().saturating_sub(1);
        let length = payload.len();
        out.copy_within(payload, start);
        out.truncate(start + length);
        Ok(())
    }
}

fn write_json(payload: &impl Serialize, out: &mut BytesMut) -> Result<(), serde_json::Error> {
    serde_json::to_writer(out.writer(), payload)
}

/// Writes what [`write_json`] would. Most events are deltas, and most deltas have nothing to escape.
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

/// Turns the object `{…}` from `at` to the end into `,…,"data":{…`: its braces become commas, and its content is
/// copied. The caller closes both objects.
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

/// Splits bytes into frames, each with its closing blank line. JSON has no raw line ends, so a blank line never
/// stands inside a frame. Bytes after the last blank line are left out.
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

/// The kind on the `event:` line of a frame, without reading its JSON. `None` for a comment, for a kind of a newer
/// version, and for anything else that has no such line before its data.
#[must_use]
pub fn frame_kind(frame: &[u8]) -> Option<EventKind> {
    let line = frame
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.starts_with(b"data:"))
        .find_map(|line| line.strip_prefix(b"event:"))?;
    let word = std::str::from_utf8(line.strip_prefix(b" ").unwrap_or(line)).ok()?;
    EventKind::parse(word)
}

/// Reads a frame back. `None` when it has no data, like a heartbeat comment.
///
/// # Errors
/// When the data is not an event that this version knows, or cannot be read.
#[must_use]
pub fn parse_frame(frame: &[u8]) -> Option<Result<Sequenced, FrameError>> {
    frame_json(frame).map(parse_json)
}

/// serde finds the payload by `type` and `data`; the flat copy is only skipped over.
fn parse_json(json: &[u8]) -> Result<Sequenced, FrameError> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        seq: u64,
        #[serde(default)]
        at: Option<u64>,
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    let Envelope { seq, at, kind } = serde_json::from_slice(json)?;
    if EventKind::parse(&kind).is_none() {
        return Err(FrameError::Unknown(kind.into_owned()));
    }
    Ok(Sequenced {
        seq,
        at,
        event: serde_json::from_slice(json)?,
    })
}

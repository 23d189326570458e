//! Server-sent events, read incrementally.
//!
//! Follows the HTML standard's line rules (LF, CR, CRLF, a BOM at the start, comments, several `data` lines, `event`
//! names), with one liberty: complete lines that no blank line terminated are handed on when the connection closes,
//! because some servers leave the last blank line out. An event that lies in one chunk and has one `data` line is
//! handed on without a copy; every byte is looked at once.

use memchr::memchr2;
use runloom_ports::model::ModelError;
use runloom_protocol::outcome::ErrorClass;

use crate::decode::{Framing, OnFrame};

/// Upper bound of one event, in bytes: images and encrypted reasoning come in one event, nothing larger does.
pub(crate) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Buffers that grew beyond this, in bytes, are given back after the event.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The state between two chunks.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    /// How much of a BOM the stream began with; `None` once that is settled.
    start: Start,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// A line whose end has not come.
    line: Vec<u8>,
    /// The `data` lines of the event so far, joined with LF.
    data: Vec<u8>,
    has_data: bool,
    /// Empty when the event has no name.
    name: String,
}

#[derive(Debug, Clone, Copy)]
enum Start {
    /// So many bytes of a BOM were seen.
    Bom(usize),
    Settled,
}

impl Default for Start {
    fn default() -> Self {
        Self::Bom(0)
    }
}

impl Framing for Sse {
    fn feed(&mut self, bytes: &[u8], on_frame: &mut OnFrame<'_>) -> Result<(), ModelError> {
        let mut rest = self.skip_bom(bytes);
        // The first `data` line of the event, as long as it can be handed on where it lies.
        let mut pending: Option<&[u8]> = None;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.check_size(rest.len() + pending.map_or(0, <[u8]>::len))?;
                self.line.extend_from_slice(rest);
                break;
            };
            let line = &rest[..end];
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if self.line.is_empty() {
                self.read_line(line, &mut pending, on_frame)?;
            } else {
                self.check_size(line.len())?;
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.read_split_line(&whole, &mut pending, on_frame)?;
                self.line = recycled(whole);
            }
        }
        self.keep(&mut pending)
    }

    fn finish(&mut self, on_frame: &mut OnFrame<'_>) -> Result<(), ModelError> {
        self.dispatch(&mut None, on_frame)
    }
}

impl Sse {
    fn skip_bom<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let Start::Bom(seen) = self.start {
            let Some((first, rest)) = bytes.split_first() else {
                return bytes;
            };
            if *first != BOM[seen] {
                // Not a BOM after all: what looked like one is the beginning of the first line.
                self.line.extend_from_slice(&BOM[..seen]);
                self.start = Start::Settled;
                return bytes;
            }
            bytes = rest;
            self.start = if seen + 1 == BOM.len() {
                Start::Settled
            } else {
                Start::Bom(seen + 1)
            };
        }
        bytes
    }

    fn read_line<'a>(
        &mut self,
        line: &'a [u8],
        pending: &mut Option<&'a [u8]>,
        on_frame: &mut OnFrame<'_>,
    ) -> Result<(), ModelError> {
        let (field, value) = split_field(line);
        match field {
            _ if line.is_empty() => return self.dispatch(pending, on_frame),
            b"data" if !self.has_data => {
                self.has_data = true;
                *pending = Some(value);
            }
            b"data" => {
                self.keep(pending)?;
                self.append(value)?;
            }
            b"event" => self.set_name(value),
            _ => {}
        }
        Ok(())
    }

    /// A line that came in several chunks: its data must be copied, because the line's buffer is used again.
    fn read_split_line(
        &mut self,
        line: &[u8],
        pending: &mut Option<&[u8]>,
        on_frame: &mut OnFrame<'_>,
    ) -> Result<(), ModelError> {
        let mut own = None;
        match split_field(line) {
            (b"data", value) if self.has_data => {
                self.keep(pending)?;
                self.append(value)
            }
            _ => {
                self.read_line(line, &mut own, on_frame)?;
                self.keep(&mut own)
            }
        }
    }

    /// Copies a `data` line that must outlive its chunk.
    fn keep(&mut self, pending: &mut Option<&[u8]>) -> Result<(), ModelError> {
        if let Some(data) = pending.take() {
            self.check_size(data.len())?;
            self.data.extend_from_slice(data);
        }
        Ok(())
    }

    fn append(&mut self, value: &[u8]) -> Result<(), ModelError> {
        self.check_size(value.len() + 1)?;
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn set_name(&mut self, value: &[u8]) {
        // No vendor's event name is long: a longer one cannot be known, and need not be kept.
        let value = &value[..value.len().min(256)];
        self.name.clear();
        match std::str::from_utf8(value) {
            Ok(name) => self.name.push_str(name),
            Err(_) => self.name.push_str(&String::from_utf8_lossy(value)),
        }
    }

    fn dispatch(
        &mut self,
        pending: &mut Option<&[u8]>,
        on_frame: &mut OnFrame<'_>,
    ) -> Result<(), ModelError> {
        let mut outcome = Ok(());
        if std::mem::take(&mut self.has_data) {
            let name = Some(self.name.as_str()).filter(|name| !name.is_empty());
            if let Some(data) = pending.take() {
                outcome = on_frame(name, data);
            } else {
                outcome = on_frame(name, &self.data);
                self.data = recycled(std::mem::take(&mut self.data));
            }
        }
        self.name.clear();
        outcome
    }

    fn check_size(&self, more: usize) -> Result<(), ModelError> {
        if self.line.len() + self.data.len() + more > MAX_EVENT_BYTES {
            return Err(ModelError::new(
                ErrorClass::Server,
                format!("the provider sent an event larger than {MAX_EVENT_BYTES} bytes"),
            ));
        }
        Ok(())
    }
}

fn recycled(mut buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() > KEPT_BUFFER_BYTES {
        return Vec::new();
    }
    buffer.clear();
    buffer
}

/// The field's name and its value, without the one space that may follow the colon.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b':', line) {
        None => (line, b""),
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;

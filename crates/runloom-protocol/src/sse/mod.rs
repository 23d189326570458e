//! An incremental parser of server-sent events: bytes in, events out.
//!
//! It follows the line rules of the HTML standard (LF, CR, CRLF, a BOM at the start, comments, several `data` lines,
//! `event` names); `id` and `retry` are ignored. An event that lies in one chunk and has one `data` line is passed on
//! without a copy, and every byte is looked at once. What must be kept between two chunks is bounded.

#[cfg(test)]
mod tests;

use memchr::{memchr, memchr2};

/// Buffers that grew beyond this, in bytes, are released after the event.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;

/// Bytes of an event's name that are kept; a longer name cannot be a known one.
const NAME_MAX_BYTES: usize = 256;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The last `event:` line; `None` when there was none or it was empty.
    pub name: Option<&'a str>,
    /// The `data:` lines, joined with LF.
    pub data: &'a [u8],
}

/// Why parsing stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError<E> {
    /// An unterminated line or event has more bytes than allowed.
    #[error("an event of the stream is larger than {0} bytes")]
    TooLarge(usize),
    /// The receiver of the events refused one.
    #[error(transparent)]
    Receiver(#[from] E),
}

/// The state between two chunks.
#[derive(Debug)]
pub struct SseParser {
    max_event_bytes: usize,
    /// How much of a BOM the stream began with.
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
    /// Number of bytes of a BOM that were read.
    Bom(usize),
    Settled,
}

/// The bytes of a chunk that are waiting for their event's end, and the receiver of events.
struct Chunk<'c, R> {
    /// The first `data` line of the event, as long as it can be passed on where it lies.
    pending: Option<&'c [u8]>,
    receiver: R,
}

impl SseParser {
    /// A parser that refuses events of more than `max_event_bytes`, as far as it has to keep them between two chunks.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            start: Start::Bom(0),
            after_cr: false,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: String::new(),
        }
    }

    /// Takes the next bytes, which may end anywhere, and passes each event that they complete to `receiver`.
    ///
    /// # Errors
    /// When an event is too large, or the receiver refuses one. The parser must not be used again.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        receiver: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), SseError<E>> {
        let mut rest = self.skip_bom(bytes);
        let mut chunk = Chunk {
            pending: None,
            receiver,
        };
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.check_size(rest.len() + chunk.pending.map_or(0, <[u8]>::len))?;
                self.line.extend_from_slice(rest);
                break;
            };
            let line = &rest[..end];
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if self.line.is_empty() {
                self.read_line(line, &mut chunk)?;
            } else {
                self.check_size(line.len())?;
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                self.read_split_line(&whole, &mut chunk)?;
                self.line = emptied(whole);
            }
        }
        self.keep(&mut chunk.pending)
    }

    /// Passes on the event whose lines are complete although no blank line ended it: some servers leave the last one
    /// out. For streams whose connection was closed in order.
    ///
    /// # Errors
    /// When the receiver refuses the event.
    pub fn finish<E>(
        &mut self,
        receiver: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), SseError<E>> {
        self.dispatch(&mut Chunk {
            pending: None,
            receiver,
        })
    }

    fn skip_bom<'c>(&mut self, mut bytes: &'c [u8]) -> &'c [u8] {
        while let Start::Bom(seen) = self.start {
            let Some((first, rest)) = bytes.split_first() else {
                return bytes;
            };
            if *first != BOM[seen] {
                // Not a BOM after all: its bytes are the beginning of the first line.
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

    fn read_line<'c, E, R>(
        &mut self,
        line: &'c [u8],
        chunk: &mut Chunk<'c, R>,
    ) -> Result<(), SseError<E>>
    where
        R: FnMut(SseEvent<'_>) -> Result<(), E>,
    {
        if line.is_empty() {
            return self.dispatch(chunk);
        }
        let Field { name, value } = Field::of(line);
        match name {
            b"data" if self.has_data => {
                self.keep(&mut chunk.pending)?;
                self.append(value)?;
            }
            b"data" => {
                self.has_data = true;
                chunk.pending = Some(value);
            }
            b"event" => self.set_name(value),
            _ => {}
        }
        Ok(())
    }

    /// A line that came in several chunks. Its data is copied, because the line's buffer is used again.
    fn read_split_line<E, R>(
        &mut self,
        line: &[u8],
        chunk: &mut Chunk<'_, R>,
    ) -> Result<(), SseError<E>>
    where
        R: FnMut(SseEvent<'_>) -> Result<(), E>,
    {
        self.keep(&mut chunk.pending)?;
        let mut own = Chunk {
            pending: None,
            receiver: &mut chunk.receiver,
        };
        self.read_line(line, &mut own)?;
        self.keep(&mut own.pending)
    }

    /// Copies a `data` line that must outlive its chunk.
    fn keep<E>(&mut self, pending: &mut Option<&[u8]>) -> Result<(), SseError<E>> {
        if let Some(data) = pending.take() {
            self.check_size(data.len())?;
            self.data.extend_from_slice(data);
        }
        Ok(())
    }

    fn append<E>(&mut self, value: &[u8]) -> Result<(), SseError<E>> {
        self.check_size(value.len() + 1)?;
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn set_name(&mut self, value: &[u8]) {
        let value = &value[..value.len().min(NAME_MAX_BYTES)];
        self.name.clear();
        match std::str::from_utf8(value) {
            Ok(name) => self.name.push_str(name),
            Err(_) => self.name.push_str(&String::from_utf8_lossy(value)),
        }
    }

    fn dispatch<E, R>(&mut self, chunk: &mut Chunk<'_, R>) -> Result<(), SseError<E>>
    where
        R: FnMut(SseEvent<'_>) -> Result<(), E>,
    {
        let mut received = Ok(());
        if std::mem::take(&mut self.has_data) {
            let name = Some(self.name.as_str()).filter(|name| !name.is_empty());
            if let Some(data) = chunk.pending.take() {
                received = (chunk.receiver)(SseEvent { name, data });
            } else {
                let data = &self.data;
                received = (chunk.receiver)(SseEvent { name, data });
                self.data = emptied(std::mem::take(&mut self.data));
            }
        }
        self.name.clear();
        received.map_err(SseError::Receiver)
    }

    fn check_size<E>(&self, more: usize) -> Result<(), SseError<E>> {
        if self.line.len() + self.data.len() + more > self.max_event_bytes {
            return Err(SseError::TooLarge(self.max_event_bytes));
        }
        Ok(())
    }
}

fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    if buffer.capacity() > KEPT_BUFFER_BYTES {
        return Vec::new();
    }
    buffer.clear();
    buffer
}

/// A line: the name of its field, and the value without the one space that may follow the colon.
struct Field<'l> {
    name: &'l [u8],
    value: &'l [u8],
}

impl<'l> Field<'l> {
    fn of(line: &'l [u8]) -> Self {
        let Some(colon) = memchr(b':', line) else {
            return Self {
                name: line,
                value: b"",
            };
        };
        let value = &line[colon + 1..];
        Self {
            name: &line[..colon],
            value: value.strip_prefix(b" ").unwrap_or(value),
        }
    }
}

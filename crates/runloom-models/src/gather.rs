//! A socket whose small chunks come together.
//!
//! A provider sends each word as a chunk of HTTP's chunked coding. Hyper hands on every chunk by itself, for about a microsecond each, also when fifty
//! of them came with one read. Here the chunks that are at hand are put into one before hyper sees them. Nothing waits for more:
//! what has come goes on at once, also half a chunk, because where chunks begin and end means nothing.
//!
//! Hyper stays the judge of everything: heads, lengths, ends and faults. Whatever is not an ordinary chunked answer, from its first
//! unusual byte on, is passed on as it came, for the rest of the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

/// The longest line that says how large a chunk is: seven digits and the line's end.
const SIZE_LINE: usize = 9;

/// Digits of the size that is written for chunks which were put together.
const DIGITS: usize = 8;

/// The most that is read at once.
const MOST: usize = 64 * 1024;

/// A socket, and what was read from it and not yet handed on.
#[derive(Debug)]
pub(crate) struct Gathered {
    socket: TokioIo<TcpStream>,
    gathering: Gathering,
    /// What is ready, from the given place on.
    out: Vec<u8>,
    given: usize,
}

impl Gathered {
    /// Nothing was read yet.
    pub(crate) fn new(socket: TokioIo<TcpStream>) -> Self {
        Self {
            socket,
            gathering: Gathering::default(),
            out: Vec::new(),
            given: 0,
        }
    }

    /// Reads until something is ready, or the other side has closed.
    fn poll_fill(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<io::Result<()>> {
        loop {
            let raw = &mut self.gathering.raw;
            raw.reserve(wanted.clamp(1, MOST));
            let read = poll_read_buf(Pin::new(self.socket.inner_mut()), cx, raw);
            if read.is_pending() && raw.is_empty() {
                // Most connections wait most of the time, and hold nothing meanwhile.
                *raw = Vec::new();
            }
            if ready!(read)? == 0 {
                self.gathering.finish(&mut self.out);
                return Poll::Ready(Ok(()));
            }
            self.gathering.digest(&mut self.out);
            if !self.out.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Read for Gathered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.out.is_empty() {
            ready!(this.poll_fill(cx, buffer.remaining()))?;
        }
        let rest = &this.out[this.given..];
        let now = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..now]);
        this.given += now;
        if this.given == this.out.len() {
            this.out = Vec::new();
            this.given = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Gathered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, buffers)
    }
}

/// Where in an answer the next byte stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    Size,
    Data(usize),
    AfterData,
    AfterLast,
    /// Something unusual: nothing is changed any more.
    Beyond,
}

/// The pure part: bytes as they came, and as they are handed on.
#[derive(Debug, Default)]
struct Gathering {
    raw: Vec<u8>,
    place: Place,
}

impl Gathering {
    /// Hands on what has come. A few bytes may stay: half a line that says how large a chunk is.
    fn digest(&mut self, out: &mut Vec<u8>) {
        let raw = std::mem::take(&mut self.raw);
        let mut rest = &raw[..];
        let mut chunk = Chunk::default();
        while !rest.is_empty() {
            let Some(taken) = self.step(rest, &mut chunk, out) else {
                break;
            };
            rest = &rest[taken..];
        }
        chunk.close(out);
        self.raw.extend_from_slice(rest);
    }

    /// The other side has closed: what is left is hyper's to judge.
    fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.raw);
    }

    /// How much of the rest was taken; `None` when more must come before something can be said.
    fn step(&mut self, rest: &[u8], chunk: &mut Chunk, out: &mut Vec<u8>) -> Option<usize> {
        let next = match self.place {
            Place::Head => match memmem::find(rest, b"\r\n\r\n") {
                Some(end) if is_chunked(&rest[..end]) => {
                    out.extend_from_slice(&rest[..end + 4]);
                    self.place = Place::Size;
                    Some(end + 4)
                }
                _ => None,
            },
            Place::Size => {
                let line = &rest[..rest.len().min(SIZE_LINE)];
                match memmem::find(line, b"\r\n") {
                    Some(end) => size(&line[..end]).map(|size| {
                        self.place = Place::Data(size);
                        if size == 0 {
                            self.place = Place::AfterLast;
                            chunk.close(out);
                            out.extend_from_slice(b"0\r\n");
                        }
                        end + 2
                    }),
                    None if line.len() < SIZE_LINE => return None,
                    None => None,
                }
            }
            Place::Data(left) => {
                let taken = left.min(rest.len());
                chunk.push(&rest[..taken], out);
                self.place = match left - taken {
                    0 => Place::AfterData,
                    left => Place::Data(left),
                };
                Some(taken)
            }
            Place::AfterData | Place::AfterLast if rest == b"\r" => return None,
            Place::AfterData => rest.starts_with(b"\r\n").then(|| {
                self.place = Place::Size;
                2
            }),
            Place::AfterLast => rest.starts_with(b"\r\n").then(|| {
                self.place = Place::Head;
                out.extend_from_slice(b"\r\n");
                2
            }),
            Place::Beyond => None,
        };
        Some(next.unwrap_or_else(|| {
            self.place = Place::Beyond;
            chunk.close(out);
            out.extend_from_slice(rest);
            rest.len()
        }))
    }
}

/// A chunk that is being put together at the end of what is handed on.
#[derive(Debug, Default)]
struct Chunk {
    /// Where its line begins.
    start: Option<usize>,
}

impl Chunk {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) {
        if self.start.is_none() {
            self.start = Some(out.len());
            out.extend_from_slice(&[b'0'; DIGITS]);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(data);
    }

    /// Writes how large it has become.
    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(start) = self.start.take() else {
            return;
        };
        let mut size = out.len() - start - DIGITS - 2;
        for digit in out[start..start + DIGITS].iter_mut().rev() {
            *digit = b"0123456789abcdef"[size % 16];
            size /= 16;
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The size of a chunk; `None` for what is no size, or has anything beside it.
fn size(line: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(line).ok()?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain
        .then(|| usize::from_str_radix(digits, 16).ok())
        .flatten()
}

/// Whether the answer with this head has a body of chunks, and nothing about that is unusual.
fn is_chunked(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n');
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix(b"HTTP/1.1 "));
    let has_body = status.is_some_and(|status| {
        matches!(status.first(), Some(b'2' | b'4' | b'5')) && !status.starts_with(b"204")
    });
    let mut chunked = false;
    for line in lines {
        let Some(colon) = memchr::memchr(b':', line) else {
            return false;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            return false;
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return false;
            }
            chunked = true;
        }
    }
    has_body && chunked
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;

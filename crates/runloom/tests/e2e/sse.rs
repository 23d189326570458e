//! A run's stream as bytes: one frame at a time, exactly as it came.

use std::io::{self, Write};
use std::time::Instant;

use serde_json::Value;

use crate::http::{Answer, Api, Reading, connect};
use crate::server::PATIENCE;

/// The line before the first event.
const RETRY: &[u8] = b"retry: 500\n";

/// One frame with its closing blank line, and what stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame(pub(crate) Vec<u8>);

impl Frame {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let text = std::str::from_utf8(&self.0).ok()?;
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.and_then(|rest| rest.strip_prefix(": "))
    }

    /// Number of the event by its `id` line; 0 when it has none.
    pub(crate) fn seq(&self) -> u64 {
        self.field("id").and_then(|id| id.parse().ok()).unwrap_or(0)
    }

    /// Type of the event by its `event` line.
    pub(crate) fn kind(&self) -> &str {
        self.field("event").unwrap_or("")
    }

    /// The whole JSON; null when there is none.
    pub(crate) fn json(&self) -> Value {
        let data = self
            .field("data")
            .and_then(|data| serde_json::from_str(data).ok());
        data.unwrap_or(Value::Null)
    }

    /// The payload.
    pub(crate) fn data(&self) -> Value {
        self.json()["data"].clone()
    }

    pub(crate) fn is_terminal(&self) -> bool {
        ["result", "error", "cancelled"].contains(&self.kind())
    }
}

/// An open stream.
#[derive(Debug)]
pub(crate) struct Stream {
    reading: Reading,
    buffer: Vec<u8>,
}

impl Stream {
    /// Opens the stream of a run after `last`. An answer other than 200 is returned as such.
    pub(crate) fn open(api: &Api, run: &str, last: u64) -> io::Result<Result<Self, Answer>> {
        let path = api.path(&format!("/agent-runs/{run}/stream?lastSeq={last}"));
        let mut stream = connect(&api.address)?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nLast-Event-ID: {last}\r\n\r\n",
            api.key
        );
        stream.write_all(head.as_bytes())?;
        let reading = Reading::begin(stream)?;
        if reading.status != 200 {
            return Ok(Err(reading.rest()?));
        }
        Ok(Ok(Self::of(reading)))
    }

    /// The stream in an answer.
    pub(crate) fn of(reading: Reading) -> Self {
        Self {
            reading,
            buffer: Vec::new(),
        }
    }

    /// The next event; `None` when the server closed the stream in order. Heartbeats alone do not keep anybody
    /// waiting for ever.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame>> {
        let begun = Instant::now();
        loop {
            let end = self.buffer.windows(2).position(|pair| pair == b"\n\n");
            if let Some(end) = end {
                let mut frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
                // `retry` stands in the first frame of a response and is not part of the log.
                if frame.starts_with(RETRY) {
                    frame.drain(..RETRY.len());
                }
                let frame = Frame(frame);
                // Comments are no events.
                if frame.field("data").is_some() {
                    return Ok(Some(frame));
                }
                continue;
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let more = self.reading.more()?;
            if more.is_empty() {
                assert!(
                    self.buffer.is_empty(),
                    "half a frame at the end: {:?}",
                    self.buffer
                );
                return Ok(None);
            }
            self.buffer.extend_from_slice(&more);
        }
    }
}

/// Every frame of a run from the beginning to its end.
pub(crate) fn replay(api: &Api, run: &str) -> io::Result<Vec<Frame>> {
    let mut stream = Stream::open(api, run, 0)?.unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = stream.next()? {
        frames.push(frame);
    }
    Ok(frames)
}

/// Reads on until an event of this type.
pub(crate) fn until(stream: &mut Stream, kind: &str) -> Frame {
    loop {
        let frame = stream
            .next()
            .unwrap()
            .unwrap_or_else(|| panic!("the stream ended before {kind}"));
        if frame.kind() == kind {
            return frame;
        }
        assert!(
            !frame.is_terminal(),
            "the run ended before {kind}: {}",
            frame.json()
        );
    }
}

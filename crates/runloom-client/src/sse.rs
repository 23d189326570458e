//! Server-sent events, read piece by piece, with a cap on what is held.

use std::collections::VecDeque;

/// One dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The last `event:` line.
    pub(crate) event: Option<String>,
    /// The `data:` lines, joined.
    pub(crate) data: String,
}

/// A line or a frame is larger than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// The parser: bytes in, frames out.
#[derive(Debug)]
pub(crate) struct Parser {
    max_bytes: usize,
    line: Vec<u8>,
    event: Option<String>,
    data: Option<String>,
    after_cr: bool,
    ready: VecDeque<Frame>,
}

impl Parser {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            event: None,
            data: None,
            after_cr: false,
            ready: VecDeque::new(),
        }
    }

    /// The next complete frame.
    pub(crate) fn pop(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    /// Takes bytes as they come; they may end anywhere, also inside a character.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
            if held + piece.len() > self.max_bytes {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line();
        }
        Ok(())
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = self.event.take();
            if let Some(data) = self.data.take() {
                self.ready.push_back(Frame { event, data });
            }
            return;
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // Comments are heartbeats; `id` repeats the seq of the JSON; `retry` is a browser's business.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(pieces: &[&[u8]]) -> Vec<Frame> {
        let mut parser = Parser::new(1000);
        for piece in pieces {
            parser.push(piece).unwrap();
        }
        std::iter::from_fn(|| parser.pop()).collect()
    }

    fn frame(event: Option<&str>, data: &str) -> Frame {
        Frame {
            event: event.map(str::to_owned),
            data: data.to_owned(),
        }
    }

    #[test]
    fn every_cut_of_a_stream_gives_the_same_frames() {
        let stream = "retry: 500\n\n: ping\n\nid: 1\nevent: a\ndata: {\"x\":\"é\"}\n\ndata:b\r\ndata: c\r\n\r\ndata: d\r\rdata: lost";
        let expected = vec![
            frame(Some("a"), "{\"x\":\"é\"}"),
            frame(None, "b\nc"),
            frame(None, "d"),
        ];
        let bytes = stream.as_bytes();
        assert_eq!(frames(&[bytes]), expected);
        for cut in 1..bytes.len() {
            assert_eq!(
                frames(&[&bytes[..cut], &bytes[cut..]]),
                expected,
                "cut at {cut}"
            );
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(frames(&single), expected);
    }

    #[test]
    fn a_frame_without_data_is_not_dispatched() {
        assert_eq!(
            frames(&[b"event: a\n\ndata: x\n\n"]),
            vec![frame(None, "x")]
        );
    }

    #[test]
    fn an_endless_line_and_an_endless_frame_are_refused() {
        let mut line = Parser::new(10);
        assert_eq!(line.push(b"data: 0123456789"), Err(TooLarge));
        let mut data = Parser::new(10);
        assert_eq!(data.push(b"data:12345\ndata:12345\n"), Err(TooLarge));
    }
}

//! Server-sent events: where one ends, what it is called, its number.

use memchr::memmem;

/// The parts of an event that a driver looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The `id:` line, when it is a number.
    pub(crate) id: Option<u64>,
    /// The `event:` line; empty when there is none.
    pub(crate) event: &'a [u8],
    /// The first `data:` line; empty when there is none, as in a comment.
    pub(crate) data: &'a [u8],
}

/// Cuts a stream of bytes into events; keeps what is incomplete.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    tail: Vec<u8>,
}

impl Frames {
    /// Takes more bytes and hands on every event they complete.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        mut sink: impl FnMut(Frame<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.tail.is_empty() {
            // The separator itself may be cut in two, so the search begins one byte back.
            let from = self.tail.len() - 1;
            self.tail.extend_from_slice(bytes);
            let Some(end) = memmem::find(&self.tail[from..], b"\n\n") else {
                return Ok(());
            };
            let end = from + end;
            sink(read(&self.tail[..end]))?;
            let used = bytes.len() - (self.tail.len() - (end + 2));
            self.tail.clear();
            bytes = &bytes[used..];
        }
        while let Some(end) = memmem::find(bytes, b"\n\n") {
            sink(read(&bytes[..end]))?;
            bytes = &bytes[end + 2..];
        }
        self.tail.extend_from_slice(bytes);
        Ok(())
    }
}

fn read(frame: &[u8]) -> Frame<'_> {
    let mut id = None;
    let mut event: &[u8] = b"";
    let mut rest = frame;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        if let Some(data) = line.strip_prefix(b"data: ") {
            return Frame { id, event, data };
        }
        if let Some(name) = line.strip_prefix(b"event: ") {
            event = name;
        } else if let Some(number) = line.strip_prefix(b"id: ") {
            id = std::str::from_utf8(number)
                .ok()
                .and_then(|text| text.parse().ok());
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    Frame {
        id,
        event,
        data: b"",
    }
}

#[cfg(test)]
mod tests {
    use super::Frames;

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let stream = b"id: 1\nevent: started\ndata: {}\n\n: beat\n\nid: 2\nevent: result\ndata: {\"a\":1}\n\n";
        for cut in 0..stream.len() {
            let mut frames = Frames::default();
            let mut seen = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                frames
                    .push(part, |frame| {
                        seen.push((frame.id, frame.event.to_vec(), frame.data.to_vec()));
                        Ok(())
                    })
                    .unwrap();
            }
            let expected = vec![
                (Some(1), b"started".to_vec(), b"{}".to_vec()),
                (None, Vec::new(), Vec::new()),
                (Some(2), b"result".to_vec(), b"{\"a\":1}".to_vec()),
            ];
            assert_eq!(seen, expected, "cut at {cut}");
        }
    }
}

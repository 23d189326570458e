//! Incremental parser of server-sent events.

use memchr::memmem;

/// The fields of an event that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SseEvent<'a> {
    /// The `id:` line, when it is a number.
    pub(crate) id: Option<u64>,
    /// The `event:` line; empty when there is none.
    pub(crate) event: &'a [u8],
    /// The first `data:` line; empty when there is none, as in a comment.
    pub(crate) data: &'a [u8],
}

/// Splits a stream of bytes into events; keeps an incomplete event until the rest arrives.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    tail: Vec<u8>,
}

impl SseParser {
    /// Adds bytes and passes every completed event to `sink`.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        mut sink: impl FnMut(SseEvent<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.tail.is_empty() {
            // The separator itself may be split, so the search begins one byte earlier.
            let from = self.tail.len() - 1;
            self.tail.extend_from_slice(bytes);
            let Some(end) = memmem::find(&self.tail[from..], b"\n\n") else {
                return Ok(());
            };
            let end = from + end;
            sink(parse(&self.tail[..end]))?;
            let used = bytes.len() - (self.tail.len() - (end + 2));
            self.tail.clear();
            bytes = &bytes[used..];
        }
        while let Some(end) = memmem::find(bytes, b"\n\n") {
            sink(parse(&bytes[..end]))?;
            bytes = &bytes[end + 2..];
        }
        self.tail.extend_from_slice(bytes);
        Ok(())
    }
}

fn parse(event_bytes: &[u8]) -> SseEvent<'_> {
    let mut id = None;
    let mut event: &[u8] = b"";
    let mut rest = event_bytes;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        if let Some(data) = line.strip_prefix(b"data: ") {
            return SseEvent { id, event, data };
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
    SseEvent {
        id,
        event,
        data: b"",
    }
}

#[cfg(test)]
mod tests {
    use super::SseParser;

    #[test]
    fn parses_events_split_anywhere() {
        let stream = b"id: 1\nevent: started\ndata: {}\n\n: beat\n\nid: 2\nevent: result\ndata: {\"a\":1}\n\n";
        for split in 0..stream.len() {
            let mut parser = SseParser::default();
            let mut seen = Vec::new();
            for part in [&stream[..split], &stream[split..]] {
                parser
                    .push(part, |event| {
                        seen.push((event.id, event.event.to_vec(), event.data.to_vec()));
                        Ok(())
                    })
                    .unwrap();
            }
            let expected = vec![
                (Some(1), b"started".to_vec(), b"{}".to_vec()),
                (None, Vec::new(), Vec::new()),
                (Some(2), b"result".to_vec(), b"{\"a\":1}".to_vec()),
            ];
            assert_eq!(seen, expected, "split at {split}");
        }
    }
}

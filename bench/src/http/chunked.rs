//! Incremental decoder of chunked bodies.

use anyhow::Context;

/// A longer line with a chunk size means that the body is not chunked.
const MAX_SIZE_LINE: usize = 64;

/// Position in the body.
#[derive(Debug, Default)]
enum State {
    #[default]
    Size,
    Data(usize),
    AfterData,
    Trailer,
    Done,
}

/// Decodes a chunked body in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct ChunkedDecoder {
    state: State,
}

impl ChunkedDecoder {
    /// Whether the last chunk and the trailers have been read.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Decodes as much as possible, passes the data to `sink` and returns how many bytes of the input were used.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        mut sink: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<usize> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match self.state {
                State::Done => return Ok(used),
                State::Data(left) => {
                    if rest.is_empty() {
                        return Ok(used);
                    }
                    let taken = left.min(rest.len());
                    sink(&rest[..taken])?;
                    used += taken;
                    self.state = if taken == left {
                        State::AfterData
                    } else {
                        State::Data(left - taken)
                    };
                }
                State::Size | State::AfterData | State::Trailer => {
                    let Some(end) = memchr::memchr(b'\n', rest) else {
                        anyhow::ensure!(rest.len() < MAX_SIZE_LINE, "the body is not chunked");
                        return Ok(used);
                    };
                    let line = rest[..end].trim_ascii_end();
                    self.line(line)?;
                    used += end + 1;
                }
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> anyhow::Result<()> {
        self.state = match self.state {
            State::Size => {
                let text = std::str::from_utf8(line).context("the body is not chunked")?;
                let digits = text.split(';').next().unwrap_or_default();
                match usize::from_str_radix(digits, 16)
                    .context("the chunk size is not hexadecimal")?
                {
                    0 => State::Trailer,
                    size => State::Data(size),
                }
            }
            State::AfterData => {
                anyhow::ensure!(line.is_empty(), "a chunk is longer than its size");
                State::Size
            }
            State::Trailer if line.is_empty() => State::Done,
            State::Trailer => State::Trailer,
            State::Data(left) => State::Data(left),
            State::Done => State::Done,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkedDecoder;

    #[test]
    fn decodes_a_body_split_anywhere() {
        let body = b"5\r\nhello\r\n1;x=y\r\n \r\n5\r\nworld\r\n0\r\n\r\nnext";
        for split in 0..body.len() {
            let mut decoder = ChunkedDecoder::default();
            let mut pending = Vec::new();
            let mut got = Vec::new();
            for part in [&body[..split], &body[split..]] {
                pending.extend_from_slice(part);
                let used = decoder
                    .decode(&pending, |data| {
                        got.extend_from_slice(data);
                        Ok(())
                    })
                    .unwrap();
                pending.drain(..used);
            }
            assert!(decoder.is_done());
            assert_eq!(got, b"hello world", "split at {split}");
            assert_eq!(pending, b"next");
        }
    }

    #[test]
    fn rejects_a_body_that_is_not_chunked() {
        let mut decoder = ChunkedDecoder::default();
        assert!(decoder.decode(b"hello\r\n", |_| Ok(())).is_err());
    }
}

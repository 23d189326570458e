//! Takes a chunked body apart, in whatever pieces it comes.

use anyhow::Context;

/// A line with a chunk's size is never longer, unless what comes is no chunked body.
const SIZE_LINE_AT_MOST: usize = 64;

/// Where in the body we are.
#[derive(Debug, Default)]
enum State {
    #[default]
    Size,
    Data(usize),
    AfterData,
    Trailer,
    Done,
}

/// An incremental decoder of chunked bodies.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    state: State,
}

impl Chunks {
    /// The last chunk and what follows it have been read.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Decodes what it can and hands the data on; answers how many bytes of the input it used up.
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
                        anyhow::ensure!(rest.len() < SIZE_LINE_AT_MOST, "not a chunked body");
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
                let text = std::str::from_utf8(line).context("not a chunked body")?;
                let digits = text.split(';').next().unwrap_or_default();
                match usize::from_str_radix(digits, 16).context("not a chunk's size")? {
                    0 => State::Trailer,
                    size => State::Data(size),
                }
            }
            State::AfterData => {
                anyhow::ensure!(line.is_empty(), "a chunk is longer than it said");
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
    use super::Chunks;

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let body = b"5\r\nhello\r\n1;x=y\r\n \r\n5\r\nworld\r\n0\r\n\r\nnext";
        for cut in 0..body.len() {
            let mut chunks = Chunks::default();
            let mut pending = Vec::new();
            let mut got = Vec::new();
            for part in [&body[..cut], &body[cut..]] {
                pending.extend_from_slice(part);
                let used = chunks
                    .decode(&pending, |data| {
                        got.extend_from_slice(data);
                        Ok(())
                    })
                    .unwrap();
                pending.drain(..used);
            }
            assert!(chunks.is_done());
            assert_eq!(got, b"hello world", "cut at {cut}");
            assert_eq!(pending, b"next");
        }
    }

    #[test]
    fn a_body_that_is_not_chunked_is_refused() {
        let mut chunks = Chunks::default();
        assert!(chunks.decode(b"hello\r\n", |_| Ok(())).is_err());
    }
}

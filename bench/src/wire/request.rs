//! The server's side: one request after the other from a connection.

use anyhow::Context;
use memchr::memmem;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A request is never larger; the longest conversation that is measured is far below.
const REQUEST_AT_MOST: usize = 64 << 20;

/// The requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    buffer: Vec<u8>,
    used: usize,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// Method and path, as in `POST /v1/responses`.
    pub(crate) line: &'a str,
    pub(crate) body: &'a [u8],
}

impl Requests {
    /// The next request; `None` when the client has gone.
    pub(crate) async fn next(
        &mut self,
        stream: &mut TcpStream,
    ) -> anyhow::Result<Option<Request<'_>>> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let head = loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            if !self.more(stream).await? {
                return Ok(None);
            }
        };
        let length: usize = {
            let text = std::str::from_utf8(&self.buffer[..head]).context("a head in no text")?;
            match super::header(text, "content-length") {
                Some(length) => length.parse().context("a length that is no number")?,
                None => {
                    anyhow::ensure!(
                        super::header(text, "transfer-encoding").is_none(),
                        "this server reads no chunked requests"
                    );
                    0
                }
            }
        };
        while self.buffer.len() < head + length {
            anyhow::ensure!(self.more(stream).await?, "the request ended early");
        }
        self.used = head + length;
        let text = std::str::from_utf8(&self.buffer[..head]).context("a head in no text")?;
        let line = text.split("\r\n").next().unwrap_or_default();
        let line = line.strip_suffix(" HTTP/1.1").unwrap_or(line);
        Ok(Some(Request {
            line,
            body: &self.buffer[head..head + length],
        }))
    }

    async fn more(&mut self, stream: &mut TcpStream) -> anyhow::Result<bool> {
        anyhow::ensure!(
            self.buffer.len() < REQUEST_AT_MOST,
            "the request is too large"
        );
        self.buffer.reserve(4096);
        Ok(stream.read_buf(&mut self.buffer).await? > 0)
    }
}

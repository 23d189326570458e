//! Server side: the requests of one connection.

use anyhow::Context;
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Far more than the longest conversation that is measured.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// Reads the requests of one connection one after the other.
#[derive(Debug, Default)]
pub(crate) struct RequestReader {
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

impl RequestReader {
    /// The next request; `None` when the client has closed the connection.
    pub(crate) async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> anyhow::Result<Option<Request<'_>>> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let head = loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
            if self.fill(stream).await? == 0 {
                return Ok(None);
            }
        };
        let length = content_length(&self.buffer[..head])?;
        while self.buffer.len() < head + length {
            anyhow::ensure!(
                self.fill(stream).await? > 0,
                "the client closed the connection in the middle of a request"
            );
        }
        self.used = head + length;
        let text = head_text(&self.buffer[..head])?;
        let line = text.split("\r\n").next().unwrap_or_default();
        let line = line.strip_suffix(" HTTP/1.1").unwrap_or(line);
        Ok(Some(Request {
            line,
            body: &self.buffer[head..head + length],
        }))
    }

    /// Returns when the client has closed the connection; bytes that arrive before are kept for the next request.
    pub(crate) async fn wait_until_closed(&mut self, stream: &mut (impl AsyncRead + Unpin)) {
        while self.fill(stream).await.is_ok_and(|read| read > 0) {}
    }

    /// Reads more bytes; 0 when the client has closed the connection.
    async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<usize> {
        anyhow::ensure!(
            self.buffer.len() < MAX_REQUEST_BYTES,
            "the request is longer than {MAX_REQUEST_BYTES} bytes"
        );
        self.buffer.reserve(4096);
        Ok(stream.read_buf(&mut self.buffer).await?)
    }
}

fn head_text(head: &[u8]) -> anyhow::Result<&str> {
    std::str::from_utf8(head).context("the head of the request is not UTF-8")
}

fn content_length(head: &[u8]) -> anyhow::Result<usize> {
    let text = head_text(head)?;
    if let Some(length) = super::header(text, "content-length") {
        return length.parse().context("content-length is not a number");
    }
    anyhow::ensure!(
        super::header(text, "transfer-encoding").is_none(),
        "chunked requests are not supported"
    );
    Ok(0)
}

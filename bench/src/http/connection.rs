//! Client side: one keep-alive connection, reconnected when the server has closed it.

use std::net::SocketAddr;

use anyhow::Context;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::chunked::ChunkedDecoder;

const MAX_HEAD_BYTES: usize = 64 << 10;

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// Whether the connection can be used again after the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    KeepAlive,
    Close,
}

/// Status and framing of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    framing: Framing,
    reuse: Reuse,
}

/// One connection to one server.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Does not connect yet.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Sends a request and reads the head of its response. Reconnects once if the server had closed the idle
    /// connection.
    pub(crate) async fn send(&mut self, request: &[u8]) -> anyhow::Result<ResponseHead> {
        if self.stream.is_some() {
            if let Ok(Some(head)) = self.exchange(request).await {
                return Ok(head);
            }
            self.abort();
        }
        self.connect().await?;
        let head = self.exchange(request).await?;
        head.context("the server closed the connection without a response")
    }

    /// Connects unless it is connected.
    pub(crate) async fn connect(&mut self) -> anyhow::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address)
                .await
                .with_context(|| format!("cannot connect to {}", self.address))?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// Reads the body and passes its pieces to `sink` as they arrive.
    pub(crate) async fn stream_body(
        &mut self,
        head: ResponseHead,
        mut sink: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut chunked = ChunkedDecoder::default();
        let mut left = match head.framing {
            Framing::Length(length) => length,
            Framing::Chunked | Framing::UntilClose => usize::MAX,
        };
        loop {
            let used = if head.framing == Framing::Chunked {
                chunked.decode(&self.buffer, &mut sink)?
            } else {
                let taken = left.min(self.buffer.len());
                if taken > 0 {
                    sink(&self.buffer[..taken])?;
                }
                left -= taken;
                taken
            };
            self.buffer.drain(..used);
            if chunked.is_done() || left == 0 {
                break;
            }
            if self.fill().await? == 0 {
                anyhow::ensure!(
                    head.framing == Framing::UntilClose,
                    "the connection closed in the middle of a response"
                );
                break;
            }
        }
        if head.reuse == Reuse::Close || head.framing == Framing::UntilClose {
            self.abort();
        }
        Ok(())
    }

    /// Reads the complete body.
    pub(crate) async fn read_body(&mut self, head: ResponseHead) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.stream_body(head, |piece| {
            body.extend_from_slice(piece);
            Ok(())
        })
        .await?;
        Ok(body)
    }

    /// Reads the complete body of a response that must have `status`; otherwise the error quotes it.
    pub(crate) async fn expect_body(
        &mut self,
        head: ResponseHead,
        status: u16,
    ) -> anyhow::Result<Vec<u8>> {
        let body = self.read_body(head).await?;
        anyhow::ensure!(
            head.status == status,
            "expected status {status}, got {}: {}",
            head.status,
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }

    /// Resets the connection, so that it does not remain in TIME_WAIT.
    pub(crate) fn abort(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.set_zero_linger().ok();
        }
        self.buffer.clear();
    }

    /// `None` when the server closed the connection before it answered.
    async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<Option<ResponseHead>> {
        let stream = self.stream.as_mut().context("not connected")?;
        stream.write_all(request).await?;
        loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                let head = parse_head(&self.buffer[..end])?;
                self.buffer.drain(..end + 4);
                return Ok(Some(head));
            }
            anyhow::ensure!(
                self.buffer.len() < MAX_HEAD_BYTES,
                "the head of the response is longer than {MAX_HEAD_BYTES} bytes"
            );
            if self.fill().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads more bytes; 0 when the server has closed the connection.
    async fn fill(&mut self) -> anyhow::Result<usize> {
        let stream = self.stream.as_mut().context("not connected")?;
        self.buffer.reserve(4096);
        Ok(stream.read_buf(&mut self.buffer).await?)
    }
}

fn parse_head(head: &[u8]) -> anyhow::Result<ResponseHead> {
    let head = std::str::from_utf8(head).context("the head of the response is not UTF-8")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    let status = status.parse().context("the response has no status code")?;
    let framing = if super::header(head, "transfer-encoding").is_some() {
        Framing::Chunked
    } else if let Some(length) = super::header(head, "content-length") {
        Framing::Length(length.parse().context("content-length is not a number")?)
    } else if status == 204 {
        Framing::Length(0)
    } else {
        Framing::UntilClose
    };
    let close =
        super::header(head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(ResponseHead {
        status,
        framing,
        reuse: if close {
            Reuse::Close
        } else {
            Reuse::KeepAlive
        },
    })
}

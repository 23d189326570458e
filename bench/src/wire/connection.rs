//! The client's side: one connection, kept alive, opened again when the server closed it.

use std::net::SocketAddr;

use anyhow::Context;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::chunks::Chunks;

/// An answer's head is never longer.
const HEAD_AT_MOST: usize = 64 << 10;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// The head of an answer, as far as it matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) status: u16,
    framing: Framing,
    closes: bool,
}

/// One connection to one server.
#[derive(Debug)]
pub(crate) struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Opens nothing yet.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Sends a request and reads the head of the answer. A connection that the server closed while it was idle is
    /// opened again.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Head> {
        if self.stream.is_some() {
            if let Ok(Some(head)) = self.exchange(request).await {
                return Ok(head);
            }
            self.forget();
        }
        self.open().await?;
        let head = self.exchange(request).await?;
        head.context("the server closed the connection instead of answering")
    }

    /// Connects, when it is not connected.
    pub(crate) async fn open(&mut self) -> anyhow::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address)
                .await
                .with_context(|| format!("cannot connect to {}", self.address))?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// Reads the body and hands its pieces on.
    pub(crate) async fn body(
        &mut self,
        head: Head,
        mut sink: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut chunks = Chunks::default();
        let mut left = match head.framing {
            Framing::Length(length) => length,
            Framing::Chunked | Framing::UntilClose => usize::MAX,
        };
        loop {
            let used = if head.framing == Framing::Chunked {
                chunks.decode(&self.buffer, &mut sink)?
            } else {
                let taken = left.min(self.buffer.len());
                if taken > 0 {
                    sink(&self.buffer[..taken])?;
                }
                left -= taken;
                taken
            };
            self.buffer.drain(..used);
            if chunks.is_done() || left == 0 {
                break;
            }
            if !self.more().await? {
                anyhow::ensure!(
                    head.framing == Framing::UntilClose,
                    "the answer was cut off"
                );
                break;
            }
        }
        if head.closes || head.framing == Framing::UntilClose {
            self.forget();
        }
        Ok(())
    }

    /// Reads the whole body.
    pub(crate) async fn whole(&mut self, head: Head) -> anyhow::Result<Vec<u8>> {
        let mut whole = Vec::new();
        self.body(head, |piece| {
            whole.extend_from_slice(piece);
            Ok(())
        })
        .await?;
        Ok(whole)
    }

    /// Drops the connection in the middle of whatever it does, without leaving it in TIME_WAIT.
    pub(crate) fn forget(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.set_zero_linger().ok();
        }
        self.buffer.clear();
    }

    async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<Option<Head>> {
        let stream = self.stream.as_mut().context("not connected")?;
        stream.write_all(request).await?;
        loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                let head = read_head(&self.buffer[..end])?;
                self.buffer.drain(..end + 4);
                return Ok(Some(head));
            }
            anyhow::ensure!(self.buffer.len() < HEAD_AT_MOST, "an endless head");
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    async fn more(&mut self) -> anyhow::Result<bool> {
        let stream = self.stream.as_mut().context("not connected")?;
        self.buffer.reserve(4096);
        Ok(stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn read_head(head: &[u8]) -> anyhow::Result<Head> {
    let head = std::str::from_utf8(head).context("a head in no text")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    let status = status.parse().context("an answer without a status")?;
    let framing = if super::header(head, "transfer-encoding").is_some() {
        Framing::Chunked
    } else if let Some(length) = super::header(head, "content-length") {
        Framing::Length(length.parse().context("a length that is no number")?)
    } else if status == 204 {
        Framing::Length(0)
    } else {
        Framing::UntilClose
    };
    let closes =
        super::header(head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(Head {
        status,
        framing,
        closes,
    })
}

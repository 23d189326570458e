//! A client socket that joins small writes, fails when the client reads nothing for a while, and closes without a
//! reset while the client still sends.
//!
//! An event is three pieces (chunk size, data, line end), and a short response is its head and body. Copying a few
//! hundred bytes costs less than a vectored write per event and subscriber.

use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::lingering_close::DiscardLimits;

/// Time after which a write without progress fails, so that a client that does not read holds no response in memory.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(45);

/// Maximum bytes that are joined.
const JOIN_MAX_BYTES: usize = 2_048;

/// Bytes discarded per read.
const DISCARD_BYTES: usize = 16 * 1024;

/// The socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TokioIo<TcpStream>,
    /// Set when a response was sent before its request was read.
    lingering_close: Arc<OnceLock<DiscardLimits>>,
    /// Set while lingering_close bytes are discarded.
    waste: Option<Discard>,
    write_timeout: Duration,
    /// The end of the current write's time; set while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// Wraps an accepted connection. If it is closed after `lingering_close` was set, the rest of the request is
    /// discarded first.
    pub(crate) fn new(stream: TcpStream, lingering_close: Arc<OnceLock<DiscardLimits>>) -> Self {
        Self {
            stream: TokioIo::new(stream),
            lingering_close,
            waste: None,
            write_timeout: WRITE_TIMEOUT,
            stalled: None,
        }
    }

    /// Bounds the time that a write waits without progress.
    fn bounded(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.write_timeout;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        let message = "the client reads nothing";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

/// Discards what a client still sends after its response.
#[derive(Debug)]
struct Discard {
    bytes_left: u64,
    until: Pin<Box<Sleep>>,
}

impl Discard {
    fn new(patience: DiscardLimits) -> Self {
        Self {
            bytes_left: patience.bytes,
            until: Box::pin(tokio::time::sleep(patience.time)),
        }
    }

    /// Ready when the client stopped sending or a limit was reached.
    fn poll(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        while self.bytes_left > 0 && self.until.as_mut().poll(cx).is_pending() {
            let mut room = [MaybeUninit::uninit(); DISCARD_BYTES];
            let mut room = ReadBuf::uninit(&mut room);
            match ready!(Pin::new(&mut *stream).poll_read(cx, &mut room)) {
                Ok(()) if !room.filled().is_empty() => {
                    let read = room.filled().len() as u64;
                    self.bytes_left = self.bytes_left.saturating_sub(read);
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.bounded(cx, written)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.waste.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.waste = this.lingering_close.get().copied().map(Discard::new);
        }
        match &mut this.waste {
            Some(waste) => waste.poll(this.stream.inner_mut(), cx).map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut room = [0; JOIN_MAX_BYTES];
        let stream = Pin::new(&mut this.stream);
        let written = match joined(pieces, &mut room) {
            Some(bytes) => stream.poll_write(cx, bytes),
            None => stream.poll_write_vectored(cx, pieces),
        };
        this.bounded(cx, written)
    }
}

/// Joins the pieces when they are small.
fn joined<'a>(pieces: &[IoSlice<'_>], room: &'a mut [u8; JOIN_MAX_BYTES]) -> Option<&'a [u8]> {
    let mut end = 0;
    for piece in pieces {
        room.get_mut(end..end + piece.len())?.copy_from_slice(piece);
        end += piece.len();
    }
    Some(&room[..end])
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::net::TcpListener;

    use super::*;

    fn join(pieces: &[&[u8]]) -> Option<Vec<u8>> {
        let pieces: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        joined(&pieces, &mut [0; JOIN_MAX_BYTES]).map(<[u8]>::to_vec)
    }

    #[test]
    fn joins_small_pieces_in_order() {
        assert_eq!(
            join(&[b"5\r\n", b"hello", b"\r\n"]).unwrap(),
            b"5\r\nhello\r\n"
        );
        assert_eq!(join(&[b"", b"x"]).unwrap(), b"x");
        assert_eq!(
            join(&[&[7; JOIN_MAX_BYTES - 1], b"x"]).unwrap().len(),
            JOIN_MAX_BYTES
        );
    }

    #[test]
    fn writes_large_pieces_separately() {
        assert_eq!(join(&[b"x", &[7; JOIN_MAX_BYTES]]), None);
        assert_eq!(join(&[&[7; JOIN_MAX_BYTES], b"x"]), None);
    }

    #[tokio::test]
    async fn gives_up_on_silent_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut server, _) = server.unwrap();
        let mut waste = Discard::new(DiscardLimits {
            bytes: 1,
            time: Duration::from_millis(1),
        });
        poll_fn(|cx| waste.poll(&mut server, cx)).await;
        assert_eq!(waste.bytes_left, 1);
    }

    #[tokio::test]
    async fn a_write_that_nobody_reads_fails() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut socket = Socket::new(server.unwrap().0, Arc::default());
        socket.write_timeout = Duration::from_millis(1);
        let error = loop {
            let written = poll_fn(|cx| Pin::new(&mut socket).poll_write(cx, &[0; 65_536])).await;
            if let Err(error) = written {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

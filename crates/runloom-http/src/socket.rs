//! A client's socket that sends small pieces as one, and closes in the face of no client that is still sending.
//!
//! An event goes out as three pieces (how large, what, and the end of a line), and a short answer as its head and its body. To copy a few hundred
//! bytes costs less than to have the kernel gather them, for each event and each of thousands who watch.

use std::future::Future;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::unread::Patience;

/// What is copied at most.
const SMALL: usize = 2_048;

/// What is thrown away in one piece.
const WASTE: usize = 16 * 1024;

/// The socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TokioIo<TcpStream>,
    /// Set when an answer was given before its request was read.
    unread: Arc<OnceLock<Patience>>,
    /// While what is unread is thrown away.
    waste: Option<Waste>,
}

impl Socket {
    /// Of an accepted connection. If it is closed after `unread` was set, the client is read on for a while.
    pub(crate) fn new(stream: TcpStream, unread: Arc<OnceLock<Patience>>) -> Self {
        Self {
            stream: TokioIo::new(stream),
            unread,
            waste: None,
        }
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut TokioIo<TcpStream>> {
        Pin::new(&mut self.get_mut().stream)
    }
}

/// What a client still sends although it was answered.
#[derive(Debug)]
struct Waste {
    bytes_left: u64,
    until: Pin<Box<Sleep>>,
}

impl Waste {
    fn new(patience: Patience) -> Self {
        Self {
            bytes_left: patience.bytes,
            until: Box::pin(tokio::time::sleep(patience.time)),
        }
    }

    /// Ready when the client has ended, or has sent for too long.
    fn poll(&mut self, stream: &mut TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        while self.bytes_left > 0 && self.until.as_mut().poll(cx).is_pending() {
            let mut room = [MaybeUninit::uninit(); WASTE];
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
        self.inner().poll_read(cx, buffer)
    }
}

impl Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.waste.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            this.waste = this.unread.get().copied().map(Waste::new);
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
        let mut room = [0; SMALL];
        match joined(pieces, &mut room) {
            Some(bytes) => self.inner().poll_write(cx, bytes),
            None => self.inner().poll_write_vectored(cx, pieces),
        }
    }
}

/// The pieces one after the other, when they are small.
fn joined<'a>(pieces: &[IoSlice<'_>], room: &'a mut [u8; SMALL]) -> Option<&'a [u8]> {
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
    use std::time::Duration;

    use tokio::net::TcpListener;

    use super::*;

    fn together(pieces: &[&[u8]]) -> Option<Vec<u8>> {
        let pieces: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        joined(&pieces, &mut [0; SMALL]).map(<[u8]>::to_vec)
    }

    #[test]
    fn small_pieces_are_sent_as_one_and_in_their_order() {
        assert_eq!(
            together(&[b"5\r\n", b"hello", b"\r\n"]).unwrap(),
            b"5\r\nhello\r\n"
        );
        assert_eq!(together(&[b"", b"x"]).unwrap(), b"x");
        assert_eq!(together(&[&[7; SMALL - 1], b"x"]).unwrap().len(), SMALL);
    }

    #[test]
    fn large_ones_are_left_where_they_are() {
        assert_eq!(together(&[b"x", &[7; SMALL]]), None);
        assert_eq!(together(&[&[7; SMALL], b"x"]), None);
    }

    #[tokio::test]
    async fn a_client_that_neither_sends_nor_ends_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut server, _) = server.unwrap();
        let mut waste = Waste::new(Patience {
            bytes: 1,
            time: Duration::from_millis(1),
        });
        poll_fn(|cx| waste.poll(&mut server, cx)).await;
        assert_eq!(waste.bytes_left, 1);
    }
}

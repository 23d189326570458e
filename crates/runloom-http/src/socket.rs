//! A client's socket that sends small pieces as one.
//!
//! An event goes out as three pieces (how large, what, and the end of a line), and a short answer as its head and its body. To copy a few hundred
//! bytes costs less than to have the kernel gather them, for each event and each of thousands who watch.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// What is copied at most.
const SMALL: usize = 2_048;

/// The socket.
#[derive(Debug)]
pub(crate) struct Socket(TokioIo<TcpStream>);

impl Socket {
    /// Of an accepted connection.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(TokioIo::new(stream))
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut TokioIo<TcpStream>> {
        Pin::new(&mut self.get_mut().0)
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
        self.inner().poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
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
}

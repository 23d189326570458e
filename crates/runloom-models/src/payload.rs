//! The bytes of a request body, in pieces, so that cached parts of a conversation are sent without being copied.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A request body in a few pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload {
    pieces: Vec<Bytes>,
}

impl Payload {
    /// A body of these pieces, in this order.
    pub(crate) fn of(pieces: Vec<Bytes>) -> Self {
        Self { pieces }
    }

    /// The pieces, in order.
    pub(crate) fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// A copy in one piece.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// The body for the HTTP client, with a known length: many servers do not accept chunked requests.
    pub(crate) fn into_body(mut self) -> reqwest::Body {
        match &mut self.pieces[..] {
            [whole] => std::mem::take(whole).into(),
            pieces => reqwest::Body::wrap(Pieces {
                left: pieces.iter().map(|piece| piece.len() as u64).sum(),
                pieces: self.pieces.into_iter(),
            }),
        }
    }
}

/// The pieces that were not sent yet.
struct Pieces {
    pieces: std::vec::IntoIter<Bytes>,
    left: u64,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.pieces.next();
        self.left -= next.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(next.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.as_slice().is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_its_length_and_its_end() {
        let mut pieces = Pieces {
            pieces: vec![Bytes::from("ab"), Bytes::from("c")].into_iter(),
            left: 3,
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut sent = Vec::new();
        for left in [3, 1] {
            assert_eq!(pieces.size_hint().exact(), Some(left));
            assert!(!pieces.is_end_stream());
            match Pin::new(&mut pieces).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => sent.extend(frame.into_data().unwrap()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sent, b"abc");
        assert!(pieces.is_end_stream());
        assert_eq!(pieces.size_hint().exact(), Some(0));
    }
}

//! A response, read in bounded time and to a bounded size.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use tokio::time::Instant;

use super::error::{OutboundError, Result};

/// The answer to one outgoing request. The body is read by [`OutboundResponse::chunk`], [`OutboundResponse::bytes`] or
/// [`OutboundResponse::into_stream`].
#[derive(Debug)]
pub struct OutboundResponse {
    pub(super) inner: reqwest::Response,
    pub(super) url: Url,
    pub(super) deadline: Option<(Instant, Duration)>,
    pub(super) idle: Option<Duration>,
    pub(super) limit: usize,
    pub(super) read: usize,
}

impl OutboundResponse {
    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// A header as text; `None` when it is missing or not text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().get(name)?.to_str().ok()
    }

    /// The media type in lower case, without parameters.
    #[must_use]
    pub fn media_type(&self) -> Option<String> {
        let value = self.header("content-type")?;
        let bare = value.split(';').next().unwrap_or_default();
        Some(bare.trim().to_ascii_lowercase())
    }

    /// Where the answer came from, after redirects.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Takes at most this many bytes of body from here on.
    #[must_use]
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.limit = self.limit.min(bytes);
        self
    }

    /// The next piece of the body.
    ///
    /// # Errors
    /// The body is too long, too slow or broken.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>> {
        let (until, after) = match (self.deadline, self.idle) {
            (Some((deadline, total)), Some(idle)) => {
                let quiet = Instant::now() + idle;
                if quiet < deadline {
                    (Some(quiet), idle)
                } else {
                    (Some(deadline), total)
                }
            }
            (Some((deadline, total)), None) => (Some(deadline), total),
            (None, Some(idle)) => (Some(Instant::now() + idle), idle),
            (None, None) => (None, Duration::ZERO),
        };
        let next = self.inner.chunk();
        let chunk =
            match until {
                Some(until) => tokio::time::timeout_at(until, next).await.map_err(|_| {
                    OutboundError::Timeout {
                        step: "end of the response",
                        after,
                    }
                })?,
                None => next.await,
            };
        let Some(chunk) = chunk.map_err(|error| OutboundError::from_client(&error))? else {
            return Ok(None);
        };
        self.read = self.read.saturating_add(chunk.len());
        if self.read > self.limit {
            return Err(OutboundError::TooLarge {
                what: "the response",
                limit: self.limit,
            });
        }
        Ok(Some(chunk))
    }

    /// The whole body.
    ///
    /// # Errors
    /// The body is too long, too slow or broken.
    pub async fn bytes(mut self) -> Result<Bytes> {
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// The beginning of the body, and whether there is more of it. The rest is not read.
    ///
    /// # Errors
    /// The body is too slow or broken.
    pub async fn beginning(mut self, bytes: usize) -> Result<(Bytes, bool)> {
        let mut begun = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            let room = bytes - begun.len();
            begun.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return Ok((begun.freeze(), true));
            }
        }
        Ok((begun.freeze(), false))
    }

    /// The body piece by piece; the stream ends after its first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        futures_util::stream::unfold(Some(self), |state| async move {
            let mut response = state?;
            match response.chunk().await {
                Ok(Some(chunk)) => Some((Ok(chunk), Some(response))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

//! Responses, read within a time limit and up to a size limit.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use reqwest::header::HeaderMap;
use reqwest::{StatusCode, Url};
use tokio::time::Instant;

use super::error::{OutboundError, Result};
use crate::charset::Extent;

/// The response to one outgoing request. The body is read by [`OutboundResponse::chunk`], [`OutboundResponse::bytes`]
/// or [`OutboundResponse::into_stream`].
#[derive(Debug)]
pub struct OutboundResponse {
    pub(super) inner: reqwest::Response,
    pub(super) url: Url,
    pub(super) deadline: Option<Deadline>,
    pub(super) limit: usize,
    pub(super) read: usize,
}

/// The end of a request's time, and the timeout that set it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) timeout: Duration,
}

/// The beginning of a body.
pub(crate) struct BodyPrefix {
    pub(crate) bytes: Bytes,
    pub(crate) extent: Extent,
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

    /// The URL of the response, after redirects.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Lowers the limit of the body to this many bytes.
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
        let next = self.inner.chunk();
        let chunk = match self.deadline {
            Some(deadline) => tokio::time::timeout_at(deadline.at, next)
                .await
                .map_err(|_| OutboundError::Timeout {
                    step: "end of the response",
                    after: deadline.timeout,
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

    /// The first `limit` bytes of the body. The rest is not read.
    ///
    /// # Errors
    /// The body is too slow or broken.
    pub(crate) async fn prefix(mut self, limit: usize) -> Result<BodyPrefix> {
        let mut bytes = BytesMut::new();
        let mut extent = Extent::Complete;
        while let Some(chunk) = self.chunk().await? {
            let room = limit - bytes.len();
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                extent = Extent::Truncated;
                break;
            }
        }
        Ok(BodyPrefix {
            bytes: bytes.freeze(),
            extent,
        })
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

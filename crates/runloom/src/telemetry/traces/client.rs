//! Exports batches over the HTTP client that the rest of the server uses.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, ResponseBodyTooLarge};

/// Maximum bytes of a collector's response.
const MAX_ANSWER: usize = 64 * 1024;

/// A client for one collector. The operator names its address, so no outbound policy applies.
#[derive(Debug)]
pub(super) struct Client(reqwest::Client);

impl Client {
    pub(super) fn new(timeout: Duration) -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self(client))
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut answer = self.0.execute(request.try_into()?).await?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err(ResponseBodyTooLarge::new().into());
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            *headers = std::mem::take(answer.headers_mut());
        }
        Ok(response.body(body.into())?)
    }
}

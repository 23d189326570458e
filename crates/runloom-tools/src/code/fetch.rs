//! `fetch` requests of code tools, made through the guarded client with limits of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;

use super::wire::{FetchRequest, FetchResponse, FetchResult};
use crate::outbound::{Outbound, OutboundRequest, OutboundResponse, spec_headers};

/// Timeout of one request; the call's own timeout ends it as well.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum bytes of one response body.
const MAX_RESPONSE_BYTES: usize = 2 * 1024 * 1024;

/// Maximum bytes of one request body.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Makes one request. Errors become exceptions in the code.
pub(super) async fn fetch(outbound: &Outbound, request: FetchRequest) -> FetchResponse {
    let id = request.id;
    let result = send(outbound, request).await;
    let result = result.unwrap_or_else(|error| FetchResult::Failed { error });
    FetchResponse { id, result }
}

async fn send(outbound: &Outbound, fetch: FetchRequest) -> Result<FetchResult, String> {
    let url = outbound
        .check(&fetch.url)
        .map_err(|error| error.to_string())?;
    let method = fetch.method.as_deref().unwrap_or("GET");
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
        .map_err(|_| "this is not an HTTP method".to_owned())?;
    let headers = spec_headers(&fetch.headers).map_err(|error| error.to_string())?;
    let mut request = OutboundRequest::new(method, url)
        .headers(headers)
        .within(TIMEOUT)
        .at_most(MAX_RESPONSE_BYTES);
    if let Some(body) = fetch.body {
        if body.len() > MAX_BODY_BYTES {
            return Err(format!("the body is longer than {MAX_BODY_BYTES} bytes"));
        }
        request = request.body(body);
    }
    let response = outbound
        .send(request)
        .await
        .map_err(|error| error.to_string())?;
    let (status, headers) = (response.status().as_u16(), headers_of(&response));
    let url = response.url().to_string();
    let body = response.bytes().await.map_err(|error| error.to_string())?;
    Ok(FetchResult::Response {
        status,
        url,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

fn headers_of(response: &OutboundResponse) -> BTreeMap<String, String> {
    let headers = response.headers().iter();
    headers
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

//! Requests that code makes: through the guard, with limits of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;

use super::wire::{Fetch, FetchAnswer, Fetched};
use crate::outbound::{Outbound, OutboundRequest, OutboundResponse, spec_headers};

/// One request in all; the call's own time ends it as well.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of one answer.
const MAX_ANSWER_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of one request's body.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Makes one request; what goes wrong is an exception in the code.
pub(super) async fn fetch(outbound: &Outbound, fetch: Fetch) -> Fetched {
    let id = fetch.id;
    let answer = exchange(outbound, fetch).await;
    let answer = answer.unwrap_or_else(|error| FetchAnswer::Failed { error });
    Fetched { id, answer }
}

async fn exchange(outbound: &Outbound, fetch: Fetch) -> Result<FetchAnswer, String> {
    let url = outbound
        .check(&fetch.url)
        .map_err(|error| error.to_string())?;
    let method = fetch.method.as_deref().unwrap_or("GET");
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
        .map_err(|_| "this is not a method".to_owned())?;
    let headers = spec_headers(&fetch.headers).map_err(|error| error.to_string())?;
    let mut request = OutboundRequest::new(method, url)
        .headers(headers)
        .within(TIMEOUT)
        .at_most(MAX_ANSWER_BYTES);
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
    Ok(FetchAnswer::Answered {
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

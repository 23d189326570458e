//! Files that a client names by URL, fetched through the guarded HTTP client.

use std::time::Duration;

use reqwest::Method;
use runloom_ports::tools::FetchedFile;

use crate::outbound::{Outbound, OutboundRequest};

/// Fetches a file of at most `max_bytes` within `timeout`.
///
/// # Errors
/// A message for the client that gave the URL.
pub(crate) async fn fetch_file(
    outbound: &Outbound,
    url: &str,
    max_bytes: usize,
    timeout: Duration,
) -> Result<FetchedFile, String> {
    let url = outbound.check(url).map_err(|error| error.to_string())?;
    let request = OutboundRequest::new(Method::GET, url)
        .within(timeout)
        .at_most(max_bytes);
    let sent = outbound.send(request).await;
    let response = sent.map_err(|error| error.to_string())?;
    if !response.status().is_success() {
        return Err(format!(
            "its server answered with HTTP status {}",
            response.status()
        ));
    }
    let mime_type = response.media_type();
    let bytes = response.bytes().await.map_err(|error| error.to_string())?;
    Ok(FetchedFile { mime_type, bytes })
}

//! Files that clients name by their address, through the guarded way out.

use std::time::Duration;

use reqwest::Method;
use runloom_ports::tools::FetchedFile;

use crate::outbound::{Outbound, OutboundRequest};

/// Fetches a file; the failure is in words for the client, who wrote the address.
pub(crate) async fn file(
    outbound: &Outbound,
    url: &str,
    most: usize,
    within: Duration,
) -> Result<FetchedFile, String> {
    let url = outbound.check(url).map_err(|error| error.to_string())?;
    let request = OutboundRequest::new(Method::GET, url)
        .within(within)
        .at_most(most);
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

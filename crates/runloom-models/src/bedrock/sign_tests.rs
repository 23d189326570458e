//! Signatures, compared with those of the vendor's software.

use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;

use super::*;

fn provider(extra: &[(&str, &str)]) -> ProviderSettings {
    ProviderSettings {
        id: "aws".into(),
        extra: extra
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
            .collect(),
        ..Default::default()
    }
}

/// The expected signature was made by botocore for the same request.
#[test]
fn signs_like_the_official_client() {
    let provider = provider(&[
        ("access_key_id", "AKIDEXAMPLE"),
        (
            "secret_access_key",
            "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        ),
        ("session_token", "token"),
    ]);
    let credential = Credential::read(&provider, Some("eu-central-1")).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static("application/vnd.amazon.eventstream"),
    );
    let url = "https://bedrock-runtime.eu-central-1.amazonaws.com/model/\
               eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream";
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_744_000);
    let body = Payload::of(vec!["{\"max_".into(), "tokens\":1}".into()]);
    credential.apply(url, &mut headers, &body, now).unwrap();
    assert_eq!(headers["x-amz-date"], "20261115T120000Z");
    assert_eq!(headers["x-amz-security-token"], "token");
    assert_eq!(
        headers["authorization"],
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261115/eu-central-1/bedrock/aws4_request, \
         SignedHeaders=accept;content-type;host;x-amz-date;x-amz-security-token, \
         Signature=575fd142a55b76e75ed70d4819b38e188edfed70b23c46d05ef82cc9a35bdbf1"
    );
    assert!(headers["authorization"].is_sensitive());
}

#[test]
fn does_not_sign_with_a_bearer_key() {
    let mut provider = provider(&[]);
    provider.api_key = Some(Secret::new("bedrock-key"));
    let credential = Credential::read(&provider, None).unwrap();
    let mut headers = HeaderMap::new();
    let nothing = Payload::default();
    credential
        .apply("https://x", &mut headers, &nothing, SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_eq!(headers["authorization"], "Bearer bedrock-key");
    assert_eq!(headers.len(), 1);
}

#[test]
fn signing_needs_a_region_and_hides_secrets() {
    let provider = provider(&[
        ("access_key_id", "AKIDEXAMPLE"),
        ("secret_access_key", "hush-hush"),
    ]);
    assert!(
        Credential::read(&provider, None)
            .unwrap_err()
            .to_string()
            .contains("`region`")
    );
    let credential = Credential::read(&provider, Some("us-east-1")).unwrap();
    assert_eq!(format!("{credential:?}"), "AccessKey");
    assert!(
        credential
            .secrets()
            .iter()
            .any(|secret| secret.expose() == "hush-hush")
    );
}

//! The retry hint of a provider: in one of several headers, or in the body of an error.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use serde_json::Value;

/// Longer hints are cut to this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// Google's `details: [{"@type": "…RetryInfo", "retryDelay": "3.5s"}]`.
pub(crate) fn of_body(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    let delay = details
        .iter()
        .find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Some(seconds(delay.strip_suffix('s')?)?.min(MAX_RETRY_AFTER))
}

/// The hint in the headers, if there is one.
pub(crate) fn of_headers(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let after = header(headers, "retry-after-ms")
        .and_then(|text| seconds(text).map(|milliseconds| milliseconds / 1_000))
        .or_else(|| header(headers, "retry-after").and_then(|text| seconds_or_date(text, now)))
        .or_else(|| reset_of_exhausted(headers, now))?;
    Some(after.min(MAX_RETRY_AFTER))
}

fn seconds_or_date(text: &str, now: SystemTime) -> Option<Duration> {
    seconds(text).or_else(|| {
        let at = httpdate::parse_http_date(text).ok()?;
        Some(at.duration_since(now).unwrap_or_default())
    })
}

/// `x-ratelimit-reset-*` of the windows whose `remaining` is zero. A plain `x-ratelimit-reset` is a Unix time or a
/// number of seconds.
fn reset_of_exhausted(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    ["requests", "tokens"]
        .iter()
        .filter(|window| header(headers, &format!("x-ratelimit-remaining-{window}")) == Some("0"))
        .filter_map(|window| header(headers, &format!("x-ratelimit-reset-{window}")))
        .filter_map(span)
        .max()
        .or_else(|| {
            let reset = seconds(header(headers, "x-ratelimit-reset")?)?;
            let epoch = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            // Gateways send milliseconds since the epoch, seconds since the epoch, or seconds from now.
            Some(match reset.as_secs() {
                0..1_000_000_000 => reset,
                1_000_000_000..100_000_000_000 => reset.saturating_sub(epoch),
                _ => (reset / 1_000).saturating_sub(epoch),
            })
        })
}

/// OpenAI's durations: `1s`, `6m0s`, `250ms`, `1h2m3.5s`.
fn span(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let amount = seconds(&rest[..digits])?;
        rest = &rest[digits..];
        let unit_end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        total = total.checked_add(match &rest[..unit_end] {
            "ms" => amount / 1_000,
            "s" => amount,
            "m" => amount.checked_mul(60)?,
            "h" => amount.checked_mul(3_600)?,
            "d" => amount.checked_mul(86_400)?,
            _ => return None,
        })?;
        rest = &rest[unit_end..];
    }
    Some(total)
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The value of a header, if it is text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    type Headers<'a> = &'a [(&'a str, &'a str)];

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_bytes(name.as_bytes()).unwrap(),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn parses_every_form_of_the_hint() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let date = httpdate::fmt_http_date(now + Duration::from_secs(90));
        let table: &[(Headers<'_>, Option<u64>)] = &[
            (&[("retry-after", "2")], Some(2_000)),
            (&[("retry-after", "0.5")], Some(500)),
            (&[("retry-after", &date)], Some(90_000)),
            (
                &[("retry-after-ms", "250"), ("retry-after", "9")],
                Some(250),
            ),
            (
                &[
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "6m0.5s"),
                ],
                Some(360_500),
            ),
            (
                &[
                    ("x-ratelimit-remaining-tokens", "9"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                ],
                None,
            ),
            (&[("x-ratelimit-reset", "1700000030")], Some(30_000)),
            (&[("x-ratelimit-reset", "1700000030000")], Some(30_000)),
            (&[("x-ratelimit-reset", "7")], Some(7_000)),
            (&[("retry-after", "99999999")], Some(3_600_000)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "soon")], None),
            (&[], None),
        ];
        for (pairs, wanted) in table {
            let found = of_headers(&headers(pairs), now);
            assert_eq!(found, wanted.map(Duration::from_millis), "{pairs:?}");
        }
    }
}

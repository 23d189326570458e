//! `@time/now`: the current time in a time zone.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use runloom_ports::tools::Outcome;
use serde_json::{Value, json};

use crate::content::{ResultContent, truncate};

/// The current time.
///
/// # Errors
/// A message for the model when the time zone is unknown.
pub(super) fn now(input: &Value) -> Result<Outcome, String> {
    let name = input
        .get("timezone")
        .and_then(Value::as_str)
        .unwrap_or("UTC");
    let mut content = ResultContent::new();
    content.text(&at(Timestamp::now(), name)?.to_string());
    Ok(content.success())
}

fn at(now: Timestamp, name: &str) -> Result<Value, String> {
    let zone = TimeZone::get(name.trim()).map_err(|_| {
        let name = truncate(name, 100);
        format!("\"{name}\" is not a time zone; give an IANA name like \"Europe/Oslo\" or \"UTC\"")
    })?;
    let local: Zoned = now.to_zoned(zone);
    Ok(json!({
        "time": local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "timezone": local.time_zone().iana_name().unwrap_or("UTC"),
        "weekday": local.strftime("%A").to_string(),
        "utc": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "unixSeconds": now.as_second(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_the_time_in_the_requested_zone() {
        let moment = Timestamp::from_second(1_782_907_200).unwrap();
        let oslo = at(moment, "Europe/Oslo").unwrap();
        assert_eq!(oslo["time"], "2026-07-01T14:00:00+02:00");
        assert_eq!(oslo["timezone"], "Europe/Oslo");
        assert_eq!(oslo["weekday"], "Wednesday");
        assert_eq!(oslo["utc"], "2026-07-01T12:00:00Z");
        assert_eq!(oslo["unixSeconds"], 1_782_907_200);
        assert_eq!(
            at(moment, "UTC").unwrap()["time"],
            "2026-07-01T12:00:00+00:00"
        );
        assert_eq!(
            at(moment, "Asia/Kolkata").unwrap()["time"],
            "2026-07-01T17:30:00+05:30"
        );
        for bad in [
            "Mars/Olympus",
            "",
            "../../etc/passwd",
            "CET\0",
            &"x".repeat(10_000),
        ] {
            let error = at(moment, bad).unwrap_err();
            assert!(error.contains("IANA"), "{error}");
            assert!(error.len() < 300);
        }
    }
}

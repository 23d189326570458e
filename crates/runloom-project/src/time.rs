//! Dates and times of inputs: strict forms, no conversions.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// A point in time, in milliseconds since the Unix epoch.
pub type EpochMillis = i64;

/// The start and the end of a day, the end excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaySpan {
    /// When the day begins in its time zone.
    pub start: EpochMillis,
    /// When the next day begins.
    pub end: EpochMillis,
}

/// Whether a text is a day of the calendar, `YYYY-MM-DD`.
#[must_use]
pub fn is_date(text: &str) -> bool {
    date(text).is_some()
}

/// The time of an RFC 3339 text with an offset or `Z`; any other text has no time.
#[must_use]
pub fn datetime(text: &str) -> Option<EpochMillis> {
    has_datetime_form(text)
        .then(|| text.parse::<Timestamp>().ok())
        .flatten()
        .map(Timestamp::as_millisecond)
}

/// Whether a text is a name of the IANA time zone database.
#[must_use]
pub fn is_timezone(text: &str) -> bool {
    TimeZone::get(text).is_ok()
}

/// The day in a time zone; `None` when one of the texts is not valid.
#[must_use]
pub fn day(text: &str, timezone: &str) -> Option<DaySpan> {
    let zone = TimeZone::get(timezone).ok()?;
    let day = date(text)?;
    let next = day.checked_add(1.day()).ok()?;
    let start = |day: Date| {
        Some(
            day.to_zoned(zone.clone())
                .ok()?
                .timestamp()
                .as_millisecond(),
        )
    };
    Some(DaySpan {
        start: start(day)?,
        end: start(next)?,
    })
}

fn date(text: &str) -> Option<Date> {
    has_form(text, "dddd-dd-dd").then(|| text.parse().ok())?
}

/// `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`.
fn has_datetime_form(text: &str) -> bool {
    let Some((start, rest)) = text.split_at_checked("YYYY-MM-DDTHH:MM:SS".len()) else {
        return false;
    };
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(rest) => {
            let zone = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            let digits = rest.len() - zone.len();
            if !(1..=9).contains(&digits) {
                return false;
            }
            zone
        }
    };
    has_form(start, "dddd-dd-ddTdd:dd:dd")
        && (zone == "Z" || has_form(zone, "+dd:dd") || has_form(zone, "-dd:dd"))
}

/// Compares with a pattern in which `d` is a digit.
fn has_form(text: &str, pattern: &str) -> bool {
    let fits = |(byte, wanted): (u8, u8)| match wanted {
        b'd' => byte.is_ascii_digit(),
        wanted => byte == wanted,
    };
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_zone_and_dates_a_day() {
        for good in [
            "2026-04-21T10:00:00+08:00",
            "2026-04-21T10:00:00Z",
            "2026-04-21T10:00:00.123-03:30",
        ] {
            assert!(datetime(good).is_some(), "{good}");
        }
        for bad in [
            "2026-04-21T10:00:00",
            "2026-04-21 10:00:00Z",
            "2026-04-21",
            "2026-02-30T10:00:00Z",
            "2026-04-21T25:00:00Z",
            "2026-04-21T10:00:00[Europe/Oslo]",
            "1776758400",
            "",
            "é",
        ] {
            assert!(datetime(bad).is_none(), "{bad}");
        }
        assert!(is_date("2026-02-28") && !is_date("2026-02-30") && !is_date("2026-2-3"));
        assert!(is_timezone("Europe/Oslo") && !is_timezone("Mars/Phobos"));
    }

    #[test]
    fn a_day_has_the_length_of_its_zone() {
        let hours = |date, zone| {
            let span = day(date, zone).unwrap();
            (span.end - span.start) / 3_600_000
        };
        assert_eq!(hours("2026-04-21", "UTC"), 24);
        assert_eq!(hours("2026-03-29", "Europe/Oslo"), 23);
        assert_eq!(hours("2026-10-25", "Europe/Oslo"), 25);
    }
}

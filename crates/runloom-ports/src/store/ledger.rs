//! Monthly budgets and usage.
//!
//! The worst-case cost of a model call is reserved in its monthly budgets before the call ([`Ledger::reserve`]) and
//! settled with the batch that records its end ([`UsageDelta::settle`]). So spent and reserved money together never
//! exceed a budget.

use std::fmt;

use async_trait::async_trait;
use runloom_protocol::id::RunId;
use runloom_protocol::outcome::Tokens;

use super::{Lease, Millis, StoreResult, WorkspaceNo};

/// Monthly budgets and usage.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Reserves money in all these budgets, or in none. A run has at most one reservation: an existing one belongs to a
    /// call whose end was not recorded, and counts as spent in full.
    async fn reserve(
        &self,
        lease: Lease,
        budgets: &[BudgetLimit],
        cost: CostRange,
    ) -> StoreResult<Reservation>;

    /// The spent and reserved money of a budget.
    async fn budget(&self, scope: &BudgetScope, month: Month) -> StoreResult<BudgetState>;

    /// The usage of a workspace in these days, by group, in the order of the group.
    async fn usage(
        &self,
        workspace: WorkspaceNo,
        days: DayRange,
        group: UsageGroup,
    ) -> StoreResult<Vec<UsageRow>>;
}

/// Millionths of a US dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    /// From dollars, rounded down: a limit never exceeds the requested amount.
    #[must_use]
    pub fn from_usd(usd: f64) -> Self {
        // Floats are not exact: 0.29 × 1e6 is a hair below 290,000.
        let micro = usd * 1e6;
        let near = micro.round();
        let exact = (micro - near).abs() < 1e-3;
        Self(if exact { near } else { micro.floor() } as u64)
    }

    /// In dollars.
    #[must_use]
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The sum, without ever wrapping.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, at least zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, micro) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let decimals = format!("{micro:06}");
        let shown = decimals.trim_end_matches('0').len().max(2);
        write!(f, "${whole}.{}", &decimals[..shown])
    }
}

/// A month in UTC, counted from January of the year 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month(pub i32);

impl Month {
    /// The month of a moment.
    #[must_use]
    pub fn of(at: Millis) -> Self {
        let date = Day::of(at).date();
        Self(i32::from(date.year()) * 12 + i32::from(date.month()) - 1)
    }

    /// When the next month begins, RFC 3339.
    #[must_use]
    pub fn ends_at(self) -> String {
        let next = Self(self.0.saturating_add(1));
        format!("{next}-01T00:00:00Z")
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month) = (self.0.div_euclid(12), self.0.rem_euclid(12) + 1);
        write!(f, "{year:04}-{month:02}")
    }
}

/// A day in UTC, counted from 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i32);

/// Days from `from` to `to`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayRange {
    /// The first day.
    pub from: Day,
    /// The last day.
    pub to: Day,
}

impl Day {
    const MILLIS: i64 = 24 * 60 * 60 * 1000;

    /// Day 0. Days are counted on the calendar, because the last year of `Timestamp` is not complete.
    const FIRST: jiff::civil::Date = jiff::civil::date(1970, 1, 1);

    /// The day of a moment.
    #[must_use]
    pub fn of(at: Millis) -> Self {
        let days = at.0.div_euclid(Self::MILLIS);
        Self(i32::try_from(days).unwrap_or(i32::MAX))
    }

    /// Reads `2026-10-31`, or a moment of that day, RFC 3339.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('T') {
            let at: jiff::Timestamp = text.parse().ok()?;
            return Some(Self::of(Millis(at.as_millisecond())));
        }
        let date: jiff::civil::Date = text.parse().ok()?;
        let hours = date.duration_since(Self::FIRST).as_hours();
        Some(Self(i32::try_from(hours.div_euclid(24)).ok()?))
    }

    /// The first day of its month.
    #[must_use]
    pub fn first_of_month(self) -> Self {
        Self(self.0 - i32::from(self.date().day()) + 1)
    }

    fn date(self) -> jiff::civil::Date {
        let hours = i64::from(self.0).saturating_mul(24);
        Self::FIRST.saturating_add(jiff::SignedDuration::from_hours(hours))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.date())
    }
}

/// The owner of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BudgetScope {
    /// A workspace, by slug.
    Workspace(String),
    /// An API key, by id.
    Key(String),
    /// A run whose budget pays for all runs below it. Its month is 0, because it does not refill.
    Run(RunId),
}

impl BudgetScope {
    /// The word under which it is stored.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Workspace(slug) => format!("workspace:{slug}"),
            Self::Key(id) => format!("key:{id}"),
            Self::Run(id) => format!("run:{id}"),
        }
    }
}

impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workspace(slug) => write!(f, "the workspace {slug}"),
            Self::Key(id) => write!(f, "the API key {id}"),
            Self::Run(id) => write!(f, "the run {id}"),
        }
    }
}

/// A budget and its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetLimit {
    /// The owner.
    pub scope: BudgetScope,
    /// How much in the month.
    pub cap: MicroUsd,
    /// Which month.
    pub month: Month,
}

/// The cost of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostRange {
    /// The smallest amount with which the call can be made.
    pub least: MicroUsd,
    /// The worst case.
    pub most: MicroUsd,
}

/// Answer to [`Ledger::reserve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reservation {
    /// The reserved amount: between `least` and `most`, within every budget.
    Granted(MicroUsd),
    /// A budget has less than `least`.
    Refused {
        /// Its index in the list.
        budget: usize,
        /// Its spent and reserved money.
        state: BudgetState,
    },
    /// Another worker has the lease.
    Fenced,
}

/// The spent and reserved money of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetState {
    /// Settled.
    pub spent: MicroUsd,
    /// Reserved by calls in flight.
    pub reserved: MicroUsd,
}

/// The usage that a batch adds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageDelta {
    /// Runs that ended.
    pub runs: u32,
    /// Model calls.
    pub turns: u32,
    /// Their tokens as reported by the provider.
    pub tokens: Tokens,
    /// Their cost, in millionths of a [`MicroUsd`], so that sums of small amounts stay exact.
    pub cost_pico: u64,
    /// Ends the reservation of the run: this much is spent, the rest is returned.
    pub settle: Option<MicroUsd>,
}

impl UsageDelta {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How the account is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageGroup {
    /// By day.
    Day,
    /// By catalog id of the model.
    Model,
    /// By credential.
    Key,
}

/// One line of the usage report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// Which group: a day as [`Day`] writes it, a model's or a key's id.
    pub group: String,
    /// Runs that ended.
    pub runs: u64,
    /// Model calls.
    pub turns: u64,
    /// Their tokens.
    pub tokens: Tokens,
    /// Their cost, in millionths of a [`MicroUsd`].
    pub cost_pico: u128,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_exact_where_they_can_be_and_never_more() {
        for (usd, micro) in [
            (0.29, 290_000),
            (1.1, 1_100_000),
            (0.000_001_9, 1),
            (0.0, 0),
            (-1.0, 0),
            (12_345.678_901, 12_345_678_901),
        ] {
            assert_eq!(MicroUsd::from_usd(usd), MicroUsd(micro), "{usd}");
        }
    }

    #[test]
    fn money_is_written_with_two_decimals_at_least() {
        for (micro, text) in [
            (0, "$0.00"),
            (10, "$0.00001"),
            (500_000, "$0.50"),
            (12_345_678, "$12.345678"),
        ] {
            assert_eq!(MicroUsd(micro).to_string(), text);
        }
    }

    #[test]
    fn months_turn_in_utc() {
        let at = |text: &str| {
            let stamp: jiff::Timestamp = text.parse().unwrap();
            Millis(stamp.as_millisecond())
        };
        let last = Month::of(at("2026-12-31T23:59:59.999Z"));
        assert_eq!(last.to_string(), "2026-12");
        assert_eq!(last.ends_at(), "2027-01-01T00:00:00Z");
        let first = Month::of(at("2027-01-01T00:00:00Z"));
        assert_eq!(first, Month(last.0 + 1));
        assert_eq!(Month::of(at("2027-01-01T01:00:00+02:00")), last);
        assert_eq!(Month::of(at("1969-12-31T00:00:00Z")).to_string(), "1969-12");
    }

    #[test]
    fn days_read_what_they_write() {
        for text in ["1970-01-01", "2024-02-29", "2026-10-31", "1969-12-31"] {
            assert_eq!(Day::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Day::parse("9999-12-31").unwrap().to_string(), "9999-12-31");
        assert_eq!(Day::parse("1970-01-02"), Some(Day(1)));
        assert_eq!(Day::parse("1970-01-03T00:30:00+01:00"), Some(Day(1)));
        let leap = Day::parse("2024-02-29").unwrap().first_of_month();
        assert_eq!(leap.to_string(), "2024-02-01");
        for bad in ["", "2026-13-01", "2026-02-30", "yesterday"] {
            assert_eq!(Day::parse(bad), None, "{bad}");
        }
    }
}

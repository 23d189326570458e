//! Usage reports of workspaces.

use std::sync::Arc;

use runloom_protocol::resource::{UsageGroupBy, UsageLine, UsageReport, UsageSums};

use super::auth::Caller;
use crate::error::{Error, Result};
use runloom_ports::clock::Clock;
use runloom_ports::store::{Day, DayRange, Store, UsageGroup, UsageRow};

/// Largest number of days of one report.
const DAYS_MAX: i32 = 1_100;

/// The days and groups of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageRequest {
    /// First day; by default the first of the month of `to`.
    pub from: Option<Day>,
    /// Last day, included; by default today.
    pub to: Option<Day>,
    /// How rows are grouped.
    pub group_by: UsageGroupBy,
}

/// Usage of workspaces.
pub struct UsageService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
}

impl UsageService {
    /// The usage of the caller's workspace.
    ///
    /// # Errors
    /// When the days are in the wrong order or too many.
    pub async fn report(&self, caller: &Caller, request: UsageRequest) -> Result<UsageReport> {
        let to = request.to.unwrap_or_else(|| Day::of(self.clock.now()));
        let from = request.from.unwrap_or_else(|| to.first_of_month());
        if from > to {
            return Err(Error::invalid("from", format!("is after `to` ({to})")));
        }
        if to.0.saturating_sub(from.0) >= DAYS_MAX {
            let message = format!("must be less than {DAYS_MAX} days before `to` ({to})");
            return Err(Error::invalid("from", message));
        }
        let group = match request.group_by {
            UsageGroupBy::Day => UsageGroup::Day,
            UsageGroupBy::Model => UsageGroup::Model,
            UsageGroupBy::Key => UsageGroup::Key,
        };
        let (workspace, days) = (caller.workspace.no, DayRange { from, to });
        let rows = self.store.usage(workspace, days, group).await?;
        Ok(UsageReport {
            from: from.to_string(),
            to: to.to_string(),
            group_by: request.group_by,
            total: total(&rows),
            rows: rows.into_iter().map(|row| line(row, group)).collect(),
        })
    }
}

fn line(row: UsageRow, group: UsageGroup) -> UsageLine {
    let sums = sums(&row);
    let mut line = UsageLine {
        day: None,
        model_id: None,
        key_id: None,
        sums,
    };
    let place = match group {
        UsageGroup::Day => &mut line.day,
        UsageGroup::Model => &mut line.model_id,
        UsageGroup::Key => &mut line.key_id,
    };
    *place = Some(row.group);
    line
}

fn sums(row: &UsageRow) -> UsageSums {
    UsageSums {
        runs: row.runs,
        turns: row.turns,
        tokens: row.tokens,
        cost_usd: row.cost_pico as f64 / 1e12,
    }
}

fn total(rows: &[UsageRow]) -> UsageSums {
    let mut all = UsageRow {
        group: String::new(),
        runs: 0,
        turns: 0,
        tokens: Default::default(),
        cost_pico: 0,
    };
    for row in rows {
        all.runs = all.runs.saturating_add(row.runs);
        all.turns = all.turns.saturating_add(row.turns);
        all.tokens.add(&row.tokens);
        all.cost_pico = all.cost_pico.saturating_add(row.cost_pico);
    }
    sums(&all)
}

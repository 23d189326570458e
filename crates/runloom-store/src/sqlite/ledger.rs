//! [`Ledger`]: monthly budgets, reservations and usage.

use async_trait::async_trait;
use runloom_ports::store::{
    BudgetLimit, BudgetScope, BudgetState, CostRange, Day, DayRange, Lease, Ledger, MicroUsd,
    Millis, Month, Reservation, RunNo, StoreResult, UsageDelta, UsageGroup, UsageRow, WorkspaceNo,
};
use runloom_protocol::outcome::Tokens;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::commit::holding;
use super::transaction::Tx;
use super::{SqliteStore, int, uint};

/// Rows of one answer at most: more keys or models than anybody reads.
const ROWS: i64 = 10_000;

/// Largest number that one batch adds to a sum, and largest sum that is added to: a sum that overflowed would be
/// refused, and with it the batch that ends a run.
const ADDED: u64 = 1 << 61;
const SUMMED: i64 = 1 << 62;

#[async_trait]
impl Ledger for SqliteStore {
    async fn reserve(
        &self,
        lease: Lease,
        purses: &[BudgetLimit],
        ask: CostRange,
    ) -> StoreResult<Reservation> {
        let purses = purses.to_vec();
        self.writer
            .run("reserve", move |tx| reserve(tx, lease, &purses, ask))
            .await
    }

    async fn budget(&self, scope: &BudgetScope, month: Month) -> StoreResult<BudgetState> {
        let scope = scope.name();
        self.read(move |connection| state(connection, &scope, month))
            .await
    }

    async fn usage(
        &self,
        workspace: WorkspaceNo,
        days: DayRange,
        group: UsageGroup,
    ) -> StoreResult<Vec<UsageRow>> {
        self.read(move |connection| sums(connection, workspace, days, group))
            .await
    }
}

fn reserve(
    tx: &mut Tx<'_>,
    lease: Lease,
    purses: &[BudgetLimit],
    ask: CostRange,
) -> rusqlite::Result<Reservation> {
    if holding(tx, lease)?.is_none() {
        return Ok(Reservation::Fenced);
    }
    tx.held.set_plain(lease.run, None);
    settle(tx, lease.run, None)?;
    let mut amount = ask.most;
    for (place, purse) in purses.iter().enumerate() {
        let state = state(tx.connection, &purse.scope.name(), purse.month)?;
        let left = purse.cap.minus(state.spent).minus(state.reserved);
        if left < ask.least {
            let purse = place;
            return Ok(Reservation::Refused {
                budget: purse,
                state,
            });
        }
        amount = amount.min(left);
    }
    for purse in purses {
        let (scope, month, held) = (purse.scope.name(), purse.month.0, int(amount.0));
        tx.execute(
            "INSERT INTO purses (scope, month, spent, reserved) VALUES (?1, ?2, 0, ?3)
             ON CONFLICT DO UPDATE SET reserved = reserved + excluded.reserved",
            params![scope, month, held],
        )?;
        tx.execute(
            "INSERT INTO reservations (run, scope, month, amount) VALUES (?1, ?2, ?3, ?4)",
            params![lease.run.0, scope, month, held],
        )?;
    }
    Ok(Reservation::Granted(amount))
}

/// Ends the run's reservation, if it has one: `spent` of it, or all when nobody knows.
pub(super) fn settle(tx: &Tx<'_>, run: RunNo, spent: Option<MicroUsd>) -> rusqlite::Result<()> {
    let held: bool = tx
        .connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM reservations WHERE run = ?1)")?
        .query_row([run.0], |row| row.get(0))?;
    if !held {
        return Ok(());
    }
    tx.execute(
        "UPDATE purses SET reserved = reserved - held.amount, spent = min(spent, ?3) + coalesce(?2, held.amount)
         FROM (SELECT scope, month, amount FROM reservations WHERE run = ?1) AS held
         WHERE purses.scope = held.scope AND purses.month = held.month",
        params![run.0, spent.map(|spent| int(spent.0.min(ADDED))), SUMMED],
    )?;
    tx.execute("DELETE FROM reservations WHERE run = ?1", params![run.0])?;
    Ok(())
}

/// Adds what a batch used to the account, and settles. `speaker`: the model whose account it is, when it is not the
/// run's.
pub(super) fn record(
    tx: &Tx<'_>,
    run: RunNo,
    (usage, speaker): (&UsageDelta, Option<&str>),
    at: Millis,
) -> rusqlite::Result<()> {
    if usage.settle.is_some() {
        settle(tx, run, usage.settle)?;
    }
    let nothing = UsageDelta {
        settle: usage.settle,
        ..UsageDelta::default()
    };
    if *usage == nothing {
        return Ok(());
    }
    let count = |number: u64| int(number.min(ADDED));
    let tokens = &usage.tokens;
    tx.execute(
        "INSERT INTO usage (workspace, day, credential, model_id, runs, turns, input_tokens, cached_tokens, reasoning_tokens,
             output_tokens, cost_pico)
         SELECT workspace, ?2, credential, coalesce(?11, model_id), ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM runs WHERE no = ?1
         ON CONFLICT DO UPDATE SET
             runs = runs + excluded.runs,
             turns = turns + excluded.turns,
             input_tokens = min(input_tokens, ?10) + excluded.input_tokens,
             cached_tokens = min(cached_tokens, ?10) + excluded.cached_tokens,
             reasoning_tokens = min(reasoning_tokens, ?10) + excluded.reasoning_tokens,
             output_tokens = min(output_tokens, ?10) + excluded.output_tokens,
             cost_pico = min(cost_pico, ?10) + excluded.cost_pico",
        params![
            run.0,
            Day::of(at).0,
            usage.runs,
            usage.turns,
            count(tokens.input_tokens),
            count(tokens.cached_tokens),
            count(tokens.reasoning_tokens),
            count(tokens.output_tokens),
            count(usage.cost_pico),
            SUMMED,
            speaker,
        ],
    )?;
    Ok(())
}

fn state(connection: &Connection, scope: &str, month: Month) -> rusqlite::Result<BudgetState> {
    let found = connection
        .prepare_cached("SELECT spent, reserved FROM purses WHERE scope = ?1 AND month = ?2")?
        .query_row(params![scope, month.0], |row| {
            Ok(BudgetState {
                spent: MicroUsd(uint(row.get(0)?)),
                reserved: MicroUsd(uint(row.get(1)?)),
            })
        })
        .optional()?;
    Ok(found.unwrap_or_default())
}

fn sums(
    connection: &Connection,
    workspace: WorkspaceNo,
    days: DayRange,
    group: UsageGroup,
) -> rusqlite::Result<Vec<UsageRow>> {
    let column = match group {
        UsageGroup::Day => "day",
        UsageGroup::Model => "model_id",
        UsageGroup::Key => "credential",
    };
    // The money in two parts: the sum of many years' small amounts may be larger than a number of SQLite.
    let sql = format!(
        "SELECT {column}, sum(runs), sum(turns), sum(input_tokens), sum(cached_tokens), sum(reasoning_tokens),
             sum(output_tokens), sum(cost_pico / 1000000), sum(cost_pico % 1000000)
         FROM usage WHERE workspace = ?1 AND day BETWEEN ?2 AND ?3
         GROUP BY {column} ORDER BY {column} LIMIT ?4"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(params![workspace.0, days.from.0, days.to.0, ROWS], |row| {
        row_of(row, group)
    })?;
    rows.collect()
}

fn row_of(row: &Row<'_>, group: UsageGroup) -> rusqlite::Result<UsageRow> {
    let number = |place: usize| row.get(place).map(uint);
    Ok(UsageRow {
        group: match group {
            UsageGroup::Day => Day(row.get(0)?).to_string(),
            UsageGroup::Model | UsageGroup::Key => row.get(0)?,
        },
        runs: number(1)?,
        turns: number(2)?,
        tokens: Tokens {
            input_tokens: number(3)?,
            cached_tokens: number(4)?,
            reasoning_tokens: number(5)?,
            output_tokens: number(6)?,
        },
        cost_pico: u128::from(number(7)?) * 1_000_000 + u128::from(number(8)?),
    })
}

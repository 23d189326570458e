//! [`Ledger`]: purses, reservations, and the account of what was used.
//!
//! Purses are locked after the runs that pay with them, in the order of their names and months, and the account's
//! rows after the purses, in the order of their keys: so nobody waits in a circle.

use async_trait::async_trait;
use runloom_ports::store::{
    Batch, BudgetLimit, BudgetScope, BudgetState, CostRange, Day, DayRange, Lease, Ledger,
    MicroUsd, Month, Next, Reservation, StoreResult, UsageDelta, UsageGroup, UsageRow, WorkspaceNo,
};
use runloom_protocol::outcome::Tokens;
use tokio_postgres::Row;

use super::columns::{get_text, text};
use super::error::Failure;
use super::group::Values;
use super::pool::Session;
use super::{PostgresStore, int, uint};

/// Rows of one answer at most: more keys or models than anybody reads.
const ROWS: i64 = 10_000;

/// Largest number that is added to a sum: one that overflowed would fail the batch that ends a run.
const ADDED: u64 = 1 << 61;

#[async_trait]
impl Ledger for PostgresStore {
    async fn reserve(
        &self,
        lease: Lease,
        purses: &[BudgetLimit],
        ask: CostRange,
    ) -> StoreResult<Reservation> {
        let reserved = self
            .pool
            .transact("reserve", |session| async move {
                reserve(&session, lease, purses, ask).await
            })
            .await?;
        Ok(reserved)
    }

    async fn budget(&self, scope: &BudgetScope, month: Month) -> StoreResult<BudgetState> {
        let scope = &scope.name();
        self.pool
            .read(|session| async move { state(&session, scope, month).await })
            .await
    }

    async fn usage(
        &self,
        workspace: WorkspaceNo,
        days: DayRange,
        group: UsageGroup,
    ) -> StoreResult<Vec<UsageRow>> {
        self.pool
            .read(|session| async move { sums(&session, workspace, days, group).await })
            .await
    }
}

async fn reserve(
    session: &Session,
    lease: Lease,
    purses: &[BudgetLimit],
    ask: CostRange,
) -> Result<Reservation, Failure> {
    let run = lease.run.0;
    let held = session
        .first(
            "SELECT 1 FROM runs WHERE no = $1 AND epoch = $2 AND worker IS NOT NULL FOR NO KEY UPDATE",
            &[&run, &int(lease.epoch)],
        )
        .await?;
    if held.is_none() {
        return Ok(Reservation::Fenced);
    }
    let (scopes, months): (Vec<String>, Vec<i64>) = purses
        .iter()
        .map(|purse| (stored(&purse.scope), i64::from(purse.month.0)))
        .unzip();
    lock(session, run, &scopes, &months).await?;
    let forgotten: (Vec<i64>, Vec<Option<i64>>) = (vec![run], vec![None]);
    session
        .execute(SETTLE, &[&forgotten.0, &forgotten.1])
        .await?;
    session.execute(SETTLED, &[&forgotten.0]).await?;
    let mut amount = ask.most;
    for (place, purse) in purses.iter().enumerate() {
        let state = state(session, &purse.scope.name(), purse.month).await?;
        let left = purse.cap.minus(state.spent).minus(state.reserved);
        if left < ask.least {
            let budget = place;
            return Ok(Reservation::Refused { budget, state });
        }
        amount = amount.min(left);
    }
    session
        .execute(
            "WITH taken AS (
                 INSERT INTO reservations (run, scope, month, amount)
                 SELECT $1, purse.scope, purse.month, $4 FROM unnest($2::TEXT[], $3::BIGINT[]) AS purse (scope, month)
                 RETURNING scope, month)
             UPDATE purses SET reserved = reserved + $4 FROM taken
             WHERE purses.scope = taken.scope AND purses.month = taken.month",
            &[&run, &scopes, &months, &int(amount.0)],
        )
        .await?;
    Ok(Reservation::Granted(amount))
}

/// Locks these purses, making those that are not there, and the ones that an earlier reservation of the run holds.
async fn lock(
    session: &Session,
    run: i64,
    scopes: &Vec<String>,
    months: &Vec<i64>,
) -> Result<(), Failure> {
    session
        .execute(
            "INSERT INTO purses (scope, month, spent, reserved)
             SELECT scope, month, 0, 0 FROM unnest($1::TEXT[], $2::BIGINT[]) AS purse (scope, month)
             ORDER BY scope, month ON CONFLICT DO NOTHING",
            &[scopes, months],
        )
        .await?;
    session
        .query(
            "SELECT 1 FROM purses
             WHERE (scope, month) IN (
                 SELECT * FROM unnest($2::TEXT[], $3::BIGINT[])
                 UNION SELECT scope, month FROM reservations WHERE run = $1)
             ORDER BY scope, month FOR NO KEY UPDATE",
            &[&run, scopes, months],
        )
        .await?;
    Ok(())
}

/// Locks the purses of these runs' reservations.
pub(super) const LOCK_PURSES: &str = "SELECT 1 FROM purses
    WHERE (scope, month) IN (SELECT scope, month FROM reservations WHERE run = ANY($1))
    ORDER BY scope, month FOR NO KEY UPDATE";

/// Ends reservations: with what is spent of each, or with all of it when nobody knows.
pub(super) const SETTLE: &str = "UPDATE purses SET
        reserved = reserved - settled.amount,
        spent = least(purses.spent, 4611686018427387904) + settled.spent
    FROM (SELECT scope, month, sum(amount)::BIGINT AS amount,
            least(sum(coalesce(ended.spent, amount)), 2305843009213693952)::BIGINT AS spent
        FROM unnest($1::BIGINT[], $2::BIGINT[]) AS ended (run, spent)
        JOIN reservations ON reservations.run = ended.run
        GROUP BY scope, month) AS settled
    WHERE purses.scope = settled.scope AND purses.month = settled.month";

/// Follows [`SETTLE`].
pub(super) const SETTLED: &str = "DELETE FROM reservations WHERE run = ANY($1)";

/// Adds to the account.
pub(super) const USE: &str = "INSERT INTO usage (workspace, day, credential, model_id, runs, turns, input_tokens, cached_tokens,
        reasoning_tokens, output_tokens, cost_pico)
    SELECT runs.workspace, used.day, runs.credential, coalesce(used.model, runs.model_id), sum(used.runs)::BIGINT, sum(used.turns)::BIGINT,
        least(sum(input), 2305843009213693952)::BIGINT, least(sum(cached), 2305843009213693952)::BIGINT,
        least(sum(reasoning), 2305843009213693952)::BIGINT, least(sum(output), 2305843009213693952)::BIGINT,
        least(sum(cost), 2305843009213693952)::BIGINT
    FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::BIGINT[], $7::BIGINT[],
            $8::BIGINT[], $9::BIGINT[], $10::TEXT[])
        AS used (run, day, runs, turns, input, cached, reasoning, output, cost, model)
    JOIN runs ON runs.no = used.run
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (workspace, day, credential, model_id) DO UPDATE SET
        runs = usage.runs + excluded.runs,
        turns = usage.turns + excluded.turns,
        input_tokens = least(usage.input_tokens, 4611686018427387904) + excluded.input_tokens,
        cached_tokens = least(usage.cached_tokens, 4611686018427387904) + excluded.cached_tokens,
        reasoning_tokens = least(usage.reasoning_tokens, 4611686018427387904) + excluded.reasoning_tokens,
        output_tokens = least(usage.output_tokens, 4611686018427387904) + excluded.output_tokens,
        cost_pico = least(usage.cost_pico, 4611686018427387904) + excluded.cost_pico";

/// What a group of batches settles and uses: the columns of [`SETTLE`] and [`USE`].
#[derive(Default)]
pub(super) struct Account {
    pub(super) settled: (Vec<i64>, Vec<Option<i64>>),
    /// Run, day, runs, turns, input, cached, reasoning, output, cost.
    used: [Vec<i64>; 9],
    /// Models, where they are not the runs'.
    speakers: Vec<Option<String>>,
}

impl Account {
    /// Adds a batch. A run that ends leaves no reservation behind.
    pub(super) fn add(&mut self, run: i64, batch: &Batch) {
        let settle = batch.usage.and_then(|usage| usage.settle);
        if settle.is_some() || matches!(batch.next, Next::Finish(_)) {
            let spent = settle.map(|spent| int(spent.0.min(ADDED)));
            self.settled.0.push(run);
            self.settled.1.push(spent);
        }
        let Some(usage) = batch.usage else { return };
        let alone = UsageDelta {
            settle: usage.settle,
            ..UsageDelta::default()
        };
        if usage == alone {
            return;
        }
        let count = |number: u64| int(number.min(ADDED));
        let row = [
            run,
            i64::from(Day::of(batch.at).0),
            i64::from(usage.runs),
            i64::from(usage.turns),
            count(usage.tokens.input_tokens),
            count(usage.tokens.cached_tokens),
            count(usage.tokens.reasoning_tokens),
            count(usage.tokens.output_tokens),
            count(usage.cost_pico),
        ];
        for (column, value) in self.used.iter_mut().zip(row) {
            column.push(value);
        }
        let speaker = batch.speaker.as_deref();
        self.speakers
            .push(speaker.map(|speaker| text(speaker).into_owned()));
    }

    /// Runs that used something.
    pub(super) fn users(&self) -> &Vec<i64> {
        let [run, ..] = &self.used;
        run
    }

    /// Values of [`USE`].
    pub(super) fn used(&self) -> Values<'_> {
        let numbers = self.used.iter().map(|column| column as _);
        numbers.chain([&self.speakers as _]).collect()
    }
}

async fn state(session: &Session, scope: &str, month: Month) -> Result<BudgetState, Failure> {
    let row = session
        .first(
            "SELECT spent, reserved FROM purses WHERE scope = $1 AND month = $2",
            &[&text(scope), &i64::from(month.0)],
        )
        .await?;
    let Some(row) = row else {
        return Ok(BudgetState::default());
    };
    Ok(BudgetState {
        spent: MicroUsd(uint(row.try_get(0)?)),
        reserved: MicroUsd(uint(row.try_get(1)?)),
    })
}

async fn sums(
    session: &Session,
    workspace: WorkspaceNo,
    days: DayRange,
    group: UsageGroup,
) -> Result<Vec<UsageRow>, Failure> {
    // `C`: the order of every other database, whatever the language of this one.
    let (column, order) = match group {
        UsageGroup::Day => ("day", "day"),
        UsageGroup::Model => ("model_id", "model_id COLLATE \"C\""),
        UsageGroup::Key => ("credential", "credential COLLATE \"C\""),
    };
    let sum = |column: &str| format!("least(sum({column}), 9223372036854775807)::BIGINT");
    // The money in two parts: the sum of many years' small amounts may be larger than a BIGINT.
    let sums = [
        "runs",
        "turns",
        "input_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "output_tokens",
        "cost_pico / 1000000",
        "cost_pico % 1000000",
    ]
    .map(sum)
    .join(", ");
    let sql = format!(
        "SELECT {column}, {sums} FROM usage WHERE workspace = $1 AND day BETWEEN $2 AND $3
         GROUP BY {column} ORDER BY {order} LIMIT $4"
    );
    let (from, to) = (i64::from(days.from.0), i64::from(days.to.0));
    let rows = session
        .query(&sql, &[&workspace.0, &from, &to, &ROWS])
        .await?;
    rows.iter().map(|row| row_of(row, group)).collect()
}

fn row_of(row: &Row, group: UsageGroup) -> Result<UsageRow, Failure> {
    let number = |place: usize| -> Result<u64, Failure> { Ok(uint(row.try_get(place)?)) };
    Ok(UsageRow {
        group: match group {
            UsageGroup::Day => {
                let day: i64 = row.try_get(0)?;
                Day(i32::try_from(day).unwrap_or(i32::MAX)).to_string()
            }
            UsageGroup::Model => get_text(row, "model_id")?,
            UsageGroup::Key => get_text(row, "credential")?,
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

/// A purse's name as it is stored.
fn stored(scope: &BudgetScope) -> String {
    text(&scope.name()).into_owned()
}

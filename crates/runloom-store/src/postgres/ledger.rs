//! [`Ledger`]: purses, reservations, and the account of what was used.

use async_trait::async_trait;
use runloom_core::ports::store::{
    Ask, Batch, Day, Lease, Ledger, MicroUsd, Month, Next, PurseLimit, PurseScope, PurseState,
    Reservation, StoreResult, UsageGroup, UsageRow, WorkspaceNo,
};
use runloom_protocol::outcome::Tokens;
use tokio_postgres::Row;

use super::PostgresStore;
use super::columns::{get_text, text};
use super::error::Failure;
use super::group::Values;
use super::int;
use super::pool::Session;
use super::registry::count;

/// Rows of one answer at most: more keys or models than anybody reads.
const ROWS: i64 = 10_000;

/// Largest number that one batch adds to a sum: a sum that overflowed would be refused, and with it the batch that ends a run.
const ADDED: u64 = 1 << 55;

/// Ends reservations: what was spent of each, or all of it when nobody knows.
pub(super) const SETTLE: &str = "UPDATE purses SET reserved = purses.reserved - sums.amount,
        spent = least(purses.spent, 4611686018427387904) + sums.spent
    FROM (SELECT scope, month, sum(amount)::BIGINT AS amount, sum(coalesce(settled.spent, amount))::BIGINT AS spent
        FROM unnest($1::BIGINT[], $2::BIGINT[]) AS settled (run, spent)
        JOIN reservations ON reservations.run = settled.run GROUP BY scope, month) AS sums
    WHERE purses.scope = sums.scope AND purses.month = sums.month";

/// Forgets reservations that are settled.
pub(super) const FORGET: &str = "DELETE FROM reservations WHERE run = ANY($1)";

/// Adds to the account.
pub(super) const USE: &str = "INSERT INTO usage (workspace, day, credential, model_id, runs, turns, input_tokens,
        cached_tokens, reasoning_tokens, output_tokens, cost_pico)
    SELECT runs.workspace, used.day, runs.credential, runs.model_id, sum(used.runs)::BIGINT, sum(used.turns)::BIGINT,
        sum(used.input)::BIGINT, sum(used.cached)::BIGINT, sum(used.reasoning)::BIGINT, sum(used.output)::BIGINT,
        sum(used.cost)::BIGINT
    FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::BIGINT[], $5::BIGINT[], $6::BIGINT[], $7::BIGINT[],
            $8::BIGINT[], $9::BIGINT[])
        AS used (run, day, runs, turns, input, cached, reasoning, output, cost)
    JOIN runs ON runs.no = used.run
    GROUP BY runs.workspace, used.day, runs.credential, runs.model_id
    ORDER BY runs.workspace, used.day, runs.credential, runs.model_id
    ON CONFLICT (workspace, day, credential, model_id) DO UPDATE SET
        runs = usage.runs + excluded.runs,
        turns = usage.turns + excluded.turns,
        input_tokens = least(usage.input_tokens, 4611686018427387904) + excluded.input_tokens,
        cached_tokens = least(usage.cached_tokens, 4611686018427387904) + excluded.cached_tokens,
        reasoning_tokens = least(usage.reasoning_tokens, 4611686018427387904) + excluded.reasoning_tokens,
        output_tokens = least(usage.output_tokens, 4611686018427387904) + excluded.output_tokens,
        cost_pico = least(usage.cost_pico, 4611686018427387904) + excluded.cost_pico";

/// What the batches of a group add to the account, and the reservations that they end.
#[derive(Default)]
pub(super) struct Account {
    /// Runs whose reservations end.
    pub(super) settled: Vec<i64>,
    spent: Vec<Option<i64>>,
    /// Runs that used something.
    pub(super) used: Vec<i64>,
    day: Vec<i64>,
    runs: Vec<i64>,
    turns: Vec<i64>,
    input: Vec<i64>,
    cached: Vec<i64>,
    reasoning: Vec<i64>,
    output: Vec<i64>,
    cost: Vec<i64>,
}

impl Account {
    pub(super) fn add(&mut self, run: i64, batch: &Batch) {
        let usage = batch.usage.unwrap_or_default();
        let is_over = matches!(batch.next, Next::Finish(_));
        if usage.settle.is_some() || is_over {
            self.settled.push(run);
            let spent = usage.settle.map(|spent| int(spent.0.min(ADDED)));
            self.spent.push(spent);
        }
        let nothing = runloom_core::ports::store::UsageDelta {
            settle: usage.settle,
            ..Default::default()
        };
        if usage == nothing {
            return;
        }
        let tokens = &usage.tokens;
        let number = |it: u64| int(it.min(ADDED));
        self.used.push(run);
        self.day.push(i64::from(Day::of(batch.at).0));
        self.runs.push(i64::from(usage.runs));
        self.turns.push(i64::from(usage.turns));
        self.input.push(number(tokens.input_tokens));
        self.cached.push(number(tokens.cached_tokens));
        self.reasoning.push(number(tokens.reasoning_tokens));
        self.output.push(number(tokens.output_tokens));
        self.cost.push(number(usage.cost_pico));
    }

    pub(super) fn settlements(&self) -> Values<'_> {
        vec![&self.settled, &self.spent]
    }

    pub(super) fn values(&self) -> Values<'_> {
        vec![
            &self.used,
            &self.day,
            &self.runs,
            &self.turns,
            &self.input,
            &self.cached,
            &self.reasoning,
            &self.output,
            &self.cost,
        ]
    }
}

#[async_trait]
impl Ledger for PostgresStore {
    async fn reserve(
        &self,
        lease: Lease,
        purses: &[PurseLimit],
        ask: Ask,
    ) -> StoreResult<Reservation> {
        let reserved = self
            .pool
            .transact("reserve", |session| async move {
                reserve(&session, lease, purses, ask).await
            })
            .await?;
        Ok(reserved)
    }

    async fn purse(&self, scope: &PurseScope, month: Month) -> StoreResult<PurseState> {
        let name = &scope.name();
        self.pool
            .read(|session| async move { state(&session, name, month, "").await })
            .await
    }

    async fn usage(
        &self,
        workspace: WorkspaceNo,
        days: (Day, Day),
        group: UsageGroup,
    ) -> StoreResult<Vec<UsageRow>> {
        let column = match group {
            UsageGroup::Day => "day",
            UsageGroup::Model => "model_id",
            UsageGroup::Key => "credential",
        };
        let shown = match group {
            UsageGroup::Day => "day",
            UsageGroup::Model | UsageGroup::Key => &format!("{column} COLLATE \"C\""),
        };
        // The money in two parts: the sum of many years' small amounts may be larger than a number of the column.
        let sql = &format!(
            "SELECT {column}, sum(runs)::BIGINT AS runs, sum(turns)::BIGINT AS turns, sum(input_tokens)::BIGINT AS input,
                 sum(cached_tokens)::BIGINT AS cached, sum(reasoning_tokens)::BIGINT AS reasoning,
                 sum(output_tokens)::BIGINT AS output, sum(cost_pico / 1000000)::BIGINT AS micro,
                 sum(cost_pico % 1000000)::BIGINT AS rest
             FROM usage WHERE workspace = $1 AND day BETWEEN $2 AND $3
             GROUP BY {column} ORDER BY {shown} LIMIT $4"
        );
        let (from, to) = (i64::from(days.0.0), i64::from(days.1.0));
        self.pool
            .read(|session| async move {
                let rows = session
                    .query(sql, &[&workspace.0, &from, &to, &ROWS])
                    .await?;
                rows.iter().map(|row| row_of(row, group, column)).collect()
            })
            .await
    }
}

async fn reserve(
    session: &Session,
    lease: Lease,
    purses: &[PurseLimit],
    ask: Ask,
) -> Result<Reservation, Failure> {
    let held =
        "SELECT no FROM runs WHERE no = $1 AND epoch = $2 AND worker IS NOT NULL FOR NO KEY UPDATE";
    let run = lease.run.0;
    let holder = session.first(held, &[&run, &int(lease.epoch)]).await?;
    if holder.is_none() {
        return Ok(Reservation::Fenced);
    }
    session
        .execute(SETTLE, &[&vec![run], &vec![None::<i64>]])
        .await?;
    session.execute(FORGET, &[&vec![run]]).await?;
    // Everybody locks purses in the order of their names, so nobody waits in a circle.
    let mut order: Vec<usize> = (0..purses.len()).collect();
    order.sort_by_key(|place| purses[*place].scope.name());
    let mut amount = ask.most;
    let mut refused: Option<(usize, PurseState)> = None;
    for place in order {
        let purse = &purses[place];
        let (scope, month) = (purse.scope.name(), i64::from(purse.month.0));
        let make = "INSERT INTO purses (scope, month, spent, reserved) VALUES ($1, $2, 0, 0) ON CONFLICT DO NOTHING";
        session.execute(make, &[&text(&scope), &month]).await?;
        let state = state(session, &scope, purse.month, " FOR UPDATE").await?;
        let left = purse.cap.minus(state.spent).minus(state.reserved);
        if left < ask.least && refused.is_none_or(|(first, _)| place < first) {
            refused = Some((place, state));
        }
        amount = amount.min(left);
    }
    if let Some((purse, state)) = refused {
        return Ok(Reservation::Refused { purse, state });
    }
    for purse in purses {
        let (scope, month) = (purse.scope.name(), i64::from(purse.month.0));
        let held = int(amount.0);
        let take = "UPDATE purses SET reserved = reserved + $3 WHERE scope = $1 AND month = $2";
        session
            .execute(take, &[&text(&scope), &month, &held])
            .await?;
        let keep = "INSERT INTO reservations (run, scope, month, amount) VALUES ($1, $2, $3, $4)";
        session
            .execute(keep, &[&run, &text(&scope), &month, &held])
            .await?;
    }
    Ok(Reservation::Granted(amount))
}

async fn state(
    session: &Session,
    scope: &str,
    month: Month,
    lock: &str,
) -> Result<PurseState, Failure> {
    let sql = format!("SELECT spent, reserved FROM purses WHERE scope = $1 AND month = $2{lock}");
    let month = i64::from(month.0);
    let Some(row) = session.first(&sql, &[&text(scope), &month]).await? else {
        return Ok(PurseState::default());
    };
    Ok(PurseState {
        spent: MicroUsd(count(row.try_get("spent")?)),
        reserved: MicroUsd(count(row.try_get("reserved")?)),
    })
}

fn row_of(row: &Row, group: UsageGroup, column: &str) -> Result<UsageRow, Failure> {
    let number = |name: &str| -> Result<u64, Failure> { Ok(count(row.try_get(name)?)) };
    let group = match group {
        UsageGroup::Day => {
            let day: i64 = row.try_get(column)?;
            Day(i32::try_from(day).unwrap_or(i32::MAX)).to_string()
        }
        UsageGroup::Model | UsageGroup::Key => get_text(row, column)?,
    };
    Ok(UsageRow {
        group,
        runs: number("runs")?,
        turns: number("turns")?,
        tokens: Tokens {
            input_tokens: number("input")?,
            cached_tokens: number("cached")?,
            reasoning_tokens: number("reasoning")?,
            output_tokens: number("output")?,
        },
        cost_pico: u128::from(number("micro")?) * 1_000_000 + u128::from(number("rest")?),
    })
}

//! Monthly budgets, reservations and usage.

use runloom_ports::store::{
    Batch, BudgetLimit, BudgetScope, BudgetState, CostRange, Day, DayRange, Lease, MicroUsd,
    Millis, Month, Next, Reservation, UsageDelta, UsageGroup, UsageRow,
};
use runloom_protocol::outcome::Tokens;
use runloom_protocol::resource::RunStatus;
use tokio::task::JoinSet;

use crate::fixture::{Fixture, NOW, batch, ending, finishing, start};

const MONTH: Month = Month(24_320);

fn workspace(cap: u64) -> BudgetLimit {
    BudgetLimit {
        scope: BudgetScope::Workspace("acme".to_owned()),
        cap: MicroUsd(cap),
        month: MONTH,
    }
}

fn key(cap: u64) -> BudgetLimit {
    BudgetLimit {
        scope: BudgetScope::Key("key_1".to_owned()),
        ..workspace(cap)
    }
}

fn exactly(amount: u64) -> CostRange {
    CostRange {
        least: MicroUsd(amount),
        most: MicroUsd(amount),
    }
}

fn granted(amount: u64) -> Reservation {
    Reservation::Granted(MicroUsd(amount))
}

fn stands(spent: u64, reserved: u64) -> BudgetState {
    BudgetState {
        spent: MicroUsd(spent),
        reserved: MicroUsd(reserved),
    }
}

fn settling(seq: u64, spent: u64) -> Batch {
    let mut batch = batch(seq, seq, Next::Keep);
    batch.usage = Some(UsageDelta {
        settle: Some(MicroUsd(spent)),
        ..UsageDelta::default()
    });
    batch
}

async fn reserve(
    fixture: &Fixture,
    lease: Lease,
    purses: &[BudgetLimit],
    ask: CostRange,
) -> Reservation {
    fixture.store().reserve(lease, purses, ask).await.unwrap()
}

async fn standing(fixture: &Fixture, limit: &BudgetLimit) -> BudgetState {
    let state = fixture.store().budget(&limit.scope, limit.month).await;
    state.unwrap()
}

pub(crate) async fn a_reservation_is_taken_out_of_every_purse_or_none(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let (wide, narrow) = (workspace(100), key(30));
    let both = [wide.clone(), narrow.clone()];
    let refused = reserve(&fixture, lease, &both, exactly(31)).await;
    let state = stands(0, 0);
    assert_eq!(refused, Reservation::Refused { budget: 1, state });
    assert_eq!(standing(&fixture, &wide).await, stands(0, 0));
    assert_eq!(
        reserve(&fixture, lease, &both, exactly(30)).await,
        granted(30)
    );
    assert_eq!(standing(&fixture, &wide).await, stands(0, 30));
    assert_eq!(standing(&fixture, &narrow).await, stands(0, 30));
}

pub(crate) async fn a_grant_is_what_the_emptiest_purse_has(fixture: Fixture) {
    let (first, second) = (fixture.started("a").await, fixture.started("b").await);
    let ask = CostRange {
        least: MicroUsd(10),
        most: MicroUsd(90),
    };
    let both = [workspace(100), key(1_000)];
    assert_eq!(reserve(&fixture, first, &both, ask).await, granted(90));
    assert_eq!(reserve(&fixture, second, &both, ask).await, granted(10));
    assert_eq!(standing(&fixture, &both[0]).await, stands(0, 100));
}

pub(crate) async fn what_a_call_did_not_need_goes_back_with_its_batch(mut fixture: Fixture) {
    let lease = fixture.started("a").await;
    let limit = workspace(100);
    let one = [limit.clone()];
    reserve(&fixture, lease, &one, exactly(80)).await;
    fixture.commit(lease, settling(2, 7)).await;
    assert_eq!(standing(&fixture, &limit).await, stands(7, 0));
    // Settled once: a second settlement finds nothing.
    fixture.commit(lease, settling(3, 50)).await;
    assert_eq!(standing(&fixture, &limit).await, stands(7, 0));
    fixture.reopen().await;
    assert_eq!(standing(&fixture, &limit).await, stands(7, 0));
}

pub(crate) async fn a_reservation_that_is_forgotten_counts_in_full(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let limit = workspace(100);
    let one = [limit.clone()];
    reserve(&fixture, lease, &one, exactly(40)).await;
    // The worker died in the middle of the call; the next one asks again.
    assert_eq!(
        reserve(&fixture, lease, &one, exactly(50)).await,
        granted(50)
    );
    assert_eq!(standing(&fixture, &limit).await, stands(40, 50));
    fixture.finish(lease, 2, RunStatus::Failed).await;
    assert_eq!(standing(&fixture, &limit).await, stands(90, 0));
}

pub(crate) async fn a_worker_that_lost_its_run_cannot_reserve(mut fixture: Fixture) {
    let old = fixture.started("a").await;
    fixture.reopen().await;
    let new = fixture.claim(old.run).await.lease;
    let limit = workspace(100);
    let one = [limit.clone()];
    assert_eq!(reserve(&fixture, new, &one, exactly(60)).await, granted(60));
    let fenced = reserve(&fixture, old, &one, exactly(1)).await;
    assert_eq!(fenced, Reservation::Fenced);
    assert_eq!(standing(&fixture, &limit).await, stands(0, 60));
    fixture.commit(new, settling(2, 5)).await;
    assert_eq!(standing(&fixture, &limit).await, stands(5, 0));
}

pub(crate) async fn a_purse_refills_at_the_turn_of_the_month(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let this = workspace(100);
    reserve(&fixture, lease, std::slice::from_ref(&this), exactly(100)).await;
    fixture.commit(lease, settling(2, 99)).await;
    let refused = reserve(&fixture, lease, std::slice::from_ref(&this), exactly(2)).await;
    assert!(matches!(refused, Reservation::Refused { .. }));
    let next = BudgetLimit {
        month: Month(MONTH.0 + 1),
        ..this.clone()
    };
    let full = reserve(&fixture, lease, std::slice::from_ref(&next), exactly(100)).await;
    assert_eq!(full, granted(100));
    // A call belongs to the month in which it was sent.
    fixture.commit(lease, settling(3, 1)).await;
    assert_eq!(standing(&fixture, &this).await, stands(99, 0));
    assert_eq!(standing(&fixture, &next).await, stands(1, 0));
}

pub(crate) async fn many_runs_cannot_overspend_one_purse(fixture: Fixture) {
    const RUNS: usize = 40;
    let mut leases = Vec::new();
    for index in 0..RUNS {
        leases.push(fixture.started(&format!("r{index}")).await);
    }
    let limit = workspace(100);
    let mut asking = JoinSet::new();
    for lease in leases {
        let (store, limit) = (fixture.store(), limit.clone());
        asking.spawn(async move {
            let answer = store.reserve(lease, &[limit], exactly(9)).await;
            answer.unwrap() == granted(9)
        });
    }
    let mut won = 0;
    while let Some(granted) = asking.join_next().await {
        won += usize::from(granted.unwrap());
    }
    assert_eq!(won, 11, "eleven nines are 99");
    assert_eq!(standing(&fixture, &limit).await, stands(0, 99));
}

fn used(input_tokens: u64, output_tokens: u64, cost_pico: u64) -> UsageDelta {
    UsageDelta {
        runs: 0,
        turns: 1,
        tokens: Tokens {
            input_tokens,
            output_tokens,
            cached_tokens: 1,
            reasoning_tokens: 2,
        },
        cost_pico,
        settle: None,
    }
}

async fn account(fixture: &Fixture, days: DayRange, group: UsageGroup) -> Vec<UsageRow> {
    let rows = fixture.store().usage(fixture.acme, days, group).await;
    rows.unwrap()
}

#[expect(clippy::too_many_lines, reason = "one account, read in several ways")]
pub(crate) async fn the_account_adds_up_by_day_model_and_key(mut fixture: Fixture) {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let first = fixture.started("a").await;
    let mut other = fixture.new_run("b");
    other.model_id = "platform:other".to_owned();
    other.credential = "key_2".to_owned();
    other.start = Some(start());
    let second = fixture.store().create_run(other).await.unwrap();
    let runloom_ports::store::Created::New {
        lease: Some(second),
        ..
    } = second
    else {
        panic!("the run was not started: {second:?}");
    };
    for (lease, seq, at, delta) in [
        (first, 2, NOW.0, used(10, 5, 1_500_000)),
        (first, 3, NOW.0 + DAY, used(20, 6, 2_500_001)),
        (second, 2, NOW.0 + DAY, used(100, 7, 1_000_000)),
    ] {
        let mut turn = batch(seq, seq, Next::Keep);
        turn.at = Millis(at);
        turn.usage = Some(delta);
        fixture.commit(lease, turn).await;
    }
    let mut end = finishing(4, ending(RunStatus::Succeeded));
    end.at = Millis(NOW.0 + DAY);
    end.usage = Some(UsageDelta {
        runs: 1,
        ..UsageDelta::default()
    });
    fixture.commit(first, end).await;
    fixture.reopen().await;
    let (monday, tuesday) = (Day::of(NOW), Day(Day::of(NOW).0 + 1));
    let short = |row: &UsageRow| {
        let tokens = (row.tokens.input_tokens, row.tokens.output_tokens);
        (
            row.group.clone(),
            row.runs,
            row.turns,
            tokens,
            row.cost_pico,
        )
    };
    let by = async |days, group| -> Vec<_> {
        let rows = account(&fixture, days, group).await;
        rows.iter().map(short).collect()
    };
    let whole = DayRange {
        from: monday,
        to: tuesday,
    };
    assert_eq!(
        by(whole, UsageGroup::Day).await,
        [
            (monday.to_string(), 0, 1, (10, 5), 1_500_000),
            (tuesday.to_string(), 1, 2, (120, 13), 3_500_001),
        ]
    );
    assert_eq!(
        by(whole, UsageGroup::Model).await,
        [
            ("platform:demo".to_owned(), 1, 2, (30, 11), 4_000_001),
            ("platform:other".to_owned(), 0, 1, (100, 7), 1_000_000),
        ]
    );
    let second = DayRange {
        from: tuesday,
        to: tuesday,
    };
    assert_eq!(
        by(second, UsageGroup::Key).await,
        [
            ("key_1".to_owned(), 1, 1, (20, 6), 2_500_001),
            ("key_2".to_owned(), 0, 1, (100, 7), 1_000_000),
        ]
    );
    let rows = account(&fixture, whole, UsageGroup::Key).await;
    assert_eq!(rows[0].tokens.cached_tokens, 2);
    assert_eq!(rows[0].tokens.reasoning_tokens, 4);
    let rival = fixture.store();
    let rival = rival.usage(fixture.rival, whole, UsageGroup::Day).await;
    assert!(rival.unwrap().is_empty());
    let never = DayRange {
        from: Day(tuesday.0 + 1),
        to: Day(tuesday.0 + 9),
    };
    assert!(by(never, UsageGroup::Day).await.is_empty());
}

pub(crate) async fn what_another_model_used_is_on_its_own_account(fixture: Fixture) {
    let lease = fixture.started("a").await;
    for (seq, speaker) in [(2, None), (3, Some("platform:spare")), (4, None)] {
        let mut turn = batch(seq, seq, Next::Keep);
        turn.usage = Some(used(seq, 1, 1));
        turn.speaker = speaker.map(Into::into);
        fixture.commit(lease, turn).await;
    }
    let day = Day::of(NOW);
    let rows = account(&fixture, DayRange { from: day, to: day }, UsageGroup::Model).await;
    let inputs = rows
        .iter()
        .map(|row| (row.group.as_str(), row.tokens.input_tokens));
    let inputs: Vec<_> = inputs.collect();
    assert_eq!(inputs, [("platform:demo", 6), ("platform:spare", 3)]);
}

pub(crate) async fn a_fenced_batch_adds_nothing_to_the_account(fixture: Fixture) {
    let lease = fixture.started("a").await;
    let stale = Lease {
        epoch: lease.epoch + 1,
        ..lease
    };
    let mut turn = batch(2, 2, Next::Keep);
    turn.usage = Some(used(1, 1, 1));
    assert!(fixture.try_commit(stale, turn).await.is_err());
    let days = DayRange {
        from: Day(0),
        to: Day(i32::MAX),
    };
    assert!(account(&fixture, days, UsageGroup::Day).await.is_empty());
}

pub(crate) async fn absurd_amounts_do_not_keep_a_run_from_ending(fixture: Fixture) {
    let lease = fixture.started("a").await;
    for seq in 2..8 {
        let limit = workspace(u64::MAX);
        reserve(&fixture, lease, &[limit], exactly(1)).await;
        let mut turn = batch(seq, seq, Next::Keep);
        let mut delta = used(u64::MAX, u64::MAX, u64::MAX);
        delta.settle = Some(MicroUsd(u64::MAX));
        turn.usage = Some(delta);
        fixture.commit(lease, turn).await;
    }
    fixture.finish(lease, 8, RunStatus::Succeeded).await;
}

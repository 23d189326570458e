//! Budgets of money, the account, and dry runs, with a provider that counts what it bills.
//!
//! Its prices: a millionth of a dollar for a token in, two for a token out.

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use runloom_engine::monthly_budgets::MonthlyBudgets;
use runloom_ports::model::ModelError;
use runloom_ports::store::{BudgetScope, BudgetState, Day, MicroUsd, Month, RunFilter};
use runloom_protocol::event::Event;
use runloom_protocol::outcome::{ErrorClass, RunError, Tokens};
use runloom_protocol::resource::{UsageGroupBy, UsageReport};
use runloom_protocol::spec::CreateRun;
use runloom_service::UsageRequest;
use serde_json::json;

use crate::scripted::{Gate, Piece, server_error};
use crate::world::{World, kinds, settings, soon};

/// A workspace's monthly_budget.
fn workspace(micro_usd: u64) -> MonthlyBudgets {
    MonthlyBudgets {
        workspaces: HashMap::from([("acme".to_owned(), MicroUsd(micro_usd))]),
        keys: HashMap::new(),
    }
}

async fn monthly_budget(world: &World) -> BudgetState {
    let scope = BudgetScope::Workspace("acme".to_owned());
    let month = Month::of(world.now());
    world.store.budget(&scope, month).await.unwrap()
}

async fn account(world: &World, group_by: UsageGroupBy) -> UsageReport {
    let request = UsageRequest {
        from: None,
        to: None,
        group_by,
    };
    world
        .service
        .usage()
        .report(&world.caller, request)
        .await
        .unwrap()
}

fn error_of(events: &[Event]) -> RunError {
    match events.last() {
        Some(Event::Error(error)) => error.clone(),
        _ => panic!("no error: {:?}", kinds(events)),
    }
}

/// Tokens, turns and money of a terminal event.
fn receipt(events: &[Event]) -> (Tokens, u32, f64) {
    let (tokens, turns, cost) = match events.last() {
        Some(Event::Result(end)) => (end.tokens, end.turns, end.cost_usd),
        Some(Event::Error(end)) => (end.tokens, end.turns, end.cost_usd),
        Some(Event::Cancelled(end)) => (end.tokens, end.turns, end.cost_usd),
        _ => panic!("no end: {:?}", kinds(events)),
    };
    (tokens, turns, cost.expect("the model has a price"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_runs_on_a_purse_for_ten_never_overspend_it() {
    const CAP: u64 = 10 * 3_000;
    let mut many = settings();
    many.max_concurrent = 128;
    let world = World::with_purses(many, workspace(CAP)).await;
    for _ in 0..200 {
        world
            .model
            .script([Piece::Text("done"), Piece::Bill(1_000, 1_000)]);
    }
    let mut ended: FuturesUnordered<_> = (0..100)
        .map(|index| {
            let world = &world;
            async move {
                let run = world.run(&format!("run {index}")).await;
                world.events(&run).await
            }
        })
        .collect();
    let (mut succeeded, mut told) = (0, 0.0);
    while let Some(events) = ended.next().await {
        told += receipt(&events).2;
        if matches!(events.last(), Some(Event::Result(_))) {
            succeeded += 1;
            continue;
        }
        let error = error_of(&events);
        assert_eq!(error.error_class, ErrorClass::BudgetExceeded);
        assert_eq!((error.retryable, error.turns), (Some(false), 0));
        for word in ["workspace acme", "$0.03", "refills at"] {
            assert!(error.error.contains(word), "{}", error.error);
        }
    }
    let billed = world.model.billed_micro(1, 2);
    assert!(billed <= CAP, "{billed} of {CAP}");
    assert!((5..=11).contains(&succeeded), "{succeeded}");
    let state = monthly_budget(&world).await;
    assert_eq!(state.spent, MicroUsd(billed));
    assert_eq!(state.reserved, MicroUsd(0));
    let total = account(&world, UsageGroupBy::Day).await.total;
    assert_eq!((total.runs, total.turns), (100, succeeded));
    assert!((total.cost_usd - told).abs() < 1e-12);
    assert!((told - billed as f64 / 1e6).abs() < 1e-12);
    world.stop().await;
}

#[tokio::test]
async fn a_purse_that_is_nearly_empty_pays_for_a_last_turn_without_tools() {
    let world = World::with_purses(settings(), workspace(3_000)).await;
    world
        .model
        .script([Piece::Text("short"), Piece::Bill(9, 9)]);
    let run = world.run("tell me all").await;
    let events = world.events(&run).await;
    assert!(matches!(events.last(), Some(Event::Result(_))));
    let request = world.model.requests().remove(0);
    assert!(!request.tools_enabled);
    assert!(request.max_output_tokens.unwrap() < 1_024);
    world.stop().await;
}

#[tokio::test]
async fn the_keys_purse_holds_beside_the_workspaces() {
    let mut monthly_budgets = workspace(1_000_000);
    let key = "key_test".to_owned();
    monthly_budgets.keys.insert(key.clone(), MicroUsd(10));
    let world = World::with_purses(settings(), monthly_budgets).await;
    assert_eq!(world.caller.key_id.to_string(), key);
    let run = world.run("hello").await;
    let error = error_of(&world.events(&run).await);
    assert_eq!(error.error_class, ErrorClass::BudgetExceeded);
    assert!(error.error.contains("API key key_test"), "{}", error.error);
    assert_eq!(world.model.calls(), 0);
    assert_eq!(monthly_budget(&world).await, BudgetState::default());
    world.stop().await;
}

#[tokio::test]
async fn what_a_call_does_not_need_is_given_back_and_its_bound_is_sent() {
    let world = World::with_purses(settings(), workspace(1_000_000)).await;
    let gate = Gate::new();
    world.model.script([
        Piece::Hold(gate.clone()),
        Piece::Bill(50, 20),
        Piece::Text("x"),
    ]);
    let run = world.run("hello").await;
    soon(world.model.called(1)).await;
    let held = monthly_budget(&world).await;
    assert!(held.reserved > MicroUsd(2 * 8_192), "{held:?}");
    gate.open();
    world.events(&run).await;
    let state = monthly_budget(&world).await;
    assert_eq!((state.spent, state.reserved), (MicroUsd(90), MicroUsd(0)));
    let request = world.model.requests().remove(0);
    assert_eq!(request.max_output_tokens, Some(8_192));
    world.stop().await;
}

#[tokio::test]
async fn refused_attempts_cost_nothing_and_broken_ones_their_reservation() {
    let world = World::with_purses(settings(), workspace(1_000_000)).await;
    world.model.script([Piece::Refuse(server_error())]);
    world
        .model
        .script([Piece::Bill(10, 0), Piece::Break(server_error())]);
    world.model.script([Piece::Text("ok"), Piece::Bill(20, 5)]);
    let run = world.run("try").await;
    let events = world.events(&run).await;
    let (tokens, turns, cost) = receipt(&events);
    assert_eq!(
        (tokens.input_tokens, tokens.output_tokens, turns),
        (30, 5, 1)
    );
    assert!((cost - 0.000_04).abs() < 1e-12);
    let state = monthly_budget(&world).await;
    assert_eq!(state.reserved, MicroUsd(0));
    assert!(state.spent > MicroUsd(2 * 8_192 + 30), "{state:?}");
    assert!(state.spent < MicroUsd(4 * 8_192), "{state:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_cancelled_call_counts_in_full_and_its_receipt_says_what_was_told() {
    let world = World::with_purses(settings(), workspace(1_000_000)).await;
    world.model.script([
        Piece::Bill(40, 3),
        Piece::Text("so far"),
        Piece::Hold(Gate::new()),
    ]);
    let run = world.run("hello").await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("assistant_delta").await;
    world.cancel(&run).await;
    watcher.rest().await;
    let (tokens, turns, cost) = receipt(&watcher.events);
    assert_eq!(
        (tokens.input_tokens, tokens.output_tokens, turns),
        (40, 3, 1)
    );
    assert!((cost - 0.000_046).abs() < 1e-12);
    let state = monthly_budget(&world).await;
    assert_eq!(state.reserved, MicroUsd(0));
    assert!(state.spent > MicroUsd(2 * 8_192));
    let snapshot = world.snapshot(&run).await;
    assert_eq!(snapshot.cost_usd, Some(cost));
    assert_eq!(
        account(&world, UsageGroupBy::Day).await.total.tokens,
        tokens
    );
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_is_handed_over_in_the_middle_of_a_call_pays_for_both() {
    let world = World::with_purses(settings(), workspace(1_000_000)).await;
    world.model.script([Piece::Hold(Gate::new())]);
    let run = world.run("hello").await;
    soon(world.model.called(1)).await;
    world.kill().await;
    let peer = world.peer();
    peer.model
        .script([Piece::Text("done"), Piece::Bill(10, 10)]);
    let events = peer.events(&run).await;
    assert!(matches!(events.last(), Some(Event::Result(_))));
    let state = monthly_budget(&peer).await;
    assert_eq!(state.reserved, MicroUsd(0));
    assert!(state.spent > MicroUsd(2 * 8_192 + 30), "{state:?}");
    peer.stop().await;
}

#[tokio::test]
async fn a_call_waits_for_money_that_others_hold_and_a_cancel_ends_the_wait() {
    let world = World::with_purses(settings(), workspace(19_000)).await;
    let gate = Gate::new();
    world.model.script([
        Piece::Hold(gate.clone()),
        Piece::Bill(1, 1),
        Piece::Text("first"),
    ]);
    let first = world.run("first").await;
    soon(world.model.called(1)).await;
    let second = world.run("second").await;
    let third = world.run("third").await;
    world.cancel(&third).await;
    let events = world.events(&third).await;
    assert!(matches!(events.last(), Some(Event::Cancelled(_))));
    world
        .model
        .script([Piece::Text("second"), Piece::Bill(1, 1)]);
    gate.open();
    for run in [&first, &second] {
        let events = world.events(run).await;
        assert!(matches!(events.last(), Some(Event::Result(_))));
    }
    assert_eq!(monthly_budget(&world).await.spent, MicroUsd(6));
    world.stop().await;
}

#[tokio::test]
async fn the_runs_own_budget_ends_it_between_turns() {
    let world = World::new().await;
    world
        .model
        .script([Piece::Call("look", json!({})), Piece::Bill(1_000, 4_000)]);
    let run = world
        .run_with("look", |spec| spec.budgets.max_cost_usd = Some(0.01))
        .await;
    let mut watcher = world.watch(&run, 0).await;
    let call = crate::world::asked(&watcher.until("local_tool_call").await);
    world.answer(&run, &call, "nothing").await.unwrap();
    watcher.rest().await;
    let error = error_of(&watcher.events);
    assert_eq!(error.error_class, ErrorClass::BudgetExceeded);
    assert!(
        error.error.contains("budgets.maxCostUsd ($0.01)"),
        "{}",
        error.error
    );
    assert_eq!((error.turns, error.cost_usd), (1, Some(0.009)));
    assert_eq!(world.model.calls(), 1);
    world.stop().await;
}

#[tokio::test]
async fn the_account_equals_the_sum_of_all_endings() {
    let world = World::new().await;
    let broken = ModelError::new(ErrorClass::InvalidRequest, "no");
    world.model.script([Piece::Text("a"), Piece::Usage(11, 7)]);
    world
        .model
        .script([Piece::Usage(5, 1), Piece::Break(broken.clone())]);
    world.model.script([Piece::Refuse(broken)]);
    world
        .model
        .script([Piece::Call("look", json!({})), Piece::Usage(3, 2)]);
    world
        .model
        .script([Piece::Text("seen"), Piece::Usage(13, 17)]);
    let mut sum = (Tokens::default(), 0, 0.0);
    for index in 0..4 {
        let run = world.run("go").await;
        if index == 3 {
            let mut watcher = world.watch(&run, 0).await;
            let call = crate::world::asked(&watcher.until("local_tool_call").await);
            world.answer(&run, &call, "it").await.unwrap();
        }
        let (tokens, turns, cost) = receipt(&world.events(&run).await);
        sum.0.add(&tokens);
        sum.1 += u64::from(turns);
        sum.2 += cost;
    }
    for group_by in [UsageGroupBy::Day, UsageGroupBy::Model, UsageGroupBy::Key] {
        let report = account(&world, group_by).await;
        assert_eq!(report.rows.len(), 1);
        assert_eq!(report.total, report.rows[0].sums);
        assert_eq!((report.total.runs, report.total.turns), (4, sum.1));
        assert_eq!(report.total.tokens, sum.0);
        assert!((report.total.cost_usd - sum.2).abs() < 1e-12);
    }
    let row = account(&world, UsageGroupBy::Key).await.rows.remove(0);
    assert_eq!(row.key_id, Some(world.caller.key_id.to_string()));
    assert_eq!((row.day, row.model_id), (None, None));
    let row = account(&world, UsageGroupBy::Model).await.rows.remove(0);
    assert_eq!(row.model_id.as_deref(), Some("platform:scripted"));
    let today = Day::of(world.now()).to_string();
    let row = account(&world, UsageGroupBy::Day).await.rows.remove(0);
    assert_eq!(row.day, Some(today));
    world.stop().await;
}

#[tokio::test]
async fn a_dry_run_tells_and_creates_nothing() {
    let world = World::with_purses(settings(), workspace(50_000)).await;
    let spec = crate::world::spec();
    let messages = vec![crate::world::user("hello")];
    let request = CreateRun { spec, messages };
    let told = world
        .service
        .dry_runs()
        .dry_run(&world.caller, request.clone())
        .await
        .unwrap();
    assert_eq!(told.model.id, "platform:scripted");
    assert_eq!(told.tools, ["send", "look"]);
    assert_eq!(told.max_output_tokens, Some(8_192));
    assert!(told.estimated_prompt_tokens > 3);
    let turn = told.worst_case_turn_usd.unwrap();
    assert!((0.016..0.02).contains(&turn), "{turn}");
    assert_eq!(told.worst_case_run_usd, Some(0.05));
    let budget = &told.budgets[0];
    assert_eq!(
        (budget.scope.as_str(), budget.remaining_usd),
        ("workspace", 0.05)
    );
    assert!(
        budget
            .refills_at
            .as_deref()
            .unwrap()
            .ends_with("-01T00:00:00Z")
    );
    assert!(told.warnings.is_empty(), "{:?}", told.warnings);
    let mut poor = request;
    poor.spec.budgets.max_cost_usd = Some(0.000_1);
    let told = world
        .service
        .dry_runs()
        .dry_run(&world.caller, poor)
        .await
        .unwrap();
    assert_eq!(told.worst_case_run_usd, Some(0.000_1));
    assert!(told.warnings[0].contains("$0.0001"), "{:?}", told.warnings);
    assert_eq!(world.model.calls(), 0);
    assert_eq!(world.worker.busy(), 0);
    assert_eq!(account(&world, UsageGroupBy::Day).await.rows, []);
    let (workspace, all) = (world.caller.workspace.no, RunFilter::default());
    let runs = world.store.count_runs(workspace, &all).await;
    assert_eq!(runs.unwrap(), 0);
    assert_eq!(monthly_budget(&world).await, BudgetState::default());
    world.stop().await;
}

#[tokio::test]
async fn models_without_a_price_are_never_stopped() {
    let world = World::without_price(workspace(0)).await;
    world
        .model
        .script([Piece::Text("free"), Piece::Usage(5, 5)]);
    let run = world
        .run_with("go", |spec| spec.budgets.max_cost_usd = Some(0.000_001))
        .await;
    let events = world.events(&run).await;
    let Some(Event::Result(result)) = events.last() else {
        panic!("{:?}", kinds(&events));
    };
    assert_eq!(result.cost_usd, None);
    let total = account(&world, UsageGroupBy::Day).await.total;
    assert_eq!((total.tokens.input_tokens, total.cost_usd), (5, 0.0));
    world.stop().await;
}

#[tokio::test]
async fn days_in_the_wrong_order_or_too_many_are_refused() {
    let world = World::new().await;
    for (from, to) in [(10, 9), (0, 2_000)] {
        let request = UsageRequest {
            from: Some(Day(from)),
            to: Some(Day(to)),
            group_by: UsageGroupBy::Day,
        };
        let refused = world.service.usage().report(&world.caller, request).await;
        assert!(refused.is_err(), "{from}–{to}");
    }
    world.stop().await;
}

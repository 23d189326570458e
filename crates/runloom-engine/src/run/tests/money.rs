//! The run's own budget of money: what a call may use of it, how a run ends that has used it, and that it is never
//! overspent.

use std::sync::Arc;

use proptest::prelude::*;
use runloom_protocol::event::Event;
use runloom_protocol::outcome::{ErrorClass, Tokens};
use runloom_protocol::spec::LoopDetection;
use serde_json::json;

use super::bench::{Bench, calls, plan, says};
use super::budgets::costing;
use crate::run::{Note, Plan, Price, Step, guard};
use runloom_ports::store::MicroUsd;

/// A dollar for a million tokens in, ten for a million out.
const PRICE: Price = Price {
    input: 1.0,
    output: 10.0,
    cache_read: 0.1,
};

fn capped(usd: f64) -> Arc<Plan> {
    plan(|plan| {
        plan.primary.price = Some(PRICE);
        plan.budgets.max_cost_usd = Some(usd);
        plan.loop_detection = LoopDetection::Off;
    })
}

#[test]
fn tokens_cost_what_the_price_says_to_the_last_decimal() {
    let tokens = |input_tokens, cached_tokens, output_tokens| Tokens {
        input_tokens,
        cached_tokens,
        output_tokens,
        reasoning_tokens: 0,
    };
    for (spent, usd, micro) in [
        (tokens(100_000, 0, 40_000), 0.5, 500_000),
        (tokens(13, 0, 5), 0.000_063, 63),
        (tokens(13, 10, 5), 0.000_054, 54),
        (tokens(10, 1, 0), 0.000_009_1, 10),
        (tokens(5, 9, 0), 0.000_000_5, 1),
        (Tokens::default(), 0.0, 0),
    ] {
        assert!(
            (PRICE.pico(&spent) as f64 / 1e12 - usd).abs() < 1e-15,
            "{spent:?}"
        );
        assert_eq!(PRICE.micro(&spent), MicroUsd(micro), "{spent:?}");
    }
}

#[test]
fn without_a_limit_or_a_price_nothing_is_bounded() {
    let free = Bench::new(plan(|plan| plan.primary.price = Some(PRICE))).call_plan();
    assert_eq!((free.bid, free.max_output_tokens), (None, None));
    let unpriced = plan(|plan| plan.budgets.max_cost_usd = Some(0.000_001));
    let unpriced = Bench::new(unpriced).call_plan();
    assert_eq!((unpriced.bid, unpriced.max_output_tokens), (None, None));
}

#[test]
fn any_limit_of_money_bounds_the_output() {
    let bound = |change: fn(&mut Plan)| {
        let mut bench = Bench::new(plan(|plan| {
            plan.primary.price = Some(PRICE);
            change(plan);
        }));
        bench.call_plan().max_output_tokens
    };
    assert_eq!(bound(|plan| plan.has_monthly_budgets = true), Some(8_192));
    assert_eq!(
        bound(|plan| plan.budgets.max_cost_usd = Some(9.0)),
        Some(8_192)
    );
    let own = |plan: &mut Plan| {
        plan.has_monthly_budgets = true;
        plan.primary.max_output_tokens = Some(500);
    };
    assert_eq!(bound(own), Some(500));
    let least_of_all = |plan: &mut Plan| {
        plan.has_monthly_budgets = true;
        plan.primary.max_output_tokens = Some(500);
        plan.budgets.max_output_tokens = Some(77);
    };
    assert_eq!(bound(least_of_all), Some(77));
}

#[test]
fn a_models_own_bound_holds_beside_the_runs_budget_of_tokens() {
    let both = plan(|plan| {
        plan.primary.max_output_tokens = Some(50);
        plan.budgets.max_output_tokens = Some(1_000);
    });
    assert_eq!(Bench::new(both).call_plan().max_output_tokens, Some(50));
}

#[test]
fn a_call_may_use_what_is_left_and_not_more() {
    // Two cents pay for less than 2,000 tokens of output, because the input is paid for as well.
    let call = Bench::new(capped(0.02)).call_plan();
    let bid = call.bid.unwrap();
    let output = call.max_output_tokens.unwrap();
    assert!((1_024..2_000).contains(&output), "{output}");
    assert!(bid.worst(output) <= MicroUsd(20_000));
    assert!(bid.worst(output + 1) > MicroUsd(20_000));
}

#[test]
fn when_money_runs_out_one_turn_without_tools_is_still_paid_for() {
    let mut bench = Bench::new(capped(0.1));
    assert!(bench.call_plan().tools_enabled);
    bench.turn(costing(calls(&[("look", json!({}))]), 1_000, 9_000));
    let Step::CallModel(last) = bench.answer_all() else {
        panic!("there is money for a short answer");
    };
    assert!(!last.tools_enabled);
    assert!(last.max_output_tokens.unwrap() < 1_000);
    assert!(bench.user_texts().contains(&guard::ECONOMISE));
    bench.turn(costing(calls(&[("look", json!({}))]), 10, 10));
    let Event::Result(result) = bench.end() else {
        panic!("a call on a turn without tools is not obeyed");
    };
    assert_eq!(result.turns, 2);
}

#[test]
fn a_purse_that_cannot_pay_for_a_last_turn_ends_the_run_with_its_reason() {
    let mut bench = Bench::new(capped(0.1));
    bench.turn(costing(calls(&[("look", json!({}))]), 10_000, 9_000));
    bench.answer_all();
    let Event::Error(error) = bench.end() else {
        panic!("the money is spent");
    };
    assert_eq!(error.error_class, ErrorClass::BudgetExceeded);
    assert_eq!(error.retryable, Some(false));
    assert_eq!(error.cost_usd, Some(0.1));
    for word in ["maxCostUsd", "$0.10", "refill"] {
        assert!(error.error.contains(word), "{}", error.error);
    }
}

#[test]
fn a_budget_that_pays_for_nothing_makes_no_call() {
    let mut bench = Bench::new(capped(0.000_1));
    let Event::Error(error) = bench.end() else {
        panic!("nothing can be paid for");
    };
    assert_eq!(
        (error.error_class, error.turns),
        (ErrorClass::BudgetExceeded, 0)
    );
    assert_eq!(bench.kinds(0), ["started", "error"]);
}

#[test]
fn a_call_whose_end_nobody_saw_counts_in_full() {
    let mut bench = Bench::new(capped(1.0));
    bench.call_plan();
    let micro_usd = 300_000;
    bench.note(Note::Reserved { micro_usd });
    bench.flush();
    bench.crash();
    assert_eq!(bench.state.spent(), MicroUsd(300_000));
    bench.note(Note::Reserved { micro_usd });
    assert_eq!(bench.state.spent(), MicroUsd(600_000));
    bench.turn(costing(says("done"), 100_000, 0));
    assert_eq!(bench.state.spent(), MicroUsd(400_000));
    let Event::Result(result) = bench.end() else {
        panic!("it answered");
    };
    assert_eq!(result.cost_usd, Some(0.1), "the receipt says what was told");
}

#[test]
fn what_failed_attempts_cost_is_counted() {
    let mut bench = Bench::new(capped(1.0));
    bench.call_plan();
    bench.note(Note::Reserved { micro_usd: 500_000 });
    bench.note(Note::Attempt {
        tokens: Tokens {
            input_tokens: 50_000,
            ..Tokens::default()
        },
        lost: 200_000,
    });
    assert_eq!(bench.state.spent(), MicroUsd(250_000));
    bench.turn(costing(says("done"), 7, 1));
    let Event::Result(result) = bench.end() else {
        panic!("it answered");
    };
    assert_eq!(result.tokens.input_tokens, 50_007);
    assert_eq!(result.turns, 1);
}

proptest! {
    /// Whatever a provider bills within the bounds it was given, and whatever calls are lost in a crash, the sum of
    /// what was
    /// billed stays within the cap.
    #[test]
    fn a_run_never_costs_more_than_its_budget(
        cents in 1..60_u32,
        turns in prop::collection::vec((0..=100_u64, 0..=100_u64, any::<bool>()), 1..40),
    ) {
        let cap = f64::from(cents) / 100.0;
        let mut bench = Bench::new(capped(cap));
        let mut billed = 0;
        for (input, output, lost) in turns {
            let call = match bench.answer_all() {
                Step::CallModel(call) => call,
                Step::Finish(_) => break,
                other => panic!("unexpected {other:?}"),
            };
            let (bid, most) = (call.bid.unwrap(), call.max_output_tokens.unwrap());
            prop_assert!(most >= bid.least && most <= bid.most);
            bench.note(Note::Reserved { micro_usd: bid.worst(most).0 });
            bench.flush();
            // At worst the input is as long as the bid says: what it costs without output.
            let input_tokens = bid.worst(0).0 * input / 100;
            let output_tokens = most * output / 100;
            let tokens = Tokens { input_tokens, output_tokens, ..Tokens::default() };
            billed += PRICE.micro(&tokens).0;
            if lost {
                bench.crash();
            } else {
                bench.complete(call, costing(calls(&[("look", json!({"at": billed}))]), input_tokens, output_tokens));
            }
            prop_assert!(MicroUsd(billed) <= MicroUsd::from_usd(cap), "{billed} of {cap}");
            prop_assert!(bench.state.spent() <= MicroUsd::from_usd(cap));
        }
    }
}

//! WritePermits that were interrupted after they had shown something.

use runloom_protocol::event::Event;
use runloom_protocol::outcome::ErrorClass;
use serde_json::json;

use super::bench::{Bench, calls, plan, says};
use super::facts::facts;
use crate::run::{Step, next};

#[test]
fn a_run_begins_with_started() {
    let mut bench = Bench::new(plan(|_| {}));
    assert_eq!(bench.call_plan().turn, 1);
    assert_eq!(bench.kinds(0), ["started"]);
}

#[test]
fn deltas_of_a_broken_attempt_are_taken_back_before_the_next_one() {
    let mut bench = Bench::new(plan(|_| {}));
    bench.turn(calls(&[("look", json!({}))]));
    bench.answer_all();
    bench.delta("hal");
    bench.flush();
    bench.crash();
    let before = bench.events.len();
    assert_eq!(bench.call_plan().turn, 2);
    assert_eq!(bench.kinds(before), ["turn_restarted"]);
    assert!(
        matches!(&bench.events[before], Event::TurnRestarted(restarted) if restarted.turn == 1)
    );
    bench.turn(says("whole"));
    assert!(matches!(bench.end(), Event::Result(result) if result.text == "whole"));
}

#[test]
fn an_attempt_that_showed_nothing_is_repeated_in_silence() {
    let mut bench = Bench::new(plan(|_| {}));
    bench.call_plan();
    bench.flush();
    bench.crash();
    let before = bench.events.len();
    bench.call_plan();
    assert_eq!(bench.kinds(before), [""; 0]);
}

#[test]
fn a_turn_that_never_completes_is_given_up() {
    let mut bench = Bench::new(plan(|_| {}));
    let mut attempts = 0;
    let error = loop {
        match bench.advance() {
            Step::CallModel(_) => attempts += 1,
            Step::Finish(Event::Error(error)) => break error,
            other => panic!("unexpected {other:?}"),
        }
        assert!(attempts < 20, "never given up");
        bench.delta("x");
        bench.flush();
        bench.crash();
    };
    assert_eq!(attempts, 6);
    assert_eq!(error.error_class, ErrorClass::Server);
}

#[test]
fn a_completed_turn_clears_the_count_of_restarts() {
    let mut bench = Bench::new(plan(|plan| {
        plan.loop_detection = runloom_protocol::spec::LoopDetection::Off
    }));
    for _ in 0..4 {
        for _ in 0..4 {
            bench.call_plan();
            bench.delta("x");
            bench.flush();
            bench.crash();
        }
        bench.turn(calls(&[("look", json!({}))]));
        bench.answer_all();
    }
    assert_eq!(bench.state.restarts, 0);
}

#[test]
fn a_terminal_event_is_the_end() {
    for turn in [says("done"), says("cut").ends("max_tokens")] {
        let mut bench = Bench::new(plan(|_| {}));
        bench.turn(turn);
        bench.end();
        bench.flush();
        assert_eq!(next(&bench.state), Step::Over);
        assert_eq!(facts(&bench.folded()), facts(&bench.state));
    }
}

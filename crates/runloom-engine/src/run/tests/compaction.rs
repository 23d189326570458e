//! Compaction: when it is due, what stays, and what it costs.

use runloom_protocol::event::Event;
use runloom_protocol::outcome::Tokens;
use runloom_protocol::spec::CompactedHistory;
use serde_json::json;

use super::bench::{Bench, calls, model_facts, plan, says};
use crate::run::{
    CompactStep, CompactionPlan, OtherModelCost, Plan, Price, Step, SummaryOutcome, SummaryUsage,
    compacted, compacted_history, next,
};
use runloom_ports::conversation::Conversation;
use runloom_ports::model::Message;

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

fn assistant(text: &str) -> Message {
    Message::Assistant {
        text: text.into(),
        calls: Vec::new(),
        state: None,
    }
}

/// A session of `turns` turns of 400 bytes each, and a request.
fn long(turns: usize, change: impl FnOnce(&mut Plan)) -> Bench {
    let words = "word ".repeat(40);
    let mut opening: Vec<Message> = (0..turns)
        .flat_map(|_| [user(&words), assistant(&words)])
        .collect();
    opening.push(user("and now?"));
    Bench::new(plan(|plan| {
        plan.history_len = opening.len() - 1;
        plan.opening = opening.into();
        plan.primary.context_window = Some(1_000);
        plan.compaction = Some(CompactionPlan {
            at_fraction: 0.8,
            keep_turns: 4,
            model: None,
            instructions: None,
        });
        change(plan);
    }))
}

fn due(bench: &mut Bench) -> CompactStep {
    match bench.advance() {
        Step::Compact(step) => step,
        step => panic!("{step:?}"),
    }
}

fn summarise(bench: &mut Bench, step: &CompactStep, usage: SummaryUsage) -> Event {
    let summary = Ok("all of it".to_owned());
    let outcome = SummaryOutcome { summary, usage };
    let (event, note) = compacted(&bench.state, step, outcome);
    bench.record(event.clone());
    bench.note(note);
    bench.flush();
    event
}

#[test]
fn older_turns_are_summarised_once_before_a_turn_that_does_not_fit() {
    let mut bench = long(12, |_| {});
    let step = due(&mut bench);
    assert_eq!((step.turns, step.cut), (8, 16));
    // The decision follows from the log.
    assert_eq!(
        next(&bench.folded_with_pending()),
        Step::Compact(step.clone())
    );
    let Event::ContextCompacted(event) = summarise(&mut bench, &step, SummaryUsage::default())
    else {
        panic!("no event");
    };
    assert!(
        event.summarised && event.after_tokens < event.before_tokens,
        "{event:?}"
    );
    assert_eq!(bench.state.messages.len(), 1 + 8 + 1);
    bench.crash();
    assert!(
        matches!(next(&bench.state), Step::CallModel(_)),
        "not summarised twice"
    );
    let known = bench.state.compacted.clone().unwrap();
    assert_eq!(known.kept_user_messages, 4);
}

#[test]
fn short_conversations_and_unknown_windows_are_left_alone() {
    assert!(matches!(long(3, |_| {}).advance(), Step::CallModel(_)));
    let mut unknown = long(50, |plan| plan.primary.context_window = None);
    assert!(matches!(unknown.advance(), Step::CallModel(_)));
    let mut off = long(50, |plan| plan.compaction = None);
    assert!(matches!(off.advance(), Step::CallModel(_)));
}

#[test]
fn the_request_and_whole_tool_turns_stay_inside_one_run() {
    let mut bench = long(0, |plan| plan.max_tool_turns = 100);
    for turn in 0..30 {
        if let Step::Compact(step) = bench.advance() {
            summarise(&mut bench, &step, SummaryUsage::default());
        }
        bench.turn(calls(&[(
            "look",
            json!({"turn": turn, "words": "word ".repeat(40)}),
        )]));
        bench.answer_all();
        let messages: Vec<Message> = bench.state.messages.iter().cloned().collect();
        assert!(messages.contains(&user("and now?")));
        let mut open = 0;
        for message in &messages {
            match message {
                Message::Assistant { calls, .. } => open += calls.len(),
                Message::Tool { .. } => {
                    open = open.checked_sub(1).expect("a result without its call")
                }
                _ => {}
            }
        }
        assert_eq!(open, 0, "a call without its result");
    }
    assert!(bench.state.messages.len() < 20);
}

#[test]
fn tokens_and_money_of_the_summary_count() {
    let dear = Price {
        input: 10.0,
        output: 100.0,
        cache_read: 1.0,
    };
    let mut bench = long(12, |plan| {
        plan.primary.price = Some(dear);
        let mut other = model_facts("other");
        other.price = Some(dear);
        plan.compaction.as_mut().unwrap().model = Some(other);
    });
    let step = due(&mut bench);
    let tokens = Tokens {
        input_tokens: 1_000,
        ..Tokens::default()
    };
    let usage = SummaryUsage {
        tokens,
        lost: 0,
        other_model: Some(OtherModelCost {
            cost_pico: Some(2_000_000_000_000),
        }),
    };
    summarise(&mut bench, &step, usage);
    bench.turn(says("done"));
    let Event::Result(result) = bench.end() else {
        panic!("no result");
    };
    assert_eq!(result.tokens.input_tokens, 1_000);
    assert_eq!(result.cost_usd, Some(2.0));
}

#[test]
fn a_summary_replaces_the_beginning_of_a_history() {
    let history: Conversation = [user("1"), assistant("a"), user("2"), assistant("b")]
        .into_iter()
        .collect();
    let by = |kept_user_messages| CompactedHistory {
        summary: "s".to_owned(),
        kept_user_messages,
    };
    let all = |kept| compacted_history(&history, &by(kept));
    assert!(all(0).iter().eq(&[user("s")]));
    assert!(all(1).iter().eq(&[user("s"), user("2"), assistant("b")]));
}

//! Laziness, cancels, panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runloom_agents::{
    Agent, CancellationToken, DelegateOptions, Event, RunEnd, StaticToolset, Tool, ToolOutput,
    ToolsetExt, models,
};
use serde_json::json;

use super::{counting, text_of};

/// An agent whose delegate calls a tool that never ends; the token is cancelled with its call.
fn hanging(seen: &CancellationToken) -> Agent {
    let seen = seen.clone();
    let hang = Tool::new(
        "hang",
        "Hangs.",
        json!({"type": "object"}),
        move |_, cancel| {
            let seen = seen.clone();
            async move {
                let _guard = seen.drop_guard();
                cancel.cancelled().await;
                Ok(ToolOutput::default())
            }
        },
    );
    let tools = StaticToolset::new("tools", "Tools.").tool(hang).shared();
    let delegate = tools.as_delegated(DelegateOptions::new(models::demo()).name("child"));
    Agent::new("root", models::demo()).tool(delegate)
}

const PROMPT: &str = r#"call child {"prompt": "call tools_hang {}\nsay never"}
say never"#;

#[tokio::test]
async fn nothing_happens_before_the_first_poll() {
    let count: Arc<AtomicUsize> = Arc::default();
    let agent = Agent::new("root", models::demo()).tool(counting(&count));
    let run = agent.run("call write {}\nsay done");
    tokio::task::yield_now().await;
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(text_of(run.end().await), "done");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_cancel_goes_down() {
    let seen = CancellationToken::new();
    let mut run = hanging(&seen).run(PROMPT);
    let mut reasons = Vec::new();
    while let Some(trace) = run.next().await {
        if trace.depth == 1 && matches!(trace.event, Event::ToolCall(_)) {
            run.cancel();
        }
        if let Event::Cancelled(receipt) = &trace.event {
            reasons.push((trace.depth, receipt.reason.clone()));
        }
    }
    assert_eq!(
        reasons,
        [(1, "parent_cancelled".to_owned()), (0, "user".to_owned())]
    );
    assert!(seen.is_cancelled());
    assert!(matches!(
        run.end().await,
        RunEnd::Cancelled { turns: 2, .. }
    ));
}

#[tokio::test]
async fn dropping_a_run_ends_its_calls() {
    let seen = CancellationToken::new();
    let mut run = hanging(&seen).run(PROMPT);
    while let Some(trace) = run.next().await {
        if trace.depth == 1 && matches!(trace.event, Event::ToolCall(_)) {
            break;
        }
    }
    // The call has begun when the next poll waits for it.
    assert!(futures_util::poll!(Box::pin(run.next())).is_pending());
    assert!(!seen.is_cancelled());
    drop(run);
    assert!(seen.is_cancelled());
}

#[tokio::test]
async fn a_panic_is_a_result_for_the_model() {
    let schema = json!({"type": "object"});
    let panics = Tool::new("boom", "Panics.", schema, |_, _| async { panic!("boom") });
    let agent = Agent::new("root", models::demo()).tool(panics);
    let mut run = agent.run("call boom {}\nsay survived");
    let mut failed = false;
    while let Some(trace) = run.next().await {
        if let Event::ToolResult(result) = trace.event {
            failed = !result.ok && result.result.contains("panicked");
        }
    }
    assert!(failed);
    assert_eq!(text_of(run.end().await), "survived");
}

//! Approvals: the whole tree pauses, and continues where it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runloom_agents::{
    Agent, ApprovalDecision, Checkpoint, DelegateOptions, PendingApproval, RunEnd, StaticPolicy,
    StaticToolset, ToolsetExt, models,
};
use serde_json::json;

use super::{counting, text_of};

const PROMPT: &str = r#"call write {"path": "root"}
then
call librarian {"prompt": "call files_write {\"path\": \"child\"}\nsay filed"}
say done"#;

fn agent(count: &Arc<AtomicUsize>) -> Agent {
    let files = StaticToolset::new("files", "Files.")
        .tool(counting(count))
        .shared();
    let librarian = files.as_delegated(DelegateOptions::new(models::demo()).name("librarian"));
    let ask =
        r#"{"rules":[{"id":"writes","tools":["*write"],"decision":"ask","reason":"It writes."}]}"#;
    let agent = Agent::new("root", models::demo())
        .tool(counting(count))
        .tool(librarian);
    agent.policy(StaticPolicy::from_json(ask).unwrap())
}

fn paused(end: RunEnd) -> (Checkpoint, Vec<PendingApproval>) {
    match end {
        RunEnd::Paused {
            checkpoint,
            pending,
        } => {
            // As another process reads it.
            let stored = serde_json::to_string(&checkpoint).unwrap();
            (serde_json::from_str(&stored).unwrap(), pending)
        }
        other => panic!("not paused: {other:?}"),
    }
}

fn decision(pending: &PendingApproval, approve: bool) -> ApprovalDecision {
    ApprovalDecision {
        approval_id: pending.approval_id.to_string(),
        approve,
        ..ApprovalDecision::default()
    }
}

#[tokio::test]
async fn pauses_and_resumes_at_every_depth() {
    let count = Arc::default();
    let (first, pending) = paused(agent(&count).run(PROMPT).end().await);
    assert_eq!(
        (pending.len(), pending[0].depth, pending[0].name.as_str()),
        (1, 0, "write")
    );
    assert_eq!(pending[0].rule.as_deref(), Some("writes"));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let (same, again) = paused(agent(&count).resume(first, Vec::new()).end().await);
    assert_eq!(again, pending, "undecided approvals stay pending");
    let mut edited = decision(&pending[0], true);
    edited.input = Some(json!({"path": "edited"}));
    let (second, pending) = paused(agent(&count).resume(same, vec![edited]).end().await);
    assert_eq!(
        (pending.len(), pending[0].depth, pending[0].name.as_str()),
        (1, 1, "files_write")
    );
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let decisions = vec![decision(&pending[0], true), decision(&pending[0], true)];
    let end = agent(&count).resume(second, decisions).end().await;
    assert_eq!(text_of(end), "done");
    assert_eq!(count.load(Ordering::SeqCst), 2, "no call is executed twice");
}

#[tokio::test]
async fn a_denied_call_is_not_executed() {
    let count = Arc::default();
    let (checkpoint, pending) = paused(agent(&count).run(PROMPT).end().await);
    let denied = vec![decision(&pending[0], false)];
    let (checkpoint, pending) = paused(agent(&count).resume(checkpoint, denied).end().await);
    let denied = vec![decision(&pending[0], false)];
    assert_eq!(
        text_of(agent(&count).resume(checkpoint, denied).end().await),
        "done"
    );
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn wrong_decisions_execute_nothing() {
    let count = Arc::default();
    let (checkpoint, pending) = paused(agent(&count).run(PROMPT).end().await);
    let mut misfit = decision(&pending[0], true);
    misfit.input = Some(json!({"path": 1}));
    let unknown = ApprovalDecision {
        approval_id: "apr_0".to_owned(),
        approve: true,
        ..ApprovalDecision::default()
    };
    let both = vec![decision(&pending[0], true), decision(&pending[0], false)];
    for (decisions, words) in [
        (both, "two different decisions"),
        (vec![unknown], "is not pending"),
        (vec![misfit], "input.path"),
    ] {
        let end = agent(&count)
            .resume(checkpoint.clone(), decisions)
            .end()
            .await;
        let RunEnd::Failed { error, .. } = end else {
            panic!("not failed: {end:?}");
        };
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

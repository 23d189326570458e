//! Pauses before a write, stores the checkpoint as JSON, and continues with an approval.

use runloom_agents::{
    Agent, ApprovalDecision, Checkpoint, RunEnd, StaticPolicy, Tool, ToolOutput, models,
};

fn agent() -> Result<Agent, Box<dyn std::error::Error>> {
    let schema = serde_json::json!({"type": "object"});
    let write = Tool::new("write", "Writes.", schema, |_, _| async {
        Ok(ToolOutput::from_text("written"))
    });
    let policy = StaticPolicy::from_json(r#"{"rules":[{"effects":["once"],"decision":"ask"}]}"#)?;
    Ok(Agent::new("writer", models::demo())
        .tool(write)
        .policy(policy))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let end = agent()?.run("call write {}\nsay done").end().await;
    let RunEnd::Paused {
        checkpoint,
        pending,
    } = end
    else {
        return Err("the run did not pause".into());
    };
    let stored = serde_json::to_string(&checkpoint)?;
    let checkpoint: Checkpoint = serde_json::from_str(&stored)?;
    let approve = |id: String| ApprovalDecision {
        approval_id: id,
        approve: true,
        ..ApprovalDecision::default()
    };
    let decisions = pending.iter().map(|it| approve(it.approval_id.to_string()));
    let end = agent()?.resume(checkpoint, decisions.collect()).end().await;
    match end {
        RunEnd::Completed { .. } => Ok(()),
        other => Err(format!("not completed: {other:?}").into()),
    }
}

//! Delegates: results, sums, depth and policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runloom_agents::{
    Agent, Decision, DelegateOptions, Event, PendingAction, Policy, PolicySetting, RunEnd,
    StaticPolicy, StaticToolset, Tool, ToolsetExt, async_trait, models,
};

use super::{counting, text_of};

fn librarian(count: &Arc<AtomicUsize>, setting: PolicySetting) -> Tool {
    let files = StaticToolset::new("files", "Files.")
        .tool(counting(count))
        .shared();
    let options = DelegateOptions::new(models::demo()).name("librarian");
    files.as_delegated(options.policy(setting))
}

const DELEGATE: &str = r#"call librarian {"prompt": "call files_write {\"path\": \"a\"}\nsay filed"}
say done"#;

#[tokio::test]
async fn sums_cover_the_tree_and_events_have_one_order() {
    let count = Arc::default();
    let agent = Agent::new("root", models::demo()).tool(librarian(&count, PolicySetting::Inherit));
    let mut run = agent.run(DELEGATE);
    let mut seen = Vec::new();
    while let Some(trace) = run.next().await {
        seen.push(trace);
    }
    let numbers: Vec<u64> = seen.iter().map(|trace| trace.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let child = seen.iter().find(|trace| trace.depth == 1).unwrap();
    assert_eq!(child.parent_span_id.as_ref(), Some(&seen[0].span_id));
    let started = |trace: &&runloom_agents::Trace| matches!(trace.event, Event::Subagent(_));
    assert_eq!(
        seen.iter().filter(started).count(),
        2,
        "start and completed"
    );
    let RunEnd::Completed {
        text,
        turns,
        subagents,
        ..
    } = run.end().await
    else {
        panic!("not completed");
    };
    let below = subagents.unwrap();
    assert_eq!(
        (text.as_str(), below.runs, below.turns, turns),
        ("done", 1, 2, 4)
    );
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn depth_is_limited() {
    let count = Arc::default();
    let agent = Agent::new("root", models::demo()).tool(librarian(&count, PolicySetting::Inherit));
    let end = agent.max_depth(0).run(DELEGATE).end().await;
    assert_eq!(text_of(end), "done");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

struct DenyWrites;

#[async_trait]
impl Policy for DenyWrites {
    async fn evaluate(&self, action: &PendingAction) -> Decision {
        if action.toolset.as_deref() == Some("files") {
            assert_eq!((action.agent.as_str(), action.depth), ("librarian", 1));
            return Decision::Deny("Not here.".to_owned());
        }
        Decision::Allow
    }
}

#[tokio::test]
async fn policies_are_inherited_unless_replaced() {
    let deny = || {
        StaticPolicy::from_json(r#"{"rules":[{"tools":["files_*"],"decision":"deny"}]}"#).unwrap()
    };
    let allow = || Arc::new(StaticPolicy::from_json("{}").unwrap());
    for (setting, calls) in [
        (PolicySetting::Inherit, 0),
        (PolicySetting::None, 1),
        (PolicySetting::Use(allow()), 1),
        (PolicySetting::Use(Arc::new(DenyWrites)), 0),
    ] {
        let count = Arc::default();
        let tool = librarian(&count, setting.clone());
        let agent = Agent::new("root", models::demo()).tool(tool.clone());
        assert_eq!(
            text_of(agent.clone().policy(deny()).run(DELEGATE).end().await),
            "done"
        );
        assert_eq!(count.load(Ordering::SeqCst), calls, "rules");
        count.store(0, Ordering::SeqCst);
        assert_eq!(
            text_of(agent.policy(DenyWrites).run(DELEGATE).end().await),
            "done"
        );
        assert_eq!(count.load(Ordering::SeqCst), calls, "a policy in code");
    }
}

#[test]
fn a_policy_with_errors_is_refused() {
    let error = StaticPolicy::from_json(r#"{"rules":[{"decision":"maybe"}]}"#).unwrap_err();
    assert!(
        error.to_string().contains("policy.rules[0].decision"),
        "{error}"
    );
}

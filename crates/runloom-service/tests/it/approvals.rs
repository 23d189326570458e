//! Approvals from the policy to the answer: decided by people, by time and by the end of the run.

use std::time::Duration;

use runloom_ports::store::ApprovalFilter;
use runloom_protocol::approval::{ApprovalStatus, ApprovalVerdict, DecideApproval, Ruling};
use runloom_protocol::event::{ApprovalRequested, Event};
use runloom_protocol::id::KeyId;
use runloom_protocol::resource::{ApprovalReceipt, RunStatus};
use runloom_service::PageRequest;
use runloom_service::auth::Caller;
use runloom_service::error::Error;
use serde_json::{Value, json};

use crate::scripted::Piece;
use crate::world::{World, asked, parking};

fn policy(rules: Value) -> runloom_protocol::policy::Policy {
    serde_json::from_value(json!({"rules": rules})).unwrap()
}

async fn asking(world: &World, rule: Value) -> String {
    world
        .run_with("send it", |spec| spec.policy = Some(policy(json!([rule]))))
        .await
}

fn request_of(event: &Event) -> ApprovalRequested {
    match event {
        Event::ApprovalRequested(request) => request.clone(),
        other => panic!("{other:?}"),
    }
}

fn decision(request: &ApprovalRequested, verdict: ApprovalVerdict) -> DecideApproval {
    DecideApproval {
        approval_id: request.approval_id.clone(),
        ruling: Ruling {
            decision: verdict,
            input: None,
            sub_decisions: Vec::new(),
            note: None,
        },
    }
}

async fn decide(
    world: &World,
    caller: &Caller,
    run: &str,
    decision: DecideApproval,
) -> Result<ApprovalReceipt, Error> {
    let service = world.service.approvals();
    service.decide(caller, run, decision, None).await
}

fn ask_for_send() -> Value {
    json!({"id": "sends", "tools": ["send"], "decision": "ask", "reason": "It is sent."})
}

#[tokio::test]
async fn a_parked_run_continues_with_the_decision() {
    let world = World::with(parking()).await;
    world
        .model
        .script([Piece::Call("send", json!({"to": "x"}))]);
    let run = asking(&world, ask_for_send()).await;
    let mut watcher = world.watch(&run, 0).await;
    let request = request_of(&watcher.until("approval_requested").await);
    world.parked().await;
    assert_eq!(world.status(&run).await, RunStatus::WaitingApproval);
    let snapshot = world.snapshot(&run).await;
    assert_eq!(
        snapshot.pending_approvals,
        std::slice::from_ref(&request.approval_id)
    );
    let approve = decision(&request, ApprovalVerdict::Approve);
    let receipt = decide(&world, &world.caller, &run, approve.clone())
        .await
        .unwrap();
    assert_eq!(receipt.approval.status, ApprovalStatus::Approved);
    let call = asked(&watcher.until("local_tool_call").await);
    assert_eq!(call, request.tool_use_id);
    world.answer(&run, &call, "sent").await.unwrap();
    watcher.rest().await;
    assert!(matches!(watcher.events.last(), Some(Event::Result(result)) if result.turns == 2));
    assert!(watcher.bytes == world.stored(&run, 0).await);
    assert!(world.snapshot(&run).await.pending_approvals.is_empty());
    let again = decide(&world, &world.caller, &run, approve).await;
    assert!(
        again.is_ok(),
        "the same decision holds after the end: {again:?}"
    );
    let other = decision(&request, ApprovalVerdict::Deny);
    let refused = decide(&world, &world.caller, &run, other).await;
    assert!(
        matches!(refused, Err(Error::ApprovalDecided(_))),
        "{refused:?}"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_denial_is_no_failure_of_the_run() {
    let world = World::with(parking()).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let run = asking(&world, ask_for_send()).await;
    let mut watcher = world.watch(&run, 0).await;
    let request = request_of(&watcher.until("approval_requested").await);
    let mut deny = decision(&request, ApprovalVerdict::Deny);
    deny.ruling.note = Some("Not today.".to_owned());
    decide(&world, &world.caller, &run, deny).await.unwrap();
    watcher.rest().await;
    assert!(!watcher.kinds().contains(&"local_tool_call"));
    assert!(matches!(watcher.events.last(), Some(Event::Result(_))));
    let told = format!("{:?}", world.model.requests().last().unwrap().messages);
    assert!(
        told.contains("A person denied this call: Not today."),
        "{told}"
    );
    world.stop().await;
}

#[tokio::test]
async fn changed_arguments_are_checked_and_executed() {
    let world = World::with(parking()).await;
    world
        .model
        .script([Piece::Call("send", json!({"to": "a"}))]);
    let rules = json!([
        {"tools": ["send"], "args": {"properties": {"to": {"const": "nobody"}}, "required": ["to"]}, "decision": "deny"},
        ask_for_send(),
    ]);
    let run = world
        .run_with("send it", |spec| spec.policy = Some(policy(rules)))
        .await;
    let mut watcher = world.watch(&run, 0).await;
    let request = request_of(&watcher.until("approval_requested").await);
    let mut edited = decision(&request, ApprovalVerdict::Approve);
    edited.ruling.input = Some(json!({"to": "nobody"}));
    let refused = decide(&world, &world.caller, &run, edited.clone()).await;
    assert!(
        matches!(&refused, Err(Error::Invalid(issues)) if issues[0].path == "input"),
        "{refused:?}"
    );
    edited.ruling.input = Some(json!({"to": "b"}));
    let receipt = decide(&world, &world.caller, &run, edited).await.unwrap();
    assert_eq!(receipt.approval.edited_input, Some(json!({"to": "b"})));
    let Event::LocalToolCall(call) = watcher.until("local_tool_call").await else {
        panic!("another event");
    };
    assert_eq!(call.args, json!({"to": "b"}));
    world.answer(&run, &call.tool_use_id, "sent").await.unwrap();
    watcher.rest().await;
    let told = format!("{:?}", world.model.requests().last().unwrap().messages);
    assert!(
        told.contains("A person changed the arguments of this call"),
        "{told}"
    );
    world.stop().await;
}

#[tokio::test]
async fn an_undecided_call_expires_and_the_run_goes_on() {
    let world = World::with(parking()).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let mut rule = ask_for_send();
    rule["timeoutMs"] = json!(1000);
    let run = asking(&world, rule).await;
    let mut watcher = world.watch(&run, 0).await;
    let request = request_of(&watcher.until("approval_requested").await);
    watcher.rest().await;
    let decided = watcher.events.iter().find_map(|event| match event {
        Event::ApprovalDecided(decided) => Some(decided.status),
        _ => None,
    });
    assert_eq!(decided, Some(ApprovalStatus::Expired));
    assert!(matches!(watcher.events.last(), Some(Event::Result(_))));
    let late = decide(
        &world,
        &world.caller,
        &run,
        decision(&request, ApprovalVerdict::Approve),
    )
    .await;
    assert!(
        matches!(late, Err(Error::ApprovalDecided(approval)) if approval.status == ApprovalStatus::Expired)
    );
    world.stop().await;
}

#[tokio::test]
async fn an_approval_that_expired_while_nobody_ran_is_expired_by_the_next_process() {
    let world = World::with(parking()).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let mut rule = ask_for_send();
    rule["timeoutMs"] = json!(1000);
    let run = asking(&world, rule).await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("approval_requested").await;
    world.parked().await;
    world.kill().await;
    // The time limit is a matter of the wall clock, which no test can hurry.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let next = world.peer();
    let mut watcher = next.watch(&run, 0).await;
    watcher.rest().await;
    assert!(watcher.kinds().contains(&"approval_decided"));
    assert!(matches!(watcher.events.last(), Some(Event::Result(_))));
    next.stop().await;
}

#[tokio::test]
async fn a_cancel_ends_the_approval() {
    let world = World::with(parking()).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let run = asking(&world, ask_for_send()).await;
    let mut watcher = world.watch(&run, 0).await;
    let request = request_of(&watcher.until("approval_requested").await);
    world.cancel(&run).await;
    watcher.rest().await;
    assert!(!watcher.kinds().contains(&"approval_decided"));
    let id = request.approval_id.as_str();
    let approval = world
        .service
        .approvals()
        .get(&world.caller, id)
        .await
        .unwrap();
    assert_eq!(approval.status, ApprovalStatus::Cancelled);
    let late = decide(
        &world,
        &world.caller,
        &run,
        decision(&request, ApprovalVerdict::Approve),
    )
    .await;
    assert!(matches!(late, Err(Error::RunTerminal)), "{late:?}");
    world.stop().await;
}

#[tokio::test]
async fn another_credential_must_decide_when_the_rule_says_so() {
    let world = World::with(parking()).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let mut rule = ask_for_send();
    rule["approver"] = json!("other");
    let run = asking(&world, rule).await;
    let mut watcher = world.watch(&run, 0).await;
    let request = request_of(&watcher.until("approval_requested").await);
    let approve = decision(&request, ApprovalVerdict::Approve);
    let own = decide(&world, &world.caller, &run, approve.clone()).await;
    assert!(matches!(own, Err(Error::Forbidden { .. })), "{own:?}");
    let other = Caller {
        key_id: KeyId::from_suffix("another").into(),
        ..world.caller.clone()
    };
    decide(&world, &other, &run, approve).await.unwrap();
    let call = asked(&watcher.until("local_tool_call").await);
    world.answer(&run, &call, "sent").await.unwrap();
    watcher.rest().await;
    world.stop().await;
}

#[tokio::test]
async fn the_inbox_lists_what_waits() {
    let world = World::with(parking()).await;
    world.model.script([Piece::Call("send", json!({}))]);
    let run = asking(&world, ask_for_send()).await;
    let mut watcher = world.watch(&run, 0).await;
    watcher.until("approval_requested").await;
    let filter = ApprovalFilter {
        status: Some(ApprovalStatus::Pending),
        ..ApprovalFilter::default()
    };
    let page = PageRequest {
        limit: 10,
        cursor: None,
        offset: 0,
        include_total: true,
    };
    let list = world
        .service
        .approvals()
        .list(&world.caller, filter, page)
        .await
        .unwrap();
    assert_eq!((list.total, list.approvals.len()), (Some(1), 1));
    let shown = serde_json::to_value(&list.approvals[0]).unwrap();
    assert_eq!(
        (&shown["rule"], &shown["rootRunId"]),
        (&json!("sends"), &json!(run))
    );
    for null in ["decision", "editedInput", "note", "by", "decidedAt"] {
        assert_eq!(shown[null], Value::Null, "{null}");
    }
    world.cancel(&run).await;
    watcher.rest().await;
    world.stop().await;
}

//! AG-UI interrupts: approvals of a thread, decided by `resume`.

use runloom_protocol::spec::CreateSession;
use runloom_protocol::validate;
use runloom_service::ag_ui::AgUiStream;
use runloom_service::error::Error;
use serde_json::{Value, json};

use crate::scripted::Piece;
use crate::world::{World, parking, soon, spec};

/// A session whose policy asks before `send` is called.
async fn asking_session(world: &World) -> String {
    let policy =
        json!({"rules": [{"tools": ["send"], "decision": "ask", "reason": "It is sent."}]});
    let mut spec = spec();
    spec.policy = Some(serde_json::from_value(policy).unwrap());
    let request = CreateSession { spec };
    let created = world
        .service
        .sessions()
        .create(&world.caller, request, None);
    created.await.unwrap().session_id.to_string()
}

fn input(thread: &str, run: &str, said: &[&str], resume: &Value) -> Value {
    let messages = said
        .iter()
        .map(|text| json!({"id": text, "role": "user", "content": text}));
    json!({
        "threadId": thread, "runId": run, "messages": messages.collect::<Vec<_>>(), "resume": resume,
        "forwardedProps": {"runloom": {"systemPrompt": "be brief"}},
    })
}

async fn post(world: &World, input: Value) -> Result<AgUiStream, Error> {
    let input = validate::ag_ui(&input).unwrap();
    soon(world.service.ag_ui().run(&world.caller, None, input)).await
}

async fn events(world: &World, input: Value) -> Vec<Value> {
    let mut stream = post(world, input).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = soon(stream.next()).await {
        events.push(serde_json::to_value(event).unwrap());
    }
    events
}

fn interrupt(events: &[Value]) -> Value {
    let last = events.last().unwrap();
    assert_eq!(last["outcome"]["type"], "interrupt", "{events:?}");
    assert_eq!(last["outcome"]["interrupts"].as_array().unwrap().len(), 1);
    last["outcome"]["interrupts"][0].clone()
}

#[tokio::test]
async fn an_approval_interrupts_and_resume_decides_it_once() {
    let world = World::with(parking()).await;
    world
        .model
        .script([Piece::Call("send", json!({"to": "x"}))]);
    world.model.script([Piece::Text("Denied, then.")]);
    let thread = asking_session(&world).await;
    let none = json!([]);
    let asked = events(&world, input(&thread, "r1", &["go"], &none)).await;
    let open = interrupt(&asked);
    assert_eq!(open["reason"], "tool_call");
    assert_eq!(
        open["message"],
        "The call of `send` waits for an approval. It is sent."
    );
    let call = asked
        .iter()
        .find(|event| event["type"] == "TOOL_CALL_START")
        .unwrap();
    assert_eq!(open["toolCallId"], call["toolCallId"]);
    // Another process, the same run again, and a client that only follows get the same interrupt.
    world.parked().await;
    assert_eq!(
        interrupt(&events(&world, input(&thread, "r1", &["go"], &none)).await),
        open
    );
    assert_eq!(
        interrupt(&events(&world, input(&thread, "r2", &[], &none)).await),
        open
    );
    // A new message does not pass an open interrupt.
    let passed = events(&world, input(&thread, "r3", &["go", "on"], &none)).await;
    assert_eq!(passed.len(), 2, "{passed:?}");
    assert_eq!(passed[1]["type"], "RUN_ERROR");
    assert_eq!(passed[1]["code"], "interrupts_open");
    let resume = json!([{"interruptId": open["id"], "status": "cancelled"}]);
    let done = events(&world, input(&thread, "r4", &["go"], &resume)).await;
    let last = done.last().unwrap();
    assert_eq!(last["type"], "RUN_FINISHED", "{done:?}");
    assert!(
        last.get("outcome").is_none(),
        "the client sent no version: {last}"
    );
    let result = done
        .iter()
        .find(|event| event["type"] == "TOOL_CALL_RESULT");
    assert!(
        result.unwrap()["content"]
            .as_str()
            .unwrap()
            .contains("denied"),
        "{done:?}"
    );
    let again = events(&world, input(&thread, "r4", &["go"], &resume)).await;
    assert_eq!(again.last(), done.last(), "the same run is sent again");
    let stale = post(&world, input(&thread, "r5", &["go"], &resume)).await;
    let Err(Error::Invalid(issues)) = stale else {
        panic!("{stale:?}")
    };
    assert_eq!(issues[0].path, "resume");
    world.stop().await;
}

#[tokio::test]
async fn an_approved_call_reaches_the_client_with_changed_arguments() {
    let world = World::with(parking()).await;
    world
        .model
        .script([Piece::Call("send", json!({"to": "x"}))]);
    let thread = asking_session(&world).await;
    let asked = events(&world, input(&thread, "r1", &["go"], &json!([]))).await;
    let open = interrupt(&asked);
    let payload = json!({"approved": true, "input": {"to": "y"}});
    let resume = json!([{"interruptId": open["id"], "status": "resolved", "payload": payload}]);
    let mut request = input(&thread, "r2", &["go"], &resume);
    request["protocolVersion"] = json!("1.0");
    let approved = events(&world, request).await;
    let last = approved.last().unwrap();
    assert_eq!(
        last["outcome"]["pendingToolCallIds"],
        json!([open["toolCallId"]]),
        "{approved:?}"
    );
    let decided = approved
        .iter()
        .find(|event| event["name"] == "runloom.approval_decided");
    assert_eq!(decided.unwrap()["value"]["input"], json!({"to": "y"}));
    world.stop().await;
}

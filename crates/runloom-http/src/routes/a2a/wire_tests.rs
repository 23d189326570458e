//! Requests and responses of both protocol versions.

use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::outcome::{ErrorClass, FailureReason, Tokens};
use runloom_protocol::resource::{RunSnapshot, RunStatus};
use runloom_protocol::spec::AgentSpec;
use serde_json::{Map, Value, json};

use super::wire::{self, Incoming, Method, Version};
use crate::rpc::{Fault, INVALID_PARAMS};

fn run(status: RunStatus) -> RunSnapshot {
    RunSnapshot {
        subagents: None,
        parent_run_id: None,
        parent_tool_use_id: None,
        root_run_id: None,
        depth: None,
        id: RunId::from_suffix("1"),
        status,
        session_id: Some(SessionId::from_suffix("2")),
        agent_id: None,
        agent_version: None,
        agent_spec: AgentSpec::default(),
        attachments: Vec::new(),
        input_preview: None,
        final_text: Some("42".to_owned()),
        error: (status == RunStatus::Failed).then(|| "The provider is away.".to_owned()),
        failure_reason: None,
        metadata: std::collections::BTreeMap::new(),
        pending_approvals: Vec::new(),
        tokens: Some(Tokens::default()),
        turns: Some(1),
        model: None,
        created_at: "2026-11-17T10:00:00.000Z".to_owned(),
        started_at: None,
        completed_at: Some("2026-11-17T10:00:01.000Z".to_owned()),
        cost_usd: None,
        cancel: None,
    }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn read(message: Value) -> Result<Incoming, Fault> {
    wire::incoming(&object(json!({"message": message})))
}

#[test]
fn reply_follows_the_protocol() {
    let message = Version::V03.message(&run(RunStatus::Succeeded));
    assert_eq!(message["kind"], "message");
    assert_eq!(message["role"], "agent");
    assert!(message["messageId"].is_string());
    assert_eq!(message["parts"], json!([{"kind": "text", "text": "42"}]));
    assert_eq!(message["metadata"]["mantyx"]["turns"], 1);
    assert_eq!(message["metadata"]["mantyx"]["tokens"]["inputTokens"], 0);
    assert_eq!(message["metadata"]["mantyx"]["model"], Value::Null);
    assert_eq!(message["taskId"], "run_1");
    assert_eq!(message["contextId"], "ses_2");
}

#[test]
fn writes_both_versions() {
    let run = run(RunStatus::Failed);
    let old = Version::V03.task(&run);
    assert_eq!(old["kind"], "task");
    assert_eq!(old["status"]["state"], "failed");
    assert_eq!(old["status"]["message"]["parts"][0]["kind"], "text");
    let new = Version::V10.task(&run);
    assert_eq!(new.get("kind"), None);
    assert_eq!(new["status"]["state"], "TASK_STATE_FAILED");
    assert_eq!(new["status"]["message"]["role"], "ROLE_AGENT");
    assert_eq!(
        new["status"]["message"]["parts"],
        json!([{"text": "The agent failed."}])
    );
    let old = Version::V03.status_update(&run);
    assert_eq!(
        (&old["kind"], &old["final"]),
        (&json!("status-update"), &json!(true))
    );
    let new = Version::V10.status_update(&run);
    assert_eq!((new.get("kind"), new.get("final")), (None, None));
}

#[test]
fn hides_internals_of_failures() {
    for (class, word) in [
        (ErrorClass::Overloaded, "later"),
        (ErrorClass::ContextWindow, "longer"),
        (ErrorClass::Auth, "failed"),
    ] {
        let failure_reason = Some(FailureReason {
            error_class: class,
            finish_reason: None,
        });
        let run = RunSnapshot {
            failure_reason,
            ..run(RunStatus::Failed)
        };
        let report = Version::V10.status_update(&run).to_string();
        assert!(report.contains(word), "{class:?}: {report}");
        assert!(!report.contains("provider"), "{class:?}: {report}");
    }
}

#[test]
fn reads_parts_of_both_versions() {
    let old = json!({"kind": "message", "role": "user", "messageId": "m", "contextId": "ses_1",
        "parts": [{"kind": "text", "text": "a"}, {"kind": "data", "data": {"b": 1}}]});
    let expected = Incoming {
        text: "a\n{\"b\":1}".to_owned(),
        context: Some("ses_1".to_owned()),
        task: None,
        at_once: false,
    };
    assert_eq!(read(old), Ok(expected.clone()));
    let new = json!({"role": "ROLE_USER", "messageId": "m", "contextId": "ses_1", "taskId": "",
        "parts": [{"text": "a"}, {"data": {"b": 1}}]});
    assert_eq!(read(new), Ok(expected));
}

#[test]
fn reads_non_blocking_in_both_versions() {
    let message = json!({"messageId": "m", "parts": [{"text": "a"}]});
    for (configuration, at_once) in [
        (json!({"blocking": false}), true),
        (json!({"blocking": true}), false),
        (json!({"returnImmediately": true}), true),
        (json!({"returnImmediately": false}), false),
        (json!({}), false),
    ] {
        let params = object(json!({"message": message, "configuration": configuration}));
        let read = wire::incoming(&params).unwrap();
        assert_eq!(read.at_once, at_once, "{configuration}");
    }
}

#[test]
fn explains_bad_messages() {
    let file = json!({"kind": "file", "file": {"uri": "https://x.example"}});
    for (message, code, word) in [
        (json!("hi"), INVALID_PARAMS, "message"),
        (
            json!({"parts": [{"text": "a"}]}),
            INVALID_PARAMS,
            "messageId",
        ),
        (json!({"messageId": "m"}), INVALID_PARAMS, "parts"),
        (
            json!({"messageId": "m", "parts": []}),
            INVALID_PARAMS,
            "parts",
        ),
        (
            json!({"messageId": "m", "parts": [{"text": " "}]}),
            INVALID_PARAMS,
            "nothing",
        ),
        (
            json!({"messageId": "m", "role": "agent", "parts": [{"text": "a"}]}),
            INVALID_PARAMS,
            "role",
        ),
        (
            json!({"messageId": "m", "contextId": 1, "parts": [{"text": "a"}]}),
            INVALID_PARAMS,
            "contextId",
        ),
        (
            json!({"messageId": "m", "parts": [{"text": "a"}, file]}),
            wire::CONTENT_TYPE,
            "parts[1]",
        ),
    ] {
        let fault = read(message.clone()).unwrap_err();
        assert_eq!(fault.code, code, "{message}");
        assert!(fault.message.contains(word), "{message}: {}", fault.message);
    }
}

#[test]
fn knows_methods_of_both_versions() {
    for (old, new, method) in [
        ("message/send", "SendMessage", Method::Send),
        ("message/stream", "SendStreamingMessage", Method::Stream),
        ("tasks/get", "GetTask", Method::Get),
        ("tasks/cancel", "CancelTask", Method::Cancel),
        ("tasks/resubscribe", "SubscribeToTask", Method::Subscribe),
        (
            "tasks/pushNotificationConfig/set",
            "CreateTaskPushNotificationConfig",
            Method::Push,
        ),
    ] {
        assert_eq!(wire::method(old), Some((Version::V03, method)));
        assert_eq!(wire::method(new), Some((Version::V10, method)));
    }
    assert_eq!(wire::method("tasks/steal"), None);
}

#[test]
fn refuses_newer_versions() {
    for spoken in ["", "0.2", "0.3", "0.3.0", "1.0", "1.0.1", "1.2"] {
        assert!(wire::is_supported(spoken), "{spoken}");
    }
    for other in ["0.1", "2.0", "x", "10.0"] {
        assert!(!wire::is_supported(other), "{other}");
    }
}

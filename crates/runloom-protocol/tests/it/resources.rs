//! The keys of every resource, and which of them are `null`.

use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::outcome::{ErrorClass, FailureReason, RunCancelled, Tokens};
use runloom_protocol::resource::{
    self, CatalogEntry, ModelCatalog, ModelSource, Pricing, RunAccepted, RunList, RunListItem,
    RunSnapshot, RunStatus, SessionCreated, SessionEvent, SessionEventKind, SessionEvents,
    SessionList, SessionListItem, SessionSnapshot, SessionStatus,
};
use runloom_protocol::spec::{AgentSpec, PromptMessage, Role};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Asserts the JSON, its order of keys included, and that it is read back.
fn goes_both_ways<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    value: &T,
    wire: &Value,
) {
    assert_eq!(serde_json::to_string(value).unwrap(), wire.to_string());
    assert_eq!(&serde_json::from_value::<T>(wire.clone()).unwrap(), value);
}

fn run_id() -> RunId {
    RunId::parse("run_1").unwrap()
}

fn session_id() -> SessionId {
    SessionId::parse("ses_1").unwrap()
}

fn queued() -> RunSnapshot {
    RunSnapshot {
        subagents: None,
        parent_run_id: None,
        parent_tool_use_id: None,
        root_run_id: None,
        depth: None,
        id: run_id(),
        status: RunStatus::Queued,
        session_id: None,
        agent_version: None,
        agent_id: None,
        attachments: Vec::new(),
        agent_spec: AgentSpec {
            system_prompt: Some("s".into()),
            ..AgentSpec::default()
        },
        input_preview: Some("Hi".into()),
        final_text: None,
        error: None,
        failure_reason: None,
        metadata: [("env".to_owned(), "ci".to_owned())].into(),
        pending_approvals: Vec::new(),
        tokens: None,
        turns: None,
        model: None,
        created_at: "2026-11-01T00:00:00Z".into(),
        started_at: None,
        completed_at: None,
        cost_usd: None,
        cancel: None,
    }
}

#[test]
fn a_queued_run_has_every_key_and_null_for_what_is_not_known() {
    goes_both_ways(
        &queued(),
        &json!({
            "id": "run_1", "status": "queued", "sessionId": null, "agentId": null, "agentSpec": {"systemPrompt": "s"},
            "inputPreview": "Hi", "finalText": null, "error": null, "failureReason": null, "metadata": {"env": "ci"}, "tokens": null,
            "turns": null, "model": null, "createdAt": "2026-11-01T00:00:00Z", "startedAt": null, "completedAt": null,
        }),
    );
}

#[test]
fn an_ended_run_shows_failure_cost_and_receipt() {
    let run = RunSnapshot {
        status: RunStatus::Cancelled,
        failure_reason: Some(FailureReason {
            error_class: ErrorClass::Truncation,
            finish_reason: Some("max_tokens".into()),
        }),
        tokens: Some(Tokens::default()),
        turns: Some(0),
        cost_usd: Some(0.25),
        cancel: Some(RunCancelled {
            subagents: None,
            reason: "user".into(),
            requested_at: None,
            stopped_at: None,
            interrupted: vec![],
            tokens: Tokens::default(),
            turns: 0,
            model: None,
            cost_usd: None,
        }),
        ..queued()
    };
    let wire = serde_json::to_value(&run).unwrap();
    assert_eq!(
        wire["failureReason"],
        json!({"errorClass": "truncation", "finishReason": "max_tokens"})
    );
    assert_eq!(wire["costUsd"], json!(0.25));
    assert_eq!(wire["cancel"]["reason"], json!("user"));
    assert_eq!(serde_json::from_value::<RunSnapshot>(wire).unwrap(), run);
}

#[test]
fn statuses_are_read_back_and_know_their_end() {
    for status in RunStatus::ALL {
        assert_eq!(RunStatus::parse(status.as_str()), Some(status));
        assert_eq!(
            serde_json::to_value(status).unwrap(),
            json!(status.as_str())
        );
    }
    let terminal: Vec<_> = RunStatus::ALL
        .into_iter()
        .filter(|s| s.is_terminal())
        .collect();
    assert_eq!(
        terminal,
        [
            RunStatus::Succeeded,
            RunStatus::Failed,
            RunStatus::Cancelled
        ]
    );
    assert_eq!(RunStatus::parse("done"), None);
    assert_eq!(SessionStatus::parse("ended"), Some(SessionStatus::Ended));
    assert_eq!(SessionStatus::parse("Ended"), None);
}

#[test]
fn a_session_shows_its_messages() {
    let session = SessionSnapshot {
        id: session_id(),
        name: None,
        status: SessionStatus::Active,
        created_at: "a".into(),
        last_used_at: "b".into(),
        ended_at: None,
        agent_spec: AgentSpec::default(),
        messages: vec![PromptMessage::new(Role::User, "Hi")],
        truncated: false,
        metadata: [].into(),
    };
    goes_both_ways(
        &session,
        &json!({
            "id": "ses_1", "name": null, "status": "active", "createdAt": "a", "lastUsedAt": "b", "endedAt": null,
            "agentSpec": {}, "messages": [{"role": "user", "content": "Hi"}], "metadata": {},
        }),
    );
}

#[test]
fn the_catalog_prices_tokens_by_the_million() {
    let entry = CatalogEntry {
        id: "platform:x".into(),
        label: "X".into(),
        provider: "openai".into(),
        vendor_model_id: "x-1".into(),
        source: ModelSource::PlatformOffering,
        context_window_tokens: Some(200_000),
        pricing: Some(Pricing {
            input_per_1m_usd: 3.0,
            output_per_1m_usd: 15.5,
            cache_read_per_1m_usd: None,
        }),
    };
    let own = CatalogEntry {
        source: ModelSource::WorkspaceProvider,
        context_window_tokens: None,
        pricing: None,
        ..entry.clone()
    };
    goes_both_ways(
        &ModelCatalog {
            models: vec![entry, own],
            default_model_id: None,
        },
        &json!({
            "models": [
                {
                    "id": "platform:x", "label": "X", "provider": "openai", "vendorModelId": "x-1",
                    "source": "platform_offering", "contextWindowTokens": 200_000,
                    "pricing": {"inputPer1MUsd": 3.0, "outputPer1MUsd": 15.5, "cacheReadPer1MUsd": null},
                },
                {
                    "id": "platform:x", "label": "X", "provider": "openai", "vendorModelId": "x-1",
                    "source": "workspace_provider", "contextWindowTokens": null, "pricing": null,
                },
            ],
            "defaultModelId": null,
        }),
    );
}

#[test]
fn the_small_answers() {
    goes_both_ways(
        &RunAccepted {
            run_id: run_id(),
            stream_url: "/s".into(),
        },
        &json!({"runId": "run_1", "streamUrl": "/s"}),
    );
    goes_both_ways(
        &SessionCreated {
            session_id: session_id(),
        },
        &json!({"sessionId": "ses_1"}),
    );
    goes_both_ways(&resource::Ok::default(), &json!({"ok": true}));
}

#[test]
fn lists_have_every_key() {
    let item = RunListItem {
        parent_run_id: None,
        parent_tool_use_id: None,
        root_run_id: None,
        depth: None,
        cost_usd: None,
        id: run_id(),
        session_id: Some(session_id()),
        status: RunStatus::Running,
        spec_name: None,
        agent_id: None,
        model_id: None,
        input_preview: Some("Hi".into()),
        output_preview: None,
        error: None,
        tokens: None,
        turns: None,
        duration_ms: None,
        tool_call_count: 0,
        metadata: [].into(),
        created_at: "a".into(),
        completed_at: None,
    };
    goes_both_ways(
        &RunList {
            total: None,
            limit: 50,
            next_cursor: None,
            runs: vec![item],
        },
        &json!({
            "total": null, "limit": 50, "nextCursor": null,
            "runs": [{
                "id": "run_1", "sessionId": "ses_1", "status": "running", "specName": null, "agentId": null,
                "modelId": null, "inputPreview": "Hi", "outputPreview": null, "error": null, "tokens": null,
                "turns": null, "durationMs": null, "toolCallCount": 0, "metadata": {}, "createdAt": "a",
                "completedAt": null,
            }],
        }),
    );
    let item = SessionListItem {
        session_id: session_id(),
        creation_date: "a".into(),
        last_interaction_date: "b".into(),
        summary: "Hi".into(),
        metadata: [].into(),
        status: SessionStatus::Ended,
    };
    goes_both_ways(
        &SessionList {
            total: Some(1),
            limit: 50,
            offset: 0,
            next_cursor: Some("c".into()),
            sessions: vec![item],
        },
        &json!({
            "total": 1, "limit": 50, "offset": 0, "nextCursor": "c",
            "sessions": [{
                "sessionId": "ses_1", "creationDate": "a", "lastInteractionDate": "b", "summary": "Hi", "metadata": {},
                "status": "ended",
            }],
        }),
    );
}

#[test]
fn session_events_keep_fields_that_we_do_not_know() {
    let rest = json!({"runId": "run_1"}).as_object().cloned().unwrap();
    let event = SessionEvent {
        seq: 1,
        kind: SessionEventKind::UserMessage,
        text: "Hi".into(),
        rest,
    };
    goes_both_ways(
        &SessionEvents {
            session_id: session_id(),
            total: 1,
            events: vec![event],
            next_before_seq: None,
            truncated: false,
        },
        &json!({
            "sessionId": "ses_1", "total": 1,
            "events": [{"seq": 1, "type": "user_message", "text": "Hi", "runId": "run_1"}],
            "nextBeforeSeq": null, "truncated": false,
        }),
    );
}

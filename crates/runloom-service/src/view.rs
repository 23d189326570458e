//! From stored rows to what is answered.

use runloom_protocol::attachment::Attachment;
use runloom_protocol::id::{ApprovalId, SessionId};
use runloom_protocol::resource::{
    RunListItem, RunSnapshot, SessionEvent, SessionEventKind, SessionEvents, SessionListItem,
    SessionSnapshot,
};
use runloom_protocol::spec::{AgentSpec, PromptMessage, Role};
use runloom_protocol::tools::Object;
use serde::Deserialize;

use crate::error::{Error, Result};
use runloom_engine::planner::StoredRun;
pub(super) use runloom_engine::planner::public_spec;
use runloom_ports::clock::rfc3339;
use runloom_ports::store::{RunRow, RunSummary, SessionRow, SessionSummary};

/// The member with the files, of a run's spec and of a frame of a session.
const ATTACHMENTS: &str = "attachments";

/// What everybody may see of a run's files, beside its spec.
#[derive(Deserialize)]
struct Attached {
    attachments: Vec<Attachment>,
}

/// The spec and the files of a run as they are kept for its snapshot.
///
/// # Errors
/// When they cannot be written.
pub(super) fn public_run(run: &StoredRun) -> Result<String> {
    let mut shown = serde_json::to_string(&public_spec(&run.spec)).map_err(Error::internal)?;
    let files = run.messages.iter().flat_map(|message| &message.attachments);
    let attachments: Vec<Attachment> = files.map(Attachment::info).collect();
    if !attachments.is_empty() {
        // One object: older versions pass over the member that they do not know.
        let mut object: Object = serde_json::from_str(&shown).map_err(Error::internal)?;
        let files = serde_json::to_value(attachments).map_err(Error::internal)?;
        object.insert(ATTACHMENTS.to_owned(), files);
        shown = serde_json::to_string(&object).map_err(Error::internal)?;
    }
    Ok(shown)
}

fn attachments(public_spec: &str) -> Vec<Attachment> {
    if !public_spec.contains("\"attachments\"") {
        return Vec::new();
    }
    // A spec may have such a name inside, in a tool's schema.
    serde_json::from_str::<Attached>(public_spec).map_or_else(|_| Vec::new(), |it| it.attachments)
}

pub(super) fn run_snapshot(row: RunRow, pending_approvals: Vec<ApprovalId>) -> Result<RunSnapshot> {
    let agent_spec = parse_spec(&row.public_spec)?;
    let lineage = row.lineage.as_ref();
    Ok(RunSnapshot {
        subagents: row.subagents,
        parent_run_id: lineage.map(|lineage| lineage.parent.clone()),
        parent_tool_use_id: lineage.map(|lineage| lineage.tool_use_id.clone()),
        root_run_id: lineage.map(|lineage| lineage.root.clone()),
        depth: lineage.map(|lineage| lineage.depth),
        attachments: attachments(&row.public_spec),
        agent_version: agent_spec.agent_version,
        agent_spec,
        id: row.id,
        status: row.status,
        session_id: row.session,
        agent_id: row
            .agent_id
            .as_deref()
            .and_then(runloom_protocol::id::AgentId::parse),
        input_preview: Some(row.input_preview),
        final_text: row.final_text,
        error: row.error,
        failure_reason: row.failure,
        metadata: row.metadata,
        pending_approvals,
        tokens: row.tokens,
        turns: row.turns,
        model: row.model,
        created_at: rfc3339(row.created_at),
        started_at: row.started_at.map(rfc3339),
        completed_at: row.completed_at.map(rfc3339),
        cost_usd: row.cost_usd,
        cancel: row.cancel,
    })
}

pub(super) fn run_list_item(row: RunSummary) -> RunListItem {
    let duration = row
        .completed_at
        .zip(row.started_at)
        .map(|(end, start)| end.0.saturating_sub(start.0));
    let lineage = row.lineage.as_ref();
    RunListItem {
        parent_run_id: lineage.map(|lineage| lineage.parent.clone()),
        parent_tool_use_id: lineage.map(|lineage| lineage.tool_use_id.clone()),
        root_run_id: lineage.map(|lineage| lineage.root.clone()),
        depth: lineage.map(|lineage| lineage.depth),
        cost_usd: row.cost_usd.filter(|_| row.lineage.is_some()),
        id: row.id,
        session_id: row.session,
        status: row.status,
        spec_name: row.spec_name,
        agent_id: row
            .agent_id
            .as_deref()
            .and_then(runloom_protocol::id::AgentId::parse),
        model_id: Some(row.model_id),
        input_preview: Some(row.input_preview),
        output_preview: row.output_preview,
        error: row.error,
        tokens: row.tokens,
        turns: row.turns,
        duration_ms: duration.and_then(|ms| u64::try_from(ms).ok()),
        tool_call_count: row.tool_calls,
        metadata: row.metadata,
        created_at: rfc3339(row.created_at),
        completed_at: row.completed_at.map(rfc3339),
    }
}

pub(super) fn session_snapshot(
    row: SessionRow,
    messages: Vec<(u64, PromptMessage)>,
    truncated: bool,
) -> Result<SessionSnapshot> {
    let shown = |(_, message)| PromptMessage {
        retained: Vec::new(),
        compacted: None,
        ..message
    };
    let messages = messages.into_iter().map(shown).collect();
    Ok(SessionSnapshot {
        truncated,
        agent_spec: AgentSpec {
            active_model_id: row.active_model,
            ..parse_spec(&row.public_spec)?
        },
        id: row.id,
        name: row.name,
        status: row.status,
        created_at: rfc3339(row.created_at),
        last_used_at: rfc3339(row.last_used_at),
        ended_at: row.ended_at.map(rfc3339),
        messages,
        metadata: row.metadata,
    })
}

pub(super) fn session_list_item(row: SessionSummary) -> SessionListItem {
    SessionListItem {
        session_id: row.id,
        creation_date: rfc3339(row.created_at),
        last_interaction_date: rfc3339(row.last_used_at),
        summary: row.name.unwrap_or_default(),
        metadata: row.metadata,
        status: row.status,
    }
}

pub(super) fn session_events(
    session_id: SessionId,
    total: u64,
    messages: Vec<(u64, PromptMessage)>,
) -> SessionEvents {
    let first = messages.first().map(|(seq, _)| *seq);
    let older = first.filter(|seq| *seq > 1);
    SessionEvents {
        session_id,
        total,
        events: messages
            .into_iter()
            .map(|(seq, message)| session_event(seq, message))
            .collect(),
        next_before_seq: older,
        truncated: older.is_some(),
    }
}

fn session_event(seq: u64, message: PromptMessage) -> SessionEvent {
    let kind = match message.role {
        Role::User => SessionEventKind::UserMessage,
        Role::Assistant => SessionEventKind::AssistantMessage,
        Role::System => SessionEventKind::Message,
    };
    let mut rest = Object::default();
    if !message.attachments.is_empty()
        && let Ok(files) = serde_json::to_value(&message.attachments)
    {
        rest.insert(ATTACHMENTS.to_owned(), files);
    }
    SessionEvent {
        seq,
        kind,
        text: message.content,
        rest,
    }
}

pub(super) fn parse_spec(text: &str) -> Result<AgentSpec> {
    serde_json::from_str(text).map_err(Error::internal)
}

//! The records that the state is folded from: public events and private notes.

use runloom_protocol::attachment::Attachment;
use runloom_protocol::event::Event;
use runloom_protocol::outcome::{StructuredOutput, Tokens};
use runloom_protocol::policy::Decision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use runloom_ports::model::ProviderState;
use runloom_ports::store::TreeUsage;
use runloom_ports::tools::ServerTool;

/// An event or a note.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "moved once and folded; a box would cost an allocation per delta"
)]
pub enum Record {
    /// Seen by clients.
    Event(Event),
    /// Seen by the machine only.
    Note(Note),
}

/// A private record, which no client sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// Written beside each `assistant_message`.
    Turn {
        /// Tokens of this turn.
        tokens: Tokens,
        /// The provider's ids of the calls, in the order of `toolCalls`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        call_ids: Vec<String>,
        /// The provider's private items.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<ProviderState>,
        /// State of the output schema in this turn.
        #[serde(default)]
        structured: StructuredOutput,
    },
    /// A model call that did not complete.
    Attempt {
        /// Tokens as reported by the provider.
        tokens: Tokens,
        /// Millionths of a dollar that it may have cost beyond that, where a limit of money applies.
        #[serde(default, skip_serializing_if = "is_zero")]
        lost: u64,
    },
    /// A model call is about to be sent. It may cost this many millionths of a dollar of `budgets.maxCostUsd`.
    Reserved {
        /// At worst.
        micro_usd: u64,
    },
    /// The money is nearly used: the run makes one more model call, without tools.
    Economise {
        /// The budget, the amounts and when it refills.
        reason: String,
    },
    /// The provider refused the request as longer than the model's context window.
    ContextOverflow {},
    /// Stands beside each `context_compacted`: what the model reads in place of the older messages.
    Compacted {
        /// Messages at the end of the conversation that stay.
        kept: usize,
        /// What stands before them.
        text: String,
        /// What the summary used.
        #[serde(default)]
        usage: SummaryUsage,
    },
    /// The server-resolved tools of the run, kept so that they survive restarts unchanged.
    Toolset {
        /// In the order of their refs.
        tools: Vec<ServerTool>,
    },
    /// Written before a `tool_result` that was cut for display: the full text for the model.
    Output {
        /// Which call.
        tool_use_id: String,
        /// The whole of it.
        content: String,
    },
    /// Written before the result of the project tool: the source of its `ui_schema`.
    UiHints {
        /// Which call.
        tool_use_id: String,
        /// See `runloom_project::ui`.
        hints: Value,
    },
    /// Written before the result of a tool that returned files: their content for the model.
    Files {
        /// Which call.
        tool_use_id: String,
        /// In the tool's order; those without their content are only named.
        files: Vec<Attachment>,
    },
    /// Written beside the `subagent` event of a child that has ended.
    SubRun {
        /// Usage of the child and all runs below it.
        usage: TreeUsage,
    },
    /// The run is cancelled and waits for the runs below it.
    Stopping {
        /// Reason of the cancel.
        reason: String,
        /// When the cancel was accepted (RFC 3339).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        requested_at: Option<String>,
        /// Names of the interrupted tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        interrupted: Vec<String>,
    },
    /// The decision of the process that drives the run about a call.
    Judged {
        /// Which call.
        tool_use_id: String,
        /// The decision.
        decision: Decision,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Written beside each `local_tool_call`.
    Asked {
        /// Which call.
        tool_use_id: String,
        /// When it times out, in milliseconds since the Unix epoch.
        deadline: i64,
    },
    /// Written beside each `approval_requested` of the run itself.
    AwaitsApproval {
        /// Which call.
        tool_use_id: String,
        /// When it is denied, in milliseconds since the Unix epoch.
        deadline: i64,
    },
    /// No process that claimed the run could plan it. Cleared by the next record.
    #[serde(rename = "stalled")]
    Deferred {
        /// Start of the deferral, in milliseconds since the Unix epoch.
        since: i64,
    },
}

/// What asking for a summary used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SummaryUsage {
    /// Tokens of all its calls.
    pub tokens: Tokens,
    /// Millionths of a dollar that the calls may have cost beyond that, where a limit of money applies.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// The cost, when the summary was asked of another model than the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_model: Option<OtherModelCost>,
}

/// The cost of calls of another model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherModelCost {
    /// In picodollars; absent when the model has no price.
    pub cost_pico: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A note and its position in the log: it is folded after the event with this number.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlacedNote {
    /// Number of the event before it; 0 when there is no event.
    pub after: u64,
    /// The note.
    #[serde(flatten)]
    pub note: Note,
}

#[cfg(test)]
mod tests {
    use runloom_ports::model::ProviderState;
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn provider_state_survives_the_log() {
        let items = RawValue::from_string(r#"[{"id":"rs_1","encrypted":"a\"b"}]"#.to_owned());
        let note = Note::Turn {
            tokens: Default::default(),
            call_ids: vec!["call_1".to_owned()],
            state: Some(ProviderState {
                owner: "openai-responses/1".to_owned(),
                model: "gpt-5.5".to_owned(),
                items: items.unwrap().into(),
            }),
            structured: Default::default(),
        };
        let stored = serde_json::to_string(&note).unwrap();
        assert_eq!(serde_json::from_str::<Note>(&stored).unwrap(), note);
    }
}

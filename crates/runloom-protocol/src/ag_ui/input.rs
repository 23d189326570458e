//! `RunAgentInput`, checked: what a client of AG-UI posts.

use serde_json::Value;

use crate::approval::ApprovalVerdict;
use crate::attachment::Attachment;
use crate::id::AgentId;
use crate::read::keywords;
use crate::spec::{Budgets, Metadata};
use crate::tools::{LocalTool, ToolRef};

/// A request of an AG-UI client.
#[derive(Debug, Clone, PartialEq)]
pub struct RunAgentInput {
    /// The conversation.
    pub thread_id: String,
    /// The client's id of this request and its stream.
    pub run_id: String,
    /// Repeated in the first event.
    pub parent_run_id: Option<String>,
    /// What the client understands.
    pub version: ProtocolVersion,
    /// The conversation as the client has it, with what is new at its end.
    pub messages: Vec<InputMessage>,
    /// Tools of the front end.
    pub tools: Vec<LocalTool>,
    /// What the front end says about itself.
    pub context: Vec<ContextEntry>,
    /// The state of the front end; `None` when it is empty.
    pub state: Option<Value>,
    /// Answers to interrupts, each to another one.
    pub resume: Vec<ResumeEntry>,
    /// `forwardedProps.runloom`.
    pub runloom: RunloomProps,
}

/// What a client understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// It sent no version: 0.0.x, which rejects the outcomes of 1.0.
    Unknown,
    /// 1.0 or newer.
    One,
}

/// The answer to an interrupt: a decision about an approval.
#[derive(Debug, Clone, PartialEq)]
pub struct ResumeEntry {
    /// The approval, `apr_…`.
    pub interrupt_id: String,
    /// Whether the call is executed. A cancelled interrupt is a denial.
    pub decision: ApprovalVerdict,
    /// The arguments to execute instead, with an approval only.
    pub input: Option<Value>,
}

/// One message of the request.
#[derive(Debug, Clone, PartialEq)]
pub struct InputMessage {
    /// The client's id, or one that this server gave.
    pub id: String,
    /// What it says.
    pub body: MessageBody,
}

/// What a message says, by role.
#[derive(Debug, Clone, PartialEq)]
pub enum MessageBody {
    /// The person.
    User {
        /// The text parts, joined.
        text: String,
        /// Files, on the last user message alone.
        attachments: Vec<Attachment>,
    },
    /// The model.
    Assistant {
        /// Empty for a turn that only called tools.
        text: String,
        /// How many tools it called.
        calls: usize,
    },
    /// The result of a call.
    Tool {
        /// Which call.
        tool_call_id: String,
        /// The text.
        text: String,
        /// Why the tool failed, when it did.
        error: Option<String>,
    },
    /// `system` and `developer`: context of this run.
    Instruction {
        /// The text.
        text: String,
        /// The message as it came.
        sent: Value,
    },
    /// `activity` and `reasoning`: not for the server.
    Skipped,
}

/// A named piece of context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextEntry {
    /// What it is.
    pub description: String,
    /// The information.
    pub value: String,
}

/// `forwardedProps.runloom`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunloomProps {
    /// The agent, where the path names none.
    pub agent_id: Option<AgentId>,
    /// The prompt of an ephemeral agent.
    pub system_prompt: Option<String>,
    /// As in a spec.
    pub model_id: Option<String>,
    /// As in a spec.
    pub reasoning_level: Option<u8>,
    /// As in a spec.
    pub budgets: Budgets,
    /// As in a spec.
    pub metadata: Metadata,
    /// Tools of the server.
    pub tools: Vec<ToolRef>,
    /// Replaces the setting.
    pub on_disconnect: Option<OnDisconnect>,
}

keywords! {
    /// What happens to a run whose client closes the stream.
    pub enum OnDisconnect {
        /// It goes on.
        Continue = "continue",
        /// It is cancelled, unless a client follows it again in time.
        Cancel = "cancel",
    }
}

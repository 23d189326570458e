//! Names of OpenTelemetry's semantic conventions for generative AI, which are still marked as in development. Names of
//! providers are those of [`ProviderKind::trace_name`].

use runloom_protocol::definition::ProviderKind;

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(super) const OUTPUT_TYPE: &str = "gen_ai.output.type";
pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(super) const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
pub(super) const AGENT_ID: &str = "gen_ai.agent.id";
pub(super) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(super) const CONVERSATION: &str = "gen_ai.conversation.id";
pub(super) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(super) const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub(super) const ERROR_TYPE: &str = "error.type";

pub(super) const INVOKE_AGENT: &str = "invoke_agent";
pub(super) const CHAT: &str = "chat";
pub(super) const EXECUTE_TOOL: &str = "execute_tool";

// Our own, where the conventions have no word.
pub(super) const RESOLVE_TOOLS: &str = "resolve_tools";
pub(super) const RUN: &str = "runloom.run.id";
pub(super) const WORKSPACE: &str = "runloom.workspace";
pub(super) const STATUS: &str = "runloom.run.status";
pub(super) const TURNS: &str = "runloom.run.turns";
pub(super) const COST: &str = "runloom.run.cost_usd";
pub(super) const TURN: &str = "runloom.turn";
pub(super) const EXECUTED_BY: &str = "runloom.tool.executed_by";
pub(super) const DROPPED: &str = "runloom.spans_dropped";

pub(super) const STARTED: &str = "started";
pub(super) const FIRST_WORD: &str = "first_token";
pub(super) const RESTARTED: &str = "turn_restarted";
pub(super) const FALLBACK: &str = "model_fallback";
pub(super) const COMPACTED: &str = "context_compacted";
pub(super) const LOOP_DETECTED: &str = "loop_detected";
pub(super) const BUDGET_EXCEEDED: &str = "tool_budget_exceeded";
pub(super) const APPROVAL_REQUESTED: &str = "approval_requested";
pub(super) const APPROVAL_DECIDED: &str = "approval_decided";

/// The name of a provider in the conventions. Other kinds keep their own name.
pub(super) fn provider(kind: &str) -> &str {
    ProviderKind::parse(kind).map_or(kind, |kind| kind.trace_name())
}

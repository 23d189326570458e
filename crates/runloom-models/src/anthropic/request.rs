//! Encoder of the Messages API.

use runloom_ports::model::{ModelError, ModelRequest, ToolDeclaration};
use runloom_protocol::outcome::{StructuredOutput, effort_of_level};

use super::dialect::{Dialect, ThinkingMode, ThinkingOff};
use super::history::{self, History};
use super::wire::{
    CacheControl, Display, Head, OutputConfig, OutputFormat, System, Thinking, Tool, ToolChoice,
};
use crate::codec::DecoderOptions;
use crate::conversation::instructions;
use crate::payload::Payload;
use crate::request_body::RequestBody;
use crate::settings::ModelSettings;
use crate::structured::{self, HiddenTool};
use crate::{alternating_roles, tools};

/// Name of the hidden tool.
const HIDDEN_TOOL: &str = "final_report";

/// Description of the hidden tool, for the model.
const HIDDEN_DESCRIPTION: &str = "Delivers the final answer. Call it exactly once, when the work is done; its input is \
                                  the whole answer and nothing is read beside it.";

/// Smallest thinking budget that the API accepts.
const MIN_BUDGET: u64 = 1_024;

/// Thinking budget of the level `high`.
const HIGH_BUDGET: u64 = 8_000;

/// The levels that clients name `low` and `high`.
const LOW: u8 = 30;
const HIGH: u8 = 80;

/// Who serves the API. The body differs: some members are in the path or the headers of the other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Endpoint<'a> {
    /// Anthropic: the model is in the body.
    Anthropic {
        /// The vendor's name of the model.
        model: &'a str,
    },
    /// Bedrock: the version is in the body, the model in the path.
    Bedrock {
        /// The vendor's name of the model.
        model: &'a str,
        /// `anthropic_version`.
        version: &'a str,
    },
}

impl<'a> Endpoint<'a> {
    /// The vendor's name of the model.
    pub(crate) fn model(self) -> &'a str {
        match self {
            Self::Anthropic { model } | Self::Bedrock { model, .. } => model,
        }
    }
}

/// An encoded request, and what the decoder needs to know about it.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The JSON body.
    pub(crate) body: Payload,
    /// For the decoder.
    pub(crate) info: RequestInfo,
}

/// The request, as far as the decoder depends on it.
#[derive(Debug, Clone)]
pub(crate) struct RequestInfo {
    /// The vendor's name of the model, which owns its thinking.
    pub(crate) model: String,
    /// Whether the run asked for thinking to be shown.
    pub(crate) show_thinking: bool,
    /// The hidden tool, if it was offered.
    pub(crate) hidden: Option<HiddenTool>,
    /// Outcome of the output schema if the hidden tool is not called.
    pub(crate) structured: StructuredOutput,
}

impl RequestInfo {
    /// A request for tests of the decoder.
    pub(crate) fn for_test(options: DecoderOptions) -> Self {
        Self {
            model: "test".to_owned(),
            show_thinking: options.show_thinking,
            hidden: options.hidden_tool(HIDDEN_TOOL),
            structured: structured::NOT_CALLED,
        }
    }
}

impl Encoded {
    /// Marks the request as a retry without the rejected schema.
    pub(crate) fn without_schema(mut self) -> Self {
        self.info.structured = structured::SCHEMA_REJECTED;
        self
    }
}

/// The request with the settings of the model applied.
pub(crate) fn for_model(mut request: ModelRequest, model: &ModelSettings) -> ModelRequest {
    request.max_output_tokens = request.max_output_tokens.or(model.max_output_tokens);
    if model.reasoning == Some(false) {
        request.reasoning_level = None;
    }
    request
}

/// Encodes a request.
pub(crate) fn encode(
    endpoint: Endpoint<'_>,
    request: &ModelRequest,
) -> Result<Encoded, ModelError> {
    let dialect = Dialect::of(endpoint.model());
    let plan = Plan::of(&dialect, endpoint.model(), request);
    let instructions = instructions(&request.messages);
    let history = History {
        model: endpoint.model(),
        replay_thinking: plan.replay_thinking,
    };
    let (version, model, stream) = match endpoint {
        Endpoint::Anthropic { model } => (None, Some(model), Some(true)),
        Endpoint::Bedrock { version, .. } => (Some(version), None, None),
    };
    let head = Head {
        anthropic_version: version,
        model,
        max_tokens: plan.max_tokens,
        stream,
        thinking: plan.thinking,
        output_config: plan.output_config(request),
        tools: declarations(&request.tools, plan.hidden.as_ref()),
        tool_choice: plan.tool_choice(request),
        system: system(&request.system, &instructions, plan.hidden.as_ref()),
    };
    let mut body = RequestBody::open(&head, "messages")?;
    alternating_roles::write(
        &mut body,
        &request.messages,
        instructions.len(),
        &history.cache_key(),
        history,
    )?;
    let structured = if plan.native_schema {
        structured::NATIVE
    } else if plan.hidden.is_some() {
        structured::NOT_CALLED
    } else {
        StructuredOutput::default()
    };
    Ok(Encoded {
        body: body.close_list(),
        info: RequestInfo {
            model: endpoint.model().to_owned(),
            show_thinking: shows_thinking(request),
            hidden: plan.hidden,
            structured,
        },
    })
}

/// The decisions that the members of the body depend on.
#[derive(Debug)]
struct Plan {
    max_tokens: u64,
    thinking: Option<Thinking>,
    effort: Option<&'static str>,
    replay_thinking: bool,
    hidden: Option<HiddenTool>,
    force_hidden: bool,
    native_schema: bool,
}

impl Plan {
    fn of(dialect: &Dialect, model: &str, request: &ModelRequest) -> Self {
        let max_tokens = request
            .max_output_tokens
            .unwrap_or(dialect.default_max_tokens)
            .max(1);
        let schema = request.output_schema.as_deref();
        let hidden = schema
            .filter(|_| dialect.forced_tools)
            .map(|schema| HiddenTool::new(HIDDEN_TOOL, schema, &request.tools));
        let force_hidden = hidden.is_some()
            && (request.force_output || request.tools.is_empty() || !request.tools_enabled);
        let (thinking, effort) = if force_hidden {
            // The API accepts either a forced tool or thinking.
            off(dialect)
        } else {
            thinking(dialect, model, max_tokens, request)
        };
        let replay_thinking = match thinking {
            Some(Thinking::Disabled) => false,
            Some(_) => true,
            None => dialect.off == ThinkingOff::Never,
        };
        Self {
            max_tokens,
            thinking,
            effort,
            replay_thinking,
            native_schema: schema.is_some() && hidden.is_none(),
            hidden,
            force_hidden,
        }
    }

    fn tool_choice(&self, request: &ModelRequest) -> Option<ToolChoice<'_>> {
        match &self.hidden {
            Some(hidden) if self.force_hidden => Some(ToolChoice::Tool {
                name: &hidden.name,
                disable_parallel_tool_use: true,
            }),
            _ if !request.tools_enabled && !request.tools.is_empty() => Some(ToolChoice::None),
            _ => None,
        }
    }

    fn output_config<'a>(&self, request: &'a ModelRequest) -> Option<OutputConfig<'a>> {
        let format = request
            .output_schema
            .as_deref()
            .filter(|_| self.native_schema)
            .map(|output| OutputFormat::JsonSchema {
                schema: &output.schema,
            });
        (self.effort.is_some() || format.is_some()).then_some(OutputConfig {
            effort: self.effort,
            format,
        })
    }
}

/// Whether the run asked for thinking.
fn shows_thinking(request: &ModelRequest) -> bool {
    request.reasoning_level.is_some_and(|level| level > 0)
}

fn thinking(
    dialect: &Dialect,
    model: &str,
    max_tokens: u64,
    request: &ModelRequest,
) -> (Option<Thinking>, Option<&'static str>) {
    let Some(level) = request.reasoning_level.filter(|level| *level > 0) else {
        let (thinking, _) = off(dialect);
        // A model that always thinks can at least be asked to think little.
        let short = request.reasoning_level == Some(0) && dialect.off == ThinkingOff::Never;
        return (thinking, short.then_some("low"));
    };
    match dialect.thinking {
        ThinkingMode::Unknown => (None, None),
        ThinkingMode::Adaptive => {
            let thinking = Thinking::Adaptive {
                display: Display::Summarized,
            };
            (Some(thinking), Some(effort_of_level(level)))
        }
        // The API rejects thinking after a turn with tool calls whose thinking is missing.
        ThinkingMode::Budget if history::continues_without_thinking(request, model) => (None, None),
        ThinkingMode::Budget => (
            budget(level, max_tokens).map(|budget_tokens| Thinking::Enabled { budget_tokens }),
            None,
        ),
    }
}

fn off(dialect: &Dialect) -> (Option<Thinking>, Option<&'static str>) {
    let thinking = match dialect.off {
        ThinkingOff::Omit | ThinkingOff::Never => None,
        ThinkingOff::Disabled => Some(Thinking::Disabled),
        ThinkingOff::BetweenTools => Some(Thinking::BetweenTools),
    };
    (thinking, None)
}

/// The API's minimum up to `low`, 8,000 tokens at `high`, linear between and on the same line above; always less than
/// `max_tokens`. `None` if `max_tokens` leaves no room for the minimum.
fn budget(level: u8, max_tokens: u64) -> Option<u64> {
    let above_low = u64::from(level.saturating_sub(LOW));
    let scaled = MIN_BUDGET + (HIGH_BUDGET - MIN_BUDGET) * above_low / u64::from(HIGH - LOW);
    (max_tokens > MIN_BUDGET).then(|| scaled.clamp(MIN_BUDGET, max_tokens - 1))
}

/// The visible tools in their order, then the hidden one. The last one has the cache breakpoint.
fn declarations<'a>(
    declared: &'a [ToolDeclaration],
    hidden: Option<&'a HiddenTool>,
) -> Vec<Tool<'a>> {
    let mut tools: Vec<Tool<'a>> = declared
        .iter()
        .map(|tool| Tool {
            name: &tool.name,
            description: tools::description(tool),
            input_schema: &tool.parameters,
            cache_control: None,
        })
        .collect();
    tools.extend(hidden.map(|hidden| Tool {
        name: &hidden.name,
        description: HIDDEN_DESCRIPTION.into(),
        input_schema: &hidden.parameters,
        cache_control: None,
    }));
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(CacheControl::Ephemeral);
    }
    tools
}

fn system(system: &str, leading: &[&str], hidden: Option<&HiddenTool>) -> Option<[System; 1]> {
    let mut lines: Vec<String> = std::iter::once(system)
        .chain(leading.iter().copied())
        .filter(|text| !text.trim().is_empty())
        .map(str::to_owned)
        .collect();
    lines.extend(hidden.map(|hidden| {
        format!(
            "When you have the final answer, call the tool `{}` with it instead of writing it as text.",
            hidden.name
        )
    }));
    (!lines.is_empty()).then(|| {
        [System {
            text: lines.join("\n\n"),
            cache_control: CacheControl::Ephemeral,
        }]
    })
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;

//! The request of the Messages API, as a pure function.

use runloom_ports::model::{ModelError, ModelRequest, ToolDeclaration};
use runloom_protocol::outcome::{StructuredOutput, effort_of_level};

use super::dialect::{Dialect, ThinkingMode, ThinkingOff};
use super::history::{self, History};
use super::wire::{
    CacheControl, Display, Head, OutputConfig, OutputFormat, System, Thinking, Tool, ToolChoice,
};
use crate::conversation::instructions;
use crate::list_body::ListBody;
use crate::payload::Payload;
use crate::settings::ModelSettings;
use crate::structured::{self, HiddenTool};
use crate::{tools, turns};

/// Name of the hidden tool.
pub(crate) const HIDDEN_TOOL: &str = "final_report";

/// What the model is told of the hidden tool.
const HIDDEN_DESCRIPTION: &str = "Delivers the final answer. Call it exactly once, when the work is done; its input is \
                                  the whole answer and nothing is read beside it.";

/// The API's own minimum of a thinking budget.
const MIN_BUDGET: u64 = 1_024;

/// Where a request goes: what is in the path or the headers on one road is in the body on the other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Road<'a> {
    /// Anthropic's own API: the model is in the body.
    Direct {
        /// Vendor's name of the model.
        model: &'a str,
    },
    /// Bedrock: the version is in the body, the model in the path.
    Bedrock {
        /// Vendor's name of the model.
        model: &'a str,
        /// `anthropic_version`.
        version: &'a str,
    },
}

impl<'a> Road<'a> {
    /// Vendor's name of the model.
    pub(crate) fn model(self) -> &'a str {
        match self {
            Self::Direct { model } | Self::Bedrock { model, .. } => model,
        }
    }
}

/// A request ready to be sent, and what the decoder must know of it.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The JSON body.
    pub(crate) body: Payload,
    /// What the decoder must know.
    pub(crate) expect: Expect,
}

/// What the decoder must know of the request.
#[derive(Debug, Clone)]
pub(crate) struct Expect {
    /// Vendor's name of the model, the owner of its thinking.
    pub(crate) model: String,
    /// The run asked for thinking to be shown.
    pub(crate) show_thinking: bool,
    /// The hidden tool, when it was offered.
    pub(crate) hidden: Option<HiddenTool>,
    /// What became of the schema when the hidden tool is not called.
    pub(crate) structured: StructuredOutput,
}

impl Encoded {
    /// The request is a second try without the schema.
    pub(crate) fn fallen_back(mut self) -> Self {
        self.expect.structured = structured::FELL_BACK;
        self
    }
}

/// The request as this model's settings want it.
pub(crate) fn for_model(mut request: ModelRequest, model: &ModelSettings) -> ModelRequest {
    request.max_output_tokens = request.max_output_tokens.or(model.max_output_tokens);
    if model.reasoning == Some(false) {
        request.reasoning_level = None;
    }
    request
}

/// Writes the request.
pub(crate) fn encode(road: Road<'_>, request: &ModelRequest) -> Result<Encoded, ModelError> {
    let dialect = Dialect::of(road.model());
    let plan = Plan::of(&dialect, road.model(), request);
    let instructions = instructions(&request.messages);
    let history = History {
        model: road.model(),
        replay_thinking: plan.replay_thinking,
    };
    let (version, model, stream) = match road {
        Road::Direct { model } => (None, Some(model), Some(true)),
        Road::Bedrock { version, .. } => (Some(version), None, None),
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
    let mut body = ListBody::open(&head, "messages")?;
    turns::write(
        &mut body,
        &request.messages,
        instructions.len(),
        &history.format(),
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
        expect: Expect {
            model: road.model().to_owned(),
            show_thinking: asked(request),
            hidden: plan.hidden,
            structured,
        },
    })
}

/// What is decided before anything is written.
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
            // A forced tool and thinking exclude each other; the answer is what the turn is for.
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

/// The run wants to see thinking.
fn asked(request: &ModelRequest) -> bool {
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
        // A model that cannot be told to stop thinking can at least be told to keep it short.
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
        // The API refuses a thinking turn that continues a tool turn without its thinking.
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

/// 512 tokens at level 1, 8,000 at level 100, in a straight line; then the API's minimum, and below the whole output.
/// `None` when the output has no room for the minimum.
fn budget(level: u8, max_tokens: u64) -> Option<u64> {
    let level = u64::from(level.clamp(1, 100));
    let scaled = 512 + (8_000 - 512) * (level - 1) / 99;
    (max_tokens > MIN_BUDGET).then(|| scaled.clamp(MIN_BUDGET, max_tokens - 1))
}

/// The visible tools in their order, then the hidden one; the last one carries the cache breakpoint.
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

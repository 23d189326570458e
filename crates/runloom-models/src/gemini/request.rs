//! Encoder of `streamGenerateContent`.

use runloom_ports::model::{ModelError, ModelRequest, ToolDeclaration};
use runloom_protocol::outcome::StructuredOutput;

use super::dialect::{Dialect, Levels, ThinkingMode};
use super::history::History;
use super::wire::{
    CallingConfig, Declaration, GenerationConfig, Head, Instruction, Part, Tail, ThinkingConfig,
    ToolConfig, Tools,
};
use crate::alternating_roles;
use crate::codec::DecoderOptions;
use crate::conversation::instructions;
use crate::payload::Payload;
use crate::request_body::RequestBody;
use crate::settings::ModelSettings;
use crate::structured::{self, HiddenTool};

/// Name of the hidden function.
const HIDDEN_TOOL: &str = "set_model_response";

/// Description of the hidden function, for the model.
const HIDDEN_DESCRIPTION: &str = "Delivers the final answer. Call it exactly once, when the work is done; its \
                                  arguments are the whole answer and nothing is read beside it.";

/// An encoded request, and what the decoder needs to know about it.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The JSON body.
    pub(crate) body: Payload,
    /// For the decoder.
    pub(crate) info: RequestInfo,
}

impl Encoded {
    /// Marks the request as a retry without the rejected schema.
    pub(crate) fn without_schema(mut self) -> Self {
        self.info.structured = structured::SCHEMA_REJECTED;
        self
    }
}

/// The request, as far as the decoder depends on it.
#[derive(Debug, Clone)]
pub(crate) struct RequestInfo {
    /// The vendor's name of the model, which owns its signatures.
    pub(crate) model: String,
    /// Whether the run asked for thinking to be shown.
    pub(crate) show_thinking: bool,
    /// The hidden function, if it was offered.
    pub(crate) hidden: Option<HiddenTool>,
    /// Outcome of the output schema if the hidden function is not called.
    pub(crate) structured: StructuredOutput,
    /// Number of messages before this turn: part of the ids of calls that come without one.
    pub(crate) turn: usize,
}

impl RequestInfo {
    /// A request for tests of the decoder.
    pub(crate) fn for_test(options: DecoderOptions) -> Self {
        Self {
            model: "test".to_owned(),
            show_thinking: options.show_thinking,
            hidden: options.hidden_tool(HIDDEN_TOOL),
            structured: structured::NOT_CALLED,
            turn: 1,
        }
    }
}

/// Encodes a request.
pub(crate) fn encode(
    settings: &ModelSettings,
    request: &ModelRequest,
) -> Result<Encoded, ModelError> {
    let model = settings.vendor_model_id.as_str();
    let dialect = Dialect::of(model);
    let reasons = settings.reasoning != Some(false);
    let schema = request.output_schema.as_deref();
    let hidden = schema
        .filter(|_| !dialect.schema_with_tools && !request.tools.is_empty())
        .map(|schema| HiddenTool::new(HIDDEN_TOOL, schema, &request.tools));
    let native = schema.filter(|_| hidden.is_none());
    let instructions = instructions(&request.messages);
    let head = Head {
        system_instruction: instruction(&request.system, &instructions, hidden.as_ref()),
        tools: tools(&request.tools, hidden.as_ref()),
        tool_config: calling(request, hidden.as_ref()).map(|function_calling_config| ToolConfig {
            function_calling_config,
        }),
    };
    let tail = Tail {
        generation_config: GenerationConfig {
            max_output_tokens: request.max_output_tokens.or(settings.max_output_tokens),
            thinking_config: thinking(dialect.thinking, request.reasoning_level)
                .filter(|_| reasons),
            response_mime_type: native.map(|_| "application/json"),
            response_json_schema: native.map(|output| &output.schema),
        },
    };
    let mut body = RequestBody::open(&head, "contents")?;
    let history = History::new(model, dialect.wants_signatures);
    alternating_roles::write(
        &mut body,
        &request.messages,
        instructions.len(),
        &history.cache_key(),
        history,
    )?;
    let structured = match (native, &hidden) {
        (Some(_), _) => structured::NATIVE,
        (None, Some(_)) => structured::NOT_CALLED,
        (None, None) => StructuredOutput::default(),
    };
    Ok(Encoded {
        body: body.close(&tail)?,
        info: RequestInfo {
            model: model.to_owned(),
            show_thinking: reasons && request.reasoning_level.is_some_and(|level| level > 0),
            hidden,
            structured,
            turn: request.messages.len(),
        },
    })
}

fn instruction<'a>(
    system: &'a str,
    leading: &[&'a str],
    hidden: Option<&HiddenTool>,
) -> Option<Instruction<'a>> {
    let mut parts: Vec<Part<'a>> = std::iter::once(system)
        .chain(leading.iter().copied())
        .filter(|text| !text.trim().is_empty())
        .map(|text| Part::Text { text: text.into() })
        .collect();
    parts.extend(hidden.map(|hidden| Part::Text {
        text: format!(
            "When you have the final answer, call the function `{}` with it instead of writing it as text.",
            hidden.name
        )
        .into(),
    }));
    (!parts.is_empty()).then_some(Instruction { parts })
}

fn tools<'a>(declared: &'a [ToolDeclaration], hidden: Option<&'a HiddenTool>) -> Vec<Tools<'a>> {
    let hidden = hidden.map(|hidden| Declaration {
        name: &hidden.name,
        description: HIDDEN_DESCRIPTION,
        parameters_json_schema: &hidden.parameters,
        response_json_schema: None,
    });
    let function_declarations: Vec<Declaration<'a>> = declared
        .iter()
        .map(|tool| Declaration {
            name: &tool.name,
            description: &tool.description,
            parameters_json_schema: &tool.parameters,
            response_json_schema: tool.output_schema.as_ref(),
        })
        .chain(hidden)
        .collect();
    if function_declarations.is_empty() {
        return Vec::new();
    }
    vec![Tools {
        function_declarations,
    }]
}

fn calling<'a>(
    request: &ModelRequest,
    hidden: Option<&'a HiddenTool>,
) -> Option<CallingConfig<'a>> {
    match hidden {
        Some(hidden) if request.force_output || !request.tools_enabled => {
            Some(CallingConfig::Any {
                allowed: [&hidden.name],
            })
        }
        _ if !request.tools_enabled && !request.tools.is_empty() => Some(CallingConfig::None),
        _ => None,
    }
}

/// A level from version 3 on, a budget before: the least that the model accepts if thinking was not requested.
fn thinking(mode: ThinkingMode, level: Option<u8>) -> Option<ThinkingConfig> {
    let requested = level.filter(|level| *level > 0);
    let config = ThinkingConfig {
        include_thoughts: requested.is_some(),
        thinking_level: None,
        thinking_budget: None,
    };
    match mode {
        ThinkingMode::Unknown => None,
        ThinkingMode::Level(levels) => level.map(|level| ThinkingConfig {
            thinking_level: Some(level_name(levels, level)),
            ..config
        }),
        ThinkingMode::Budget { least } => Some(ThinkingConfig {
            thinking_budget: Some(requested.map_or(0, budget).max(least)),
            ..config
        }),
    }
}

fn level_name(levels: Levels, level: u8) -> &'static str {
    match (level, levels) {
        (0, Levels::FromMinimal) => "MINIMAL",
        (0..=35, _) => "LOW",
        (36..=65, Levels::FromLow | Levels::FromMinimal) => "MEDIUM",
        _ => "HIGH",
    }
}

/// Linear from 512 tokens at level 1 to 24,576 at level 100, which every model with a budget accepts.
fn budget(level: u8) -> u64 {
    512 + (24_576 - 512) * (u64::from(level.clamp(1, 100)) - 1) / 99
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;

//! The request of `streamGenerateContent`, as a pure function.

use runloom_ports::model::{ModelError, ModelRequest, ToolDeclaration};
use runloom_protocol::outcome::StructuredOutput;

use super::dialect::{Dialect, Levels, ThinkingMode};
use super::history::History;
use super::wire::{
    CallingConfig, Declaration, GenerationConfig, Head, Instruction, Part, Tail, ThinkingConfig,
    ToolConfig, Tools,
};
use crate::conversation::instructions;
use crate::list_body::ListBody;
use crate::payload::Payload;
use crate::settings::ModelSettings;
use crate::structured::{self, HiddenTool};
use crate::turns;

/// Name of the hidden function.
pub(crate) const HIDDEN_TOOL: &str = "set_model_response";

/// What the model is told of the hidden function.
const HIDDEN_DESCRIPTION: &str = "Delivers the final answer. Call it exactly once, when the work is done; its \
                                  arguments are the whole answer and nothing is read beside it.";

/// A request ready to be sent, and what the decoder must know of it.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// The JSON body.
    pub(crate) body: Payload,
    /// What the decoder must know.
    pub(crate) expect: Expect,
}

impl Encoded {
    /// The request is a second try without the schema.
    pub(crate) fn fallen_back(mut self) -> Self {
        self.expect.structured = structured::FELL_BACK;
        self
    }
}

/// What the decoder must know of the request.
#[derive(Debug, Clone)]
pub(crate) struct Expect {
    /// Vendor's name of the model, the owner of its signatures.
    pub(crate) model: String,
    /// The run asked for thinking to be shown.
    pub(crate) show_thinking: bool,
    /// The hidden function, when it was offered.
    pub(crate) hidden: Option<HiddenTool>,
    /// What became of the schema when the hidden function is not called.
    pub(crate) structured: StructuredOutput,
    /// Makes the ids of calls that come without one unlike those of earlier turns.
    pub(crate) turn: usize,
}

/// Writes the request.
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
    let mut body = ListBody::open(&head, "contents")?;
    let history = History::new(model, dialect.wants_signatures);
    turns::write(
        &mut body,
        &request.messages,
        instructions.len(),
        &history.format(),
        history,
    )?;
    let structured = match (native, &hidden) {
        (Some(_), _) => structured::NATIVE,
        (None, Some(_)) => structured::NOT_CALLED,
        (None, None) => StructuredOutput::default(),
    };
    Ok(Encoded {
        body: body.close(&tail)?,
        expect: Expect {
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

/// Levels from 3 on, a budget before: 0 when thinking was not asked for, or the least that the model accepts.
fn thinking(mode: ThinkingMode, level: Option<u8>) -> Option<ThinkingConfig> {
    let asked = level.filter(|level| *level > 0);
    let config = ThinkingConfig {
        include_thoughts: asked.is_some(),
        thinking_level: None,
        thinking_budget: None,
    };
    match mode {
        ThinkingMode::Unknown => None,
        ThinkingMode::Level(levels) => level.map(|level| ThinkingConfig {
            thinking_level: Some(level_word(levels, level)),
            ..config
        }),
        ThinkingMode::Budget { least } => Some(ThinkingConfig {
            thinking_budget: Some(asked.map_or(0, budget).max(least)),
            ..config
        }),
    }
}

fn level_word(levels: Levels, level: u8) -> &'static str {
    match (level, levels) {
        (0, Levels::FromMinimal) => "MINIMAL",
        (0..=35, _) => "LOW",
        (36..=65, Levels::FromLow | Levels::FromMinimal) => "MEDIUM",
        _ => "HIGH",
    }
}

/// 512 tokens at level 1, 24,576 (the most that every model with a budget accepts) at level 100, in a straight line.
fn budget(level: u8) -> u64 {
    512 + (24_576 - 512) * (u64::from(level.clamp(1, 100)) - 1) / 99
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;

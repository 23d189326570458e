//! Delegates: other agents whose runs the server starts.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{ToolRef, read_ref};
use crate::budgets::{self, Budgets};
use crate::check::documents::description;
use crate::check::names::{Names, Namespace};
use crate::check::reasoning_level::reasoning_level;
use crate::check::reference::{agent_id, model_id};
use crate::check::unknown::UnknownFields;
use crate::id::AgentId;
use crate::limits;
use crate::policy::{self, Policy};
use crate::read::Fields;

/// Another agent, whose runs the server starts. Its tools come from exactly one of `toolset`, `tools` and `agentId`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DelegateRef {
    /// The model-facing name, `^[a-zA-Z0-9_]{1,64}$`.
    pub name: String,
    /// The description for the model. Absent means a sentence with the name, and the description of the toolset or the
    /// agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The slug or the id of a toolset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
    /// The toolset's names of the tools that the agent can call; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_filter: Option<Vec<String>>,
    /// The tools that the agent can call; the server executes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ToolRef>>,
    /// A stored agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The agent's system prompt; not with `agentId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The agent's model. Absent means that of the stored agent, or of the calling run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// How much the agent reasons. Absent means as the stored agent, or as the calling run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::check::reasoning_level::ReasoningLevel")
    )]
    pub reasoning_level: Option<u8>,
    /// How many levels of runs may be below the agent's runs. Absent means what is left of the calling run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u8>,
    /// The child's policy. `None`: the parent's policies; `Some(None)` (`null` on the wire): none; otherwise this one
    /// alone.
    #[serde(
        default,
        deserialize_with = "given_policy",
        skip_serializing_if = "Option::is_none"
    )]
    pub policy: Option<Option<Policy>>,
    /// Limits of the child.
    #[serde(default, skip_serializing_if = "Budgets::is_empty")]
    pub budgets: Budgets,
}

/// Where the child's tools come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DelegateSource<'d> {
    /// The tools of a toolset.
    Toolset {
        /// Slug or id.
        name: &'d str,
        /// The toolset's own names; `None` = all.
        filter: Option<&'d Vec<String>>,
    },
    /// These refs.
    Tools(&'d [ToolRef]),
    /// A persisted agent.
    Agent(&'d AgentId),
}

impl DelegateRef {
    /// Where the child's tools come from.
    #[must_use]
    pub fn source(&self) -> DelegateSource<'_> {
        if let Some(id) = &self.agent_id {
            return DelegateSource::Agent(id);
        }
        match &self.toolset {
            Some(name) => DelegateSource::Toolset {
                name,
                filter: self.tool_filter.as_ref(),
            },
            None => DelegateSource::Tools(self.tools.as_deref().unwrap_or_default()),
        }
    }

    /// `level`: 1 for a delegate of the spec itself.
    pub(super) fn read<'v>(
        fields: &Fields<'v, '_>,
        names: &mut Names<'v>,
        level: usize,
    ) -> Option<Self> {
        if level > limits::DELEGATE_LEVELS_MAX {
            let message = format!(
                "a spec may have {} levels of delegates",
                limits::DELEGATE_LEVELS_MAX
            );
            fields.refuse("kind", message);
            return None;
        }
        let name = names.claim_name(fields, Namespace::ModelFacing);
        let agent_id = agent_id(fields);
        check_sources(fields);
        let toolset = fields.text("toolset", limits::REFERENCE_MAX_CHARS);
        let (max, max_chars) = (limits::TOOL_FILTER_MAX, limits::REFERENCE_MAX_CHARS);
        let tool_filter = fields.strings("toolFilter", max, max_chars);
        if tool_filter.is_some() && !fields.has("toolset") {
            fields.refuse("toolFilter", "is allowed beside `toolset` only");
        }
        let instructions = fields.text("instructions", limits::MESSAGE_MAX_CHARS);
        if instructions.is_some() && fields.has("agentId") {
            let message = "is not allowed beside `agentId`: the agent has its own";
            fields.refuse("instructions", message);
        }
        Some(Self {
            description: description(fields),
            toolset: toolset.map(str::to_owned),
            tool_filter,
            tools: inner_tools(fields, level),
            agent_id,
            instructions: instructions
                .filter(|text| !text.trim().is_empty())
                .map(str::to_owned),
            model_id: model_id(fields, "modelId"),
            reasoning_level: reasoning_level(fields),
            max_depth: fields.integer("maxDepth", 0..=limits::MAX_DEPTH_MAX),
            policy: policy_setting(fields),
            budgets: budgets::read(fields, UnknownFields::Ignored),
            name: name?,
        })
    }
}

/// `null` is a value here: no policy.
fn policy_setting(fields: &Fields<'_, '_>) -> Option<Option<Policy>> {
    let own = policy::read(fields);
    let is_null = fields.object().get("policy").is_some_and(Value::is_null);
    if is_null { Some(None) } else { own.map(Some) }
}

fn given_policy<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<Policy>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn check_sources(fields: &Fields<'_, '_>) {
    let sources = ["toolset", "tools", "agentId"];
    let given = sources.into_iter().filter(|key| fields.has(key)).count();
    if given != 1 {
        let message =
            format!("must have exactly one of `toolset`, `tools` and `agentId`, got {given}");
        fields.refuse_all(message);
    }
}

/// The refs of the child. No client would answer the calls of client-executed ones.
fn inner_tools(fields: &Fields<'_, '_>, level: usize) -> Option<Vec<ToolRef>> {
    let mut names = Names::default();
    fields.list("tools", limits::TOOLS_MAX, |node| {
        let inner = node.fields()?;
        let tool = read_ref(node, &mut names, level)?;
        if tool.client_tool().is_some() {
            let kind = tool.kind().as_str();
            let message = format!(
                "`{kind}` is executed by the client, which does not see the calls of a delegate; use a tool that the server executes"
            );
            inner.refuse("kind", message);
            return None;
        }
        Some(tool)
    })
}

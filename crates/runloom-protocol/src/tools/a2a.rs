//! Remote agents that speak A2A: called by the server or by the client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Object;
use crate::check::documents::{description, object_document};
use crate::check::names::{Names, Namespace};
use crate::check::web;
use crate::limits;
use crate::read::Fields;

/// A remote agent that the server calls over A2A.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct A2aTool {
    /// The model-facing name, `^[a-zA-Z0-9_]{1,64}$`.
    pub name: String,
    /// The URL of the agent card or of the JSON-RPC endpoint.
    pub agent_card_url: String,
    /// Headers of every request; the values are secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The A2A context to continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl A2aTool {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let name = names.claim_name(fields, Namespace::ModelFacing);
        let agent_card_url = web::required_url(fields, "agentCardUrl");
        let headers = web::headers(fields);
        let context_id = fields.text("contextId", limits::CONTEXT_ID_MAX_CHARS);
        let description = description(fields);
        Some(Self {
            name: name?,
            agent_card_url: agent_card_url?,
            headers,
            context_id: context_id.filter(|id| !id.is_empty()).map(str::to_owned),
            description,
        })
    }
}

/// A remote agent that the client calls over A2A.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct A2aLocalTool {
    /// The model-facing name, `^[a-zA-Z0-9_]{1,64}$`.
    pub name: String,
    /// The agent card of the remote agent, repeated in `local_tool_call`.
    pub agent_card: Object,
    /// The description for the model; replaces the one made from the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

impl A2aLocalTool {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let name = names.claim_name(fields, Namespace::ModelFacing);
        let description = description(fields);
        let _ = fields.require("agentCard")?;
        let agent_card = object_document(fields, "agentCard");
        Some(Self {
            name: name?,
            agent_card: agent_card?,
            description,
        })
    }
}

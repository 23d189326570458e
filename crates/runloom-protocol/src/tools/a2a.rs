//! Remote agents that speak A2A: called by the server or by the client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Object;
use crate::check::documents::{description, object_document};
use crate::check::names::{Names, Namespace};
use crate::check::web;
use crate::limits;
use crate::read::Fields;

/// `kind: "a2a"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aTool {
    /// Model-facing name.
    pub name: String,
    /// Card URL or JSON-RPC root.
    pub agent_card_url: String,
    /// Sent with each request; secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Continues a remote conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// What the model is told about it.
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

/// `kind: "a2a_local"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aLocalTool {
    /// Model-facing name.
    pub name: String,
    /// The remote agent's card, whole, echoed unchanged on every call.
    pub agent_card: Object,
    /// Replaces the description made from the card.
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

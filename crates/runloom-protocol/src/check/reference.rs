//! Models and agents that a spec refers to.

use crate::id::AgentId;
use crate::limits;
use crate::read::{Excerpt, Fields};

/// A model in any form of the catalog, unless the text is empty.
pub(crate) fn model_id(fields: &Fields<'_, '_>, key: &'static str) -> Option<String> {
    fields
        .text(key, limits::REFERENCE_MAX_CHARS)
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
}

/// `agentId`.
pub(crate) fn agent_id(fields: &Fields<'_, '_>) -> Option<AgentId> {
    let node = fields.get("agentId")?;
    let text = node.string()?;
    let id = AgentId::parse(text);
    if id.is_none() {
        let wanted = "expected `agent_` and 1 to 64 of [A-Za-z0-9_-]";
        node.refuse(format_args!("{wanted}, got `{}`", Excerpt(text)));
    }
    id
}

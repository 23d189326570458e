//! Functions of the client.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::documents::{description, document};
use crate::check::names::{Names, Namespace};
use crate::read::Fields;

/// `kind: "local"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalTool {
    /// Model-facing name.
    pub name: String,
    /// What the model is told about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// JSON Schema of the output, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Adds the long-running note to the description.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long_running: bool,
    /// Calls of one turn may be published at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Results are replayed on later turns of the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retain: bool,
}

impl LocalTool {
    pub(super) fn read<'v>(fields: &Fields<'v, '_>, names: &mut Names<'v>) -> Option<Self> {
        let name = names.claim_name(fields, Namespace::ModelFacing);
        let tool = Self {
            name: String::new(),
            description: description(fields),
            parameters: document(fields, "parameters"),
            output_schema: document(fields, "outputSchema"),
            long_running: fields.flag("longRunning"),
            read_only: fields.flag("readOnly"),
            retain: fields.flag("retain"),
        };
        Some(Self {
            name: name?,
            ..tool
        })
    }
}

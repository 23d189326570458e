//! Functions of the client.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::documents::{description, document};
use crate::check::names::{Names, Namespace};
use crate::read::Fields;

/// A function that the client executes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LocalTool {
    /// The model-facing name, `^[a-zA-Z0-9_]{1,64}$`.
    pub name: String,
    /// The description for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// The JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Whether the model is told that a call may take long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long_running: bool,
    /// Whether several calls of one turn may be executed at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// Whether later runs of the session see the results.
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

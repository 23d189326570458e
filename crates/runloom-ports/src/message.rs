//! Messages of a conversation, in no vendor's shape.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::file::File;

/// A message of a conversation, independent of vendors. Texts are shared, because a history is cloned with every run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// Instructions in the middle of a conversation.
    System {
        /// The text.
        text: Arc<str>,
    },
    /// The person, or the server in the person's place (nudges).
    User {
        /// The text.
        text: Arc<str>,
    },
    /// The person with files, or the server with those that the tools before it brought.
    UserFiles {
        /// The text; may be empty.
        text: Arc<str>,
        /// At least one.
        files: Arc<[File]>,
    },
    /// The model.
    Assistant {
        /// The text; may be empty when there are calls.
        text: Arc<str>,
        /// Its tool calls, in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<CallRequest>,
        /// The provider's own items of this turn, to be replayed verbatim to their owner and dropped for any other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<ProviderState>,
    },
    /// The result of one call.
    Tool {
        /// Which call.
        call_id: String,
        /// Model-facing name.
        name: String,
        /// The result that the model reads.
        content: String,
        /// The tool failed or was not executed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

impl Message {
    /// Number of bytes in a model call, without the framing of an API.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::System { text } | Self::User { text } => text.len(),
            Self::UserFiles { text, files } => {
                text.len() + files.iter().map(File::bytes).sum::<usize>()
            }
            Self::Assistant { text, calls, state } => {
                let calls = calls
                    .iter()
                    .map(|call| call.id.len() + call.name.len() + call.input.to_string().len());
                let items = state.as_ref().map_or(0, |state| state.items.get().len());
                text.len() + calls.sum::<usize>() + items
            }
            Self::Tool {
                call_id,
                name,
                content,
                ..
            } => call_id.len() + name.len() + content.len(),
        }
    }
}

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRequest {
    /// The provider's id of the call, or one that the adapter made when the provider has none. The driver maps it to
    /// the run's own `tu_…` id; adapters see only their own ids.
    pub id: String,
    /// Model-facing name.
    pub name: String,
    /// Arguments; `Value::Null` never occurs: no arguments are `{}`.
    pub input: Value,
}

/// A provider's private items of one turn (encrypted reasoning, signatures): opaque, tagged with their owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProviderState {
    /// The owner: provider kind and format, like `openai-responses/1`. Adapters drop items of other owners.
    pub owner: String,
    /// Which vendor model they belong to.
    pub model: String,
    /// The items, as the adapter wrote them.
    #[serde(with = "items_as_text")]
    pub items: Arc<RawValue>,
}

/// Serialises raw JSON as a string, because serde cannot read raw JSON inside an internally tagged enum.
mod items_as_text {
    use std::sync::Arc;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::value::RawValue;

    pub(super) fn serialize<S: Serializer>(
        items: &RawValue,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(items.get())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<RawValue>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let items = RawValue::from_string(text).map_err(D::Error::custom)?;
        Ok(Arc::from(items))
    }
}

impl PartialEq for ProviderState {
    fn eq(&self, other: &Self) -> bool {
        (&self.owner, &self.model, self.items.get())
            == (&other.owner, &other.model, other.items.get())
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, ProviderState};
    use serde_json::value::RawValue;
    use std::sync::Arc;

    fn state() -> ProviderState {
        let items = RawValue::from_string(r#"[{"id":"rs_1","encrypted":"a\"b"}]"#.to_owned());
        ProviderState {
            owner: "openai-responses/1".to_owned(),
            model: "gpt-5.5".to_owned(),
            items: Arc::from(items.unwrap()),
        }
    }

    #[test]
    fn provider_state_survives_serialisation() {
        let message = Message::Assistant {
            text: "so".into(),
            calls: Vec::new(),
            state: Some(state()),
        };
        let stored = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&stored).unwrap(), message);
    }
}

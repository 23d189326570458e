//! Compaction: when older turns of a conversation are replaced by a summary.

use serde::{Deserialize, Serialize};

use crate::limits;

/// Whether older turns are summarised when the conversation no longer fits the model's context window: `false`, `true`
/// for the defaults, or settings.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "super::body::Compaction"))]
pub enum Compaction {
    /// `false` on the wire.
    Off,
    /// `true`, or an object.
    On(CompactionSettings),
}

/// How a conversation is compacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CompactionSettings {
    /// The share of the context window at which older turns are summarised.
    pub at_fraction: f64,
    /// How many of the last turns are kept as they are.
    pub keep_turns: u32,
    /// The model that writes the summary; absent means the model of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// What the summary must keep, in addition to the server's own instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self {
            at_fraction: limits::COMPACTION_FRACTION_DEFAULT,
            keep_turns: limits::COMPACTION_KEEP_TURNS_DEFAULT,
            model_id: None,
            instructions: None,
        }
    }
}

/// What replaces the beginning of a session's conversation from the message that has it on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactedHistory {
    /// What the model reads instead.
    pub summary: String,
    /// How many of the last user messages before it are kept, with all that follows them.
    pub kept_user_messages: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Switch(bool),
    Settings(CompactionSettings),
}

impl Serialize for Compaction {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => Wire::Switch(false),
            Self::On(settings) => Wire::Settings(settings.clone()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Compaction {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Wire::deserialize(deserializer)? {
            Wire::Switch(false) => Self::Off,
            Wire::Switch(true) => Self::On(CompactionSettings::default()),
            Wire::Settings(settings) => Self::On(settings),
        })
    }
}

//! Trees of runs: children that a batch creates, runs that it stops, and mail that it sends.

use runloom_protocol::event::Event;
use runloom_protocol::id::RunId;
use runloom_protocol::outcome::{ModelInfo, Tokens};
use serde::{Deserialize, Serialize};

use super::{MailBody, RunNo};

/// Mail that a batch sends to another run, in the batch's transaction. Mail to a run that has ended is dropped.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingMail {
    /// The run that reads it.
    pub to: RunNo,
    /// Its content.
    pub body: MailBody,
}

/// Children that a batch creates below its run.
#[derive(Debug, Clone, PartialEq)]
pub struct SubRuns {
    /// The root of the tree.
    pub root: RunNo,
    /// Runs that the root may have below it, those that have ended included.
    pub max_below_root: u32,
    /// The children. A child whose id exists is left unchanged.
    pub new: Vec<NewSubRun>,
}

impl Default for SubRuns {
    fn default() -> Self {
        Self {
            root: RunNo(0),
            max_below_root: 0,
            new: Vec::new(),
        }
    }
}

/// A child that a batch creates. Workspace, credential, metadata, root and depth follow from the row of its parent,
/// which is the run of the batch. It is queued, and created at the time of the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSubRun {
    /// Public id; a function of the parent's id and the call.
    pub id: RunId,
    /// The parent's call that started it.
    pub tool_use_id: String,
    /// See [`super::NewRun::spec`].
    pub spec: String,
    /// See [`super::NewRun::public_spec`].
    pub public_spec: String,
    /// Name of the delegate.
    pub spec_name: String,
    /// See [`super::NewRun::agent_id`].
    pub agent_id: Option<String>,
    /// See [`super::NewRun::model_id`].
    pub model_id: String,
    /// See [`super::NewRun::input_preview`].
    pub input_preview: String,
}

/// Position of a child in its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// The run that called the delegate.
    pub parent: RunId,
    /// The call that started the child.
    pub tool_use_id: String,
    /// The run that a client started.
    pub root: RunId,
    /// 1 for a child of a root.
    pub depth: u32,
}

/// Usage of a run and all runs below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeUsage {
    /// How many runs.
    pub runs: u32,
    /// Sums of their model calls.
    pub tokens: Tokens,
    /// Model invocations.
    pub turns: u32,
    /// Money in millionths of a millionth of a dollar, when any of their models has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_pico: Option<u64>,
    /// Millionths of a dollar that count against budgets: billed, or possibly billed.
    #[serde(default)]
    pub spent_micro: u64,
}

impl TreeUsage {
    /// Adds another part of the tree.
    pub fn add(&mut self, other: &Self) {
        self.runs = self.runs.saturating_add(other.runs);
        self.tokens.add(&other.tokens);
        self.turns = self.turns.saturating_add(other.turns);
        self.cost_pico = match (self.cost_pico, other.cost_pico) {
            (None, None) => None,
            (one, two) => Some(
                one.unwrap_or_default()
                    .saturating_add(two.unwrap_or_default()),
            ),
        };
        self.spent_micro = self.spent_micro.saturating_add(other.spent_micro);
    }
}

/// The outcome of a child, sent to its parent; see [`MailBody::SubRunEnded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubRunEnded {
    /// The parent's call that started the child.
    pub tool_use_id: String,
    /// The child.
    pub run_id: RunId,
    /// How it ended.
    pub outcome: SubRunOutcome,
    /// The model that answered.
    pub model: ModelInfo,
    /// Usage of the child and all runs below it.
    pub usage: TreeUsage,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubRunOutcome {
    /// With `result`; its final text.
    Completed(String),
    /// With `error` or `cancelled`.
    Errored {
        /// For people and for the model.
        message: String,
        /// The class of the error, or `cancelled`.
        error_class: String,
    },
}

/// An event of a run below, for the log of an ancestor; see [`MailBody::Forward`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardedEvent {
    /// The event, unchanged.
    pub event: Event,
}

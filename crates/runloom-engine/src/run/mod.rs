//! The run machine: pure decisions about a run, folded from its log.
//!
//! A [`Plan`] is the constant part. [`RunState`] is folded from the [`Record`]s of the log and nothing else, so any
//! process can continue any run. [`next`] reads the state and returns the next step; the driver performs it and feeds
//! the records back. There is no async, no clock, no randomness and no I/O in this folder.
//!
//! Reading order: `plan`, `record`, `transcript` (the conversation), `state` (the fold), `step` (the decisions),
//! `guard` (loops and budgets), `gate` (policies), `approval` (a person's decisions), `money`, `fallback`,
//! `tool_files`, `retained` (results for later runs), `ending` (terminal events), `replay` (deciding a stored log
//! again).

mod approval;
mod call;
mod compaction;
mod delegation;
mod ending;
mod equal_events;
mod fallback;
mod gate;
mod guard;
mod judging;
mod money;
mod plan;
mod record;
mod refusal;
mod replay;
mod retained;
mod state;
mod step;
#[cfg(test)]
pub(crate) mod tests;
mod tool_files;
mod transcript;

pub use approval::{ApprovalAsk, Decided, approval_id, decide};
pub use compaction::{CompactStep, CompactionPlan, SummaryOutcome, compacted, compacted_history};
pub use delegation::{
    DelegateCall, EndedCall, SUB_RUNS_AT_ONCE, Stopping, TreePlace, sub_run_failed, too_many,
};
pub use ending::{Spent, cancelled, failed, failure, succeeded};
pub use fallback::fall_back;
pub use guard::signature_of;
pub use money::Bid;
pub use plan::{ModelFacts, Plan, Price, default_tool_budgets};
pub use record::{Note, OtherModelCost, PlacedNote, Record, SummaryUsage};
pub use replay::{Divergence, Replayed, recorded_plan, replay};
pub use state::{Call, CallState, RunState};
pub use step::{CallPlan, ServerCall, Step, TIMED_OUT, answer, expire, next};
pub use transcript::Transcript;

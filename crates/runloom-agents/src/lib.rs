//! Agents, toolsets, policies and approvals as a library.
#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

mod agent;
mod assembly;
mod checkpoint;
mod host;
mod memory_log;
pub mod models;
mod policy;
mod run;
mod toolset;
mod trace;

pub use agent::Agent;
pub use async_trait::async_trait;
pub use checkpoint::{ApprovalDecision, Checkpoint};
pub use models::Model;
pub use policy::{Decision, PendingAction, Policy, PolicyError, StaticPolicy};
pub use run::{Canceller, Run, RunEnd};
pub use runloom_ports::effect::Effect;
pub use runloom_protocol::approval::{ApprovalVerdict, SubDecision};
pub use runloom_protocol::event::{ApprovalRequested as PendingApproval, Event};
pub use runloom_protocol::outcome::{ErrorClass, ModelInfo, SubagentUsage, Tokens};
pub use runloom_protocol::policy::CallEffect;
pub use runloom_protocol::spec::{Budgets, OutputSchema};
pub use runloom_protocol::tools::ToolAnnotations;
pub use tokio_util::sync::CancellationToken;
pub use toolset::{
    DelegateOptions, PolicySetting, StaticToolset, Tool, ToolError, ToolInfo, ToolOutput, Toolset,
    ToolsetExt,
};
pub use trace::Trace;

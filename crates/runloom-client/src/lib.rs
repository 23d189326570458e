//! The Rust SDK for agent-runs servers.
//!
#![doc = include_str!("../README.md")]
//!
//! # Reading order
//!
//! `client` (what can be asked) and `request` (with what), `stream` (a run's events, resumed by itself), `tools`
//! (runs whose tools are closures of this process), `admin`, `error`; inside, `transport` owns timeouts and retries,
//! `sse` the framing.
//!
//! Not here: any decision about a run. The server decides; this crate asks, listens and answers.

mod admin;
mod approvals;
mod client;
mod error;
mod event;
mod oauth;
mod options;
mod request;
mod stream;
mod tools;
mod transport;

pub use admin::{AdminClient, Condition, DocumentKind};
pub use approvals::{ApprovalDecision, ApprovalFilter};
pub use client::Client;
pub use error::{Error, Result};
pub use event::RunEvent;
pub use options::{Options, RetryPolicy};
pub use request::{MessageRequest, Prompt, RunFilter, RunRequest};
pub use runloom_protocol as protocol;
pub use runloom_protocol::admin::{
    ApiKey, CreateKey, CreateOauthApp, KeyCreated, KeyUsage, OauthApp, OauthAppCreated, PutUser,
    PutWorkspace, Rotation, User, Visibility, Workspace, WorkspaceDetails,
};
pub use stream::RunStream;
pub use tools::{RunEnd, ToolHandlers, ToolOutput};

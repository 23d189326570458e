//! The use cases of the server: everything that a client or an operator can ask for, independent of transport.
//!
//! [`Services`] has one service for each group of use cases: runs, sessions, published agents, dry runs, feedback,
//! usage, health, [`registry`], [`memory`], [`tenancy`] and [`oauth`]. [`auth`] and [`rate`] check callers; `view`
//! shapes responses.

pub mod ag_ui;
mod ag_ui_settings;
mod approvals;
mod attachments;
pub mod auth;
mod backlog_limit;
mod conversations;
mod create_run;
pub mod declared_schemas;
mod delegates;
mod dispatcher;
mod dry_run;
pub mod entry_point;
pub mod error;
mod feedback;
mod fetch_limits;
pub mod files;
mod health;
mod history;
mod idempotency;
pub mod listener;
pub mod memory;
mod merged_metadata;
pub mod oauth;
mod paging;
pub mod project;
pub mod published_agents;
pub mod rate;
pub mod rate_state;
pub mod registry;
mod runs;
mod services;
mod sessions;
mod spec_resolver;
pub mod tenancy;
mod usage;
pub mod vault;
mod view;
mod visibility;

pub use ag_ui_settings::AgUiSettings;
pub use approvals::ApprovalService;
pub use backlog_limit::BacklogLimits;
pub use dry_run::DryRunService;
pub use feedback::FeedbackService;
pub use health::HealthService;
pub use history::HistoryRequest;
pub use paging::PageRequest;
pub use runloom_engine::hub::EventStream;
pub use runs::{EventPage, LogPosition, RunService};
pub use services::{ServiceParts, Services};
pub use sessions::{SessionEventsRequest, SessionService};
pub use usage::{UsageRequest, UsageService};

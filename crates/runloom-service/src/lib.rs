//! The use cases of the server: everything that a client or an operator can ask for, independent of transport.
//!
//! `runs` and `sessions` are the product; [`hosted`] publishes agents to other clients; [`registry`] keeps what workspaces
//! define and [`memory`] what they remember; [`auth`], [`rate`], [`tenancy`] and [`oauth`] control access; `view` shapes
//! responses.

mod approvals;
mod attachments;
pub mod auth;
mod backlog_limit;
mod conversations;
mod create_run;
pub mod declared_schemas;
mod dry_run;
pub mod entry_point;
pub mod error;
mod feedback;
mod fetch_limits;
pub mod files;
mod idempotency;
pub mod listener;
pub mod memory;
mod merged_metadata;
mod metrics_page;
pub mod oauth;
mod paging;
pub mod published_agents;
pub mod rate;
pub mod rate_state;
pub mod registry;
mod runs;
mod service;
mod sessions;
pub mod tenancy;
mod usage;
pub mod vault;
mod view;

pub use backlog_limit::BacklogLimits;
pub use paging::PageRequest;
pub use runloom_engine::hub::EventStream;
pub use runs::EventPage;
pub use service::{Service, ServiceParts};
pub use sessions::SessionEventsRequest;
pub use usage::UsageRequest;

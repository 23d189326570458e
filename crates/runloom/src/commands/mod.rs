//! One file per command.

pub(crate) mod admin;
pub(crate) mod approvals;
mod attach;
pub(crate) mod chat;
pub(crate) mod config_check;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod migrate;
pub(crate) mod models;
pub(crate) mod project_cli;
mod replay;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod version;

//! The pure parts of the project tool: modules, the checks of a call, its result, and `ui_schema`.
//!
//! Reading order: [`module`] (what an operator or the server offers), [`input`] (input types), [`call`] (checks 1 to
//! 5), [`skills`], [`failure`], [`output`] (checks 10 and 11, `ToolAgentOutput`), [`ui`].
//!
//! No process, file, clock or database is used here: `runloom-tools` runs the processes, `runloom-service` has the
//! data.

pub mod call;
pub mod called;
pub mod credential_text;
pub mod failure;
pub mod input;
pub mod module;
pub mod module_set;
pub mod output;
pub mod shipped;
pub mod skills;
pub mod time;
pub mod ui;

pub use call::{CheckedCall, check};
pub use called::{Called, Status};
pub use failure::{Failure, code};
pub use module::{Method, Module, ModuleProcess};
pub use module_set::{ModuleSet, OfferedModule};
pub use output::ToolAgentOutput;

/// The model-facing name of the tool.
pub const TOOL_NAME: &str = "project_cli";

/// The module whose actions read the cards; always there and always allowed.
pub const SKILLS: &str = "skills";

/// The modules that ship with the server.
pub const SHIPPED: [&str; 3] = ["calendar", "contacts", "memory"];

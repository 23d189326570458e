//! The public vocabulary of agent runs: what travels between a client and a Runloom server.
//!
//! Not here: anything that does I/O, keeps state or takes decisions. A client, the server and the command line
//! share these types and nothing else.
//!
//! Reading order: [`spec`] (what a client asks for), [`attachment`], [`tools`], [`policy`] and [`approval`];
//! [`validate`] (bytes to a checked spec, or every violation at once); [`event`] (what the log holds and the stream
//! shows) and [`outcome`] (how a run ends); [`ag_ui`] (the same for AG-UI clients); [`definition`] (what a workspace
//! keeps); [`resource`] (what GET answers) and [`admin`] (the admin API) and [`oauth`] (the OAuth API); [`error`] (how
//! a request is refused); [`limits`] (every number of the contract).

pub mod admin;
pub mod ag_ui;
pub mod approval;
pub mod attachment;
pub mod backoff;
pub mod budgets;
mod check;
pub mod definition;
pub mod error;
pub mod event;
pub mod id;
pub mod limits;
pub mod oauth;
pub mod outcome;
pub mod policy;
pub mod read;
pub mod resource;
pub mod scope;
pub mod spec;
pub mod spelling;
pub mod sse;
pub mod tools;
pub mod validate;

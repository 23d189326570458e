//! The engine: the run machine and the parts that drive it.
//!
//! [`run`] is the pure machine: a run's state is a fold of its records, and `next` decides the next step. `driver`
//! performs the steps, [`worker`] claims runs and starts drivers, [`hub`] serves live subscribers, [`planner`] turns
//! a stored spec into a plan, [`policy`] decides which calls are allowed. [`metrics`] and [`trace`] are for
//! operators. HTTP, SQL and vendor wire formats are adapters behind `runloom-ports`.

pub mod call_checks;
pub mod catalog;
pub mod catalog_builder;
pub mod derived_ids;
pub mod driver;
pub mod embedded;
pub mod hub;
pub mod live_catalog;
pub mod metrics;
pub mod monthly_budgets;
pub mod planner;
pub mod policy;
pub mod retained_history;
pub mod run;
pub mod toolbox;
pub mod trace;
pub mod worker;

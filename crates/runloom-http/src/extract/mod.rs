//! Requests to values, or a clear refusal.

mod body;
mod path;
mod query;
mod surrogates;

pub(crate) use body::{Checkable, Checked, Posted};
pub(crate) use path::Target;
pub(crate) use query::{QueryPairs, digits};

//! Extractors: they turn parts of a request into typed values, or refuse the request.

mod body;
mod form;
mod path;
mod query;
mod surrogates;

pub(crate) use body::{Checkable, Checked, Posted};
pub(crate) use form::Form;
pub(crate) use path::Target;
pub(crate) use query::{QueryPairs, digits};

//! Checks of single values that requests and definitions share.

pub(crate) mod documents;
pub(crate) mod names;
pub(crate) mod web;

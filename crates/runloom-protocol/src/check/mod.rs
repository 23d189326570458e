//! Checks of single values that requests and definitions share.

pub(crate) mod documents;
pub(crate) mod names;
pub(crate) mod reasoning_level;
pub(crate) mod reference;
pub(crate) mod unknown;
pub(crate) mod web;

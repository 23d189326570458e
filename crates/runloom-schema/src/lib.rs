//! Compiling and checking untrusted JSON Schemas within limits.
//!
//! A schema is measured before it is built (bytes, values, depth, patterns, fan-out after `$ref`), refers to nothing
//! outside itself, and is cached in compiled form. A check first counts its cost and refuses a value that would take
//! too long. `format` is an annotation here and never refuses a value.
//!
//! Reading order: [`limits`]; `graph` (which subschema applies where); `fan_out` (the maximum cost of one value);
//! `work` (the cost of one instance); `validator`; `build`; `cache`.

mod build;
mod cache;
mod error;
mod fan_out;
mod graph;
pub mod limits;
mod measure;
mod validator;
mod work;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod ordinary_tests;

pub use cache::{SchemaCache, compile_off_thread};
pub use error::{SchemaError, SchemaErrorKind};
pub use validator::{Validator, Violation};

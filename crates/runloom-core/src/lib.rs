//! The product.
pub mod catalog;
pub mod clock;
pub mod error;
pub mod ports;
pub mod service;

pub use error::{Error, Result};

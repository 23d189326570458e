//! The product.
pub mod ports;

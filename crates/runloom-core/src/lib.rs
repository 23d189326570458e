//! The product.
pub mod crash;
pub mod ports;

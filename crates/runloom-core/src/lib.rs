//! The product.
pub mod ports;
pub mod schema;
pub mod toolbox;

//! The store port.

//! The Runloom server and command line.
pub mod config;
pub mod app;

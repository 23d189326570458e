//! The Runloom server and command line.
pub mod app;
pub mod config;

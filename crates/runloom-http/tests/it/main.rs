//! The router in process: shapes, headers and order of checks. What the engine answers is tested with the whole server.

mod admin;
mod app;
mod bodies;
mod connections;
mod credentials;
mod engine;
mod openapi;
mod shapes;

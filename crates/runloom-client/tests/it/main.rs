//! The client against a server of the test's own.

mod requests;
mod server;
mod streams;
mod tools;

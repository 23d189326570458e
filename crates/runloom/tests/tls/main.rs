//! The real binary against a provider behind a real TLS terminator: Debian's nginx, which offers HTTP/1.1 and HTTP/2
//! and is reloaded, restarted and cut off while runs go on. No run may fail because of another run or because a
//! connection ended. Nothing here sleeps to wait.
//!
//! Needs `nginx` and `openssl`; `cargo xtask test --only tls` installs them.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on should stop where it is"
)]
#![allow(
    clippy::print_stderr,
    reason = "what a failing test printed says where it was"
)]

/// Modules of the e2e suite, of which only a part is used here.
macro_rules! shared {
    ($($name:ident = $path:literal;)*) => {$(
        #[path = $path]
        #[allow(dead_code, reason = "the e2e suite uses the rest")]
        mod $name;
    )*};
}

shared! {
    http = "../e2e/http.rs";
    server = "../e2e/server.rs";
    sse = "../e2e/sse.rs";
}

mod certificate;
mod nginx;
mod provider;
mod relay;
mod setup;

mod concurrency;
mod half_open;
mod isolation;
mod reloads;

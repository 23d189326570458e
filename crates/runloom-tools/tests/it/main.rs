//! Tests of the tool host against scripted peers on loopback.

mod a2a;
mod mcp;
mod outbound;
mod peers;
mod ssrf;

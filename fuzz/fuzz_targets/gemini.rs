//! See `runloom_fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| runloom_fuzz::run("gemini", bytes));

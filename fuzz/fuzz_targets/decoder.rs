//! Runs the target that `RUNLOOM_FUZZ_TARGET` names; see `runloom_fuzz`.
#![no_main]

use std::sync::OnceLock;

const SELECTED: &str = "RUNLOOM_FUZZ_TARGET";

static TARGET: OnceLock<String> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let names = runloom_fuzz::targets().join(", ");
        std::env::var(SELECTED).unwrap_or_else(|_| panic!("set {SELECTED} to one of {names}"))
    });
    runloom_fuzz::run(target, bytes);
});

//! Points at which a test can make this process die, so that recovery is tested and not believed.
//!
//! `RUNLOOM_CRASH_AT=<name>[:<nth>]` makes the process abort (no destructors, no flushing: as if it had been killed) when it
//! passes the point `<name>` for the `<nth>` time (the first without a number). A point has a stage and a kind: `after_commit`
//! is passed by every commit of the store, `after_commit.create_run` only by those that create a run. Without the variable a
//! point costs one load.
//!
//! | stage | kinds |
//! | --- | --- |
//! | `before_commit`: written, not yet durable | `create_run`, `claim`, `append`, `park`, `release`, `finish`, `tool_result`, `cancel`, and a few that no test needs |
//! | `after_commit`: durable, the caller not yet told | the same |
//! | `before_publish`, `after_publish`: durable, not yet or just shown to subscribers | – |
//! | `before_model`: about to call the model | – |
//! | `mid_stream`: a delta was taken from the model and is not yet durable | – |
//! | `turn_done`: the model has ended its turn, which is not yet durable | – |
//! | `before_tool`: the intent of a server tool's call is durable, the call has not begun | – |
//! | `tool_done`: a server tool has answered, which is not yet durable | – |
//! | `after_ask`: calls of client tools are durable and shown | – |
//! | `mail_read`: a client's answer was folded in and is not yet in the log | – |
//!
//! A stage alone is counted once for each commit of a group; a stage with a kind, once for each such job of the group.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable.
pub const VARIABLE: &str = "RUNLOOM_CRASH_AT";

static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

/// True when this process is to crash somewhere; lets a caller skip the work of naming its points.
#[must_use]
pub fn is_armed() -> bool {
    plan().is_some()
}

/// Passes the point `name`; does not return when it is the one to crash at.
pub fn point(name: &str) {
    if plan().is_some_and(|plan| plan.is_due(name, None)) {
        std::process::abort();
    }
}

/// Passes the point `stage.kind`; does not return when it is the one to crash at.
pub fn point_of(stage: &str, kind: &str) {
    if plan().is_some_and(|plan| plan.is_due(stage, Some(kind))) {
        std::process::abort();
    }
}

fn plan() -> Option<&'static Plan> {
    PLAN.get_or_init(|| Plan::parse(&std::env::var(VARIABLE).ok()?))
        .as_ref()
}

/// Where to crash, and how many passes are still free.
#[derive(Debug)]
struct Plan {
    name: String,
    nth: u64,
    passes: AtomicU64,
}

impl Plan {
    fn parse(text: &str) -> Option<Self> {
        let (name, nth) = match text.rsplit_once(':') {
            Some((name, nth)) => (name, nth.parse().ok().filter(|&nth| nth > 0)?),
            None => (text, 1),
        };
        (!name.is_empty()).then(|| Self {
            name: name.to_owned(),
            nth,
            passes: AtomicU64::new(0),
        })
    }

    fn is_due(&self, stage: &str, kind: Option<&str>) -> bool {
        let named = match (self.name.strip_prefix(stage), kind) {
            (Some(""), None) => true,
            (Some(rest), Some(kind)) => rest.strip_prefix('.') == Some(kind),
            _ => false,
        };
        named && self.passes.fetch_add(1, Ordering::Relaxed) + 1 == self.nth
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn a_stage_with_a_kind_is_met_only_by_that_kind() {
        let plan = Plan::parse("after_commit.finish").unwrap();
        assert!(!plan.is_due("after_commit", None));
        assert!(!plan.is_due("after_commit", Some("append")));
        assert!(!plan.is_due("before_commit", Some("finish")));
        assert!(plan.is_due("after_commit", Some("finish")));
    }

    #[test]
    fn only_the_nth_pass_is_due() {
        let plan = Plan::parse("before_commit:3").unwrap();
        let due: Vec<bool> = (0..4).map(|_| plan.is_due("before_commit", None)).collect();
        assert_eq!(due, [false, false, true, false]);
    }

    #[test]
    fn a_plan_without_a_name_or_with_a_bad_number_is_no_plan() {
        for text in ["", ":2", "after_commit:0", "after_commit:x"] {
            assert!(Plan::parse(text).is_none(), "{text:?}");
        }
    }
}

//! Crash points: places where a test can make this process die, to test recovery.
//!
//! `RUNLOOM_CRASH_AT=<name>[:<nth>]` aborts the process, without destructors or flushing, when it passes the point
//! `<name>` for the `<nth>` time (default: the first). A point has a stage and may have a kind: every commit of the
//! store passes `after_commit`, only one that creates a run passes `after_commit.create_run`. Only builds with debug
//! assertions have crash points; in a release the functions are empty.
//!
//! | stage | kinds |
//! | --- | --- |
//! | `before_commit`: written, not yet durable | `create_run`, `claim`, `append`, `park`, `release`, `finish`, `tool_result`, `cancel` and others |
//! | `after_commit`: durable, the caller not yet answered | the same |
//! | `before_publish`, `after_publish`: durable, not yet or just sent to subscribers | – |
//! | `before_model`: before a call to the model | – |
//! | `mid_stream`: a delta was received from the model and is not yet durable | – |
//! | `turn_done`: the model has ended its turn, which is not yet durable | – |
//! | `after_fallback`: the change to the fallback model is durable | – |
//! | `before_summary`: before a request for a summary | – |
//! | `summary_done`: a summary has arrived and is not yet durable | – |
//! | `after_summary`: a summary is durable | – |
//! | `before_tool`: the intent of a server tool's call is durable, the call has not begun | – |
//! | `tool_done`: a server tool has returned, its result is not yet durable | – |
//! | `after_ask`: calls of client tools are durable and published | – |
//! | `mail_read`: a client's tool result was folded in and is not yet in the log | – |
//!
//! A stage alone is counted once per commit of a group; a stage with a kind, once per job of that kind.

/// The environment variable.
pub const VARIABLE: &str = "RUNLOOM_CRASH_AT";

#[cfg(debug_assertions)]
pub use armed::{is_armed, point, point_of};

#[cfg(not(debug_assertions))]
pub use unarmed::{is_armed, point, point_of};

#[cfg(not(debug_assertions))]
mod unarmed {
    /// False: a release has no crash points.
    #[must_use]
    pub const fn is_armed() -> bool {
        false
    }

    /// Does nothing.
    pub const fn point(_name: &str) {}

    /// Does nothing.
    pub const fn point_of(_stage: &str, _kind: &str) {}
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::VARIABLE;

    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();

    /// Whether this process is to crash at some point; callers need not name their points otherwise.
    #[must_use]
    pub fn is_armed() -> bool {
        plan().is_some()
    }

    /// Passes the point `name`; aborts the process when it is to crash here.
    pub fn point(name: &str) {
        if plan().is_some_and(|plan| plan.is_due(name, None)) {
            std::process::abort();
        }
    }

    /// Passes the point `stage.kind`; aborts the process when it is to crash here.
    pub fn point_of(stage: &str, kind: &str) {
        if plan().is_some_and(|plan| plan.is_due(stage, Some(kind))) {
            std::process::abort();
        }
    }

    fn plan() -> Option<&'static Plan> {
        PLAN.get_or_init(|| Plan::parse(&std::env::var(VARIABLE).ok()?))
            .as_ref()
    }

    /// Where to crash, and how often the point was passed.
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
        fn a_kind_matches_only_itself() {
            let plan = Plan::parse("after_commit.finish").unwrap();
            assert!(!plan.is_due("after_commit", None));
            assert!(!plan.is_due("after_commit", Some("append")));
            assert!(!plan.is_due("before_commit", Some("finish")));
            assert!(plan.is_due("after_commit", Some("finish")));
        }

        #[test]
        fn crashes_at_the_nth_pass() {
            let plan = Plan::parse("before_commit:3").unwrap();
            let due: Vec<bool> = (0..4).map(|_| plan.is_due("before_commit", None)).collect();
            assert_eq!(due, [false, false, true, false]);
        }

        #[test]
        fn ignores_a_malformed_plan() {
            for text in ["", ":2", "after_commit:0", "after_commit:x"] {
                assert!(Plan::parse(text).is_none(), "{text:?}");
            }
        }
    }
}

//! Bugs that a test can plant, to prove that the fault suite finds them.
//!
//! `RUNLOOM_PLANT_BUG=<name>` plants one in this process. Only builds with debug assertions have them; in a release
//! the check is the constant `false`.
//!
//! | name | effect |
//! | --- | --- |
//! | `publish_first` | events are published before they are durable |
//! | `no_fence` | a worker that has lost its lease can still write (PostgreSQL) |
//! | `no_sweep` | runs with a lost queue message or a dead worker are not found again |

/// The environment variable.
pub const VARIABLE: &str = "RUNLOOM_PLANT_BUG";

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Events are shown before they are durable.
    PublishFirst,
    /// An old epoch is not refused.
    NoFence,
    /// The sweeper sleeps.
    NoSweep,
}

/// Whether this bug was planted.
#[cfg(debug_assertions)]
#[must_use]
pub fn is_planted(bug: Bug) -> bool {
    static PLANTED: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    let planted = PLANTED.get_or_init(|| {
        let planted = Bug::named(&std::env::var(VARIABLE).ok()?)?;
        tracing::warn!(bug = ?planted, "a bug was planted into this process: it is for tests and loses data");
        Some(planted)
    });
    *planted == Some(bug)
}

/// Never, in a build without debug assertions.
#[cfg(not(debug_assertions))]
#[must_use]
pub const fn is_planted(_bug: Bug) -> bool {
    false
}

#[cfg(debug_assertions)]
impl Bug {
    fn named(name: &str) -> Option<Self> {
        match name {
            "publish_first" => Some(Self::PublishFirst),
            "no_fence" => Some(Self::NoFence),
            "no_sweep" => Some(Self::NoSweep),
            _ => None,
        }
    }
}

//! Tables of the machine, by theme, and random interleavings.

mod approvals;
pub(crate) mod bench;
mod budgets;
mod calls;
mod compaction;
mod delegates;
mod endings;
mod facts;
mod fallback;
mod loops;
mod money;
mod output;
mod random;
mod replaying;
mod restarts;
mod retained;

//! The queue's contract, checked for every queue there is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says by failing what it expected"
)]

mod queue;

mod embedded {
    use std::sync::Arc;

    use runloom_core::ports::queue::Queue;
    use runloom_fabric::EmbeddedQueue;

    fn make() -> Arc<dyn Queue> {
        Arc::new(EmbeddedQueue::new())
    }

    crate::queue::contract!(make);
}

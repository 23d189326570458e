//! The queue's contract, checked for every queue that needs no service. The others have their own target, `services`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says by failing what it expected"
)]

mod announcing;
mod queue;

mod embedded {
    use std::sync::Arc;

    use runloom_fabric::EmbeddedQueue;
    use runloom_ports::queue::Queue;

    async fn with<F: Future<Output = ()>>(test: impl FnOnce(Arc<dyn Queue>) -> F) {
        test(Arc::new(EmbeddedQueue::new())).await;
    }

    crate::queue::contract!(with);
}

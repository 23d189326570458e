//! The queue contract, tested on every queue that needs no external service. The others have their own test target,
//! `services`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod announcing;
mod queue;

mod embedded {
    use std::sync::Arc;

    use runloom_fabric::EmbeddedQueue;
    use runloom_ports::queue::Queue;

    async fn with_queue<F: Future<Output = ()>>(test: impl FnOnce(Arc<dyn Queue>) -> F) {
        test(Arc::new(EmbeddedQueue::new())).await;
    }

    crate::queue::contract!(with_queue);
}

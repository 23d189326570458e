//! Spawning: every task has a name, is tracked, and ends with the shutdown of its process.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, error, info_span};

use crate::shutdown::Shutdown;

/// The tasks of one process, and the shutdown that ends them.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    /// Ends the tasks, phase by phase.
    pub shutdown: Shutdown,
}

impl Tasks {
    /// Spawns a named task. A panic is logged and ends only that task.
    pub fn spawn<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let guarded = async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                error!(task = name, "task panicked");
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where tasks are spawned"
        )]
        let handle = tokio::spawn(
            self.tracker
                .track_future(guarded.instrument(info_span!("task", name))),
        );
        drop(handle);
    }

    /// Spawns a named task that [`Tasks::ended`] does not wait for: it runs until it is interrupted.
    pub fn spawn_detached<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shutdown = self.shutdown.clone();
        let guarded = async move {
            if AssertUnwindSafe(shutdown.until_interrupted(task))
                .catch_unwind()
                .await
                .is_err()
            {
                error!(task = name, "task panicked");
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where tasks are spawned"
        )]
        let handle = tokio::spawn(guarded.instrument(info_span!("task", name)));
        drop(handle);
    }

    /// Number of live tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether no task is alive.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until all tasks have ended; call it after [`Shutdown::drain`].
    pub async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

//! The dispatcher: announces new runs, mail and cancels to the workers.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use runloom_engine::worker::{Driving, ReservedSlot, Worker};
use runloom_ports::bus::{Bus, Signal};
use runloom_ports::queue::{Job, Queue};
use runloom_ports::store::{Delivery, RunNo, WorkspaceNo};

/// The workers, as the use cases see them.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    /// The worker of this process, if it drives runs.
    pub(crate) worker: Option<Arc<Worker>>,
    /// Ends cancelled runs that no worker holds. Without it they are offered to the queue.
    pub(crate) ender: Option<Arc<Worker>>,
    pub(crate) queue: Arc<dyn Queue>,
    pub(crate) bus: Arc<dyn Bus>,
}

impl Dispatcher {
    /// Whether the worker of this process could start a run of this workspace now.
    pub(crate) fn has_room(&self, workspace: WorkspaceNo) -> bool {
        let worker = self.worker.as_ref();
        worker.is_some_and(|worker| worker.has_room(workspace))
    }

    /// A run slot of this process, if it has a free one.
    pub(crate) fn reserve(&self, workspace: WorkspaceNo) -> Option<ReservedSlot> {
        self.worker.as_ref()?.reserve(workspace)
    }

    /// Offers a run to the workers.
    pub(crate) fn offer(&self, run: RunNo, workspace: WorkspaceNo) {
        self.queue.push(Job {
            run,
            workspace: Some(workspace),
        });
    }

    /// Announces mail to the driver of its run, or offers the run to the workers.
    pub(crate) fn notify(&self, delivery: Delivery, workspace: WorkspaceNo) {
        match (&self.worker, delivery) {
            (Some(worker), delivery) => worker.notify(delivery, workspace),
            (None, Delivery::Owner(run)) => self.bus.announce(Signal::Mail(run)),
            (None, Delivery::Queue(run)) => self.offer(run, workspace),
        }
    }

    /// Announces a cancel. A run that no worker holds is ended here.
    pub(crate) fn notify_cancel(&self, delivery: Delivery, workspace: WorkspaceNo) {
        match (&self.ender, delivery) {
            (Some(ender), Delivery::Queue(run)) => ender.end(run, workspace),
            _ => self.notify(delivery, workspace),
        }
    }

    /// Performs `work` to its end even if the caller is dropped, as the request of a client that disconnects is: what
    /// was made durable must also be announced.
    pub(crate) async fn detached<T: Send + 'static>(
        &self,
        task: &'static str,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let work = async move { work.await.map(|done| (done, None)) };
        self.detached_then(task, work).await
    }

    /// The same with a run that is driven in the same task afterwards, which saves a wake-up.
    pub(crate) async fn detached_then<T: Send + 'static>(
        &self,
        task: &'static str,
        work: impl Future<Output = Result<(T, Option<Driving>)>> + Send + 'static,
    ) -> Result<T> {
        let Some(worker) = &self.worker else {
            return work.await.map(|(done, _)| done);
        };
        let (reply, answer) = oneshot::channel();
        // Boxed, so that its memory is free while the run is driven, which may take hours.
        let work = Box::pin(work);
        worker.tasks().spawn(task, async move {
            let worked = work.await;
            let (done, driving) = match worked {
                Ok((done, driving)) => (Ok(done), driving),
                Err(error) => (Err(error), None),
            };
            // The caller may be gone.
            let _ = reply.send(done);
            if let Some(driving) = driving {
                driving.await;
            }
        });
        answer
            .await
            .unwrap_or_else(|gone| Err(Error::internal(gone)))
    }
}

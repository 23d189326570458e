//! Clients that close their stream before its end.

use std::sync::Arc;
use std::time::Duration;

use runloom_ports::store::{Millis, SessionNo};
use runloom_protocol::ag_ui::OnDisconnect;
use runloom_protocol::id::RunId;
use runloom_protocol::resource::RunStatus;
use tracing::{info, warn};

use super::AgUiService;
use crate::auth::Caller;
use crate::error::{Chain, Result};

/// Reason of a cancel after the client closed the stream.
const REASON: &str = "disconnected";

/// The connection of a client that follows runs. Dropping it before [`Self::finished`] is a disconnect.
pub(crate) struct Connection {
    pub(crate) service: Arc<AgUiService>,
    pub(crate) caller: Caller,
    pub(crate) session: SessionNo,
    /// The runs that are followed.
    pub(crate) runs: Vec<RunId>,
    pub(crate) on_disconnect: OnDisconnect,
    /// When the connection followed the thread, or later.
    pub(crate) opened_at: Millis,
    pub(crate) is_finished: bool,
}

impl Connection {
    /// The server has ended the stream.
    pub(crate) fn finished(&mut self) {
        self.is_finished = true;
    }

    /// The earliest time at which another connection can have followed the thread: now, but after this connection did.
    fn first_time_of_another(&self) -> Millis {
        let now = self.service.clock.now();
        now.max(Millis(self.opened_at.0.saturating_add(1)))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let shutdown = &self.service.creation.shutdown;
        let is_disconnect = !self.is_finished && !shutdown.has_ended_streams();
        if !is_disconnect || self.on_disconnect == OnDisconnect::Continue || self.runs.is_empty() {
            return;
        }
        let dispatcher = &self.service.dispatcher;
        let worker = dispatcher.worker.as_ref().or(dispatcher.ender.as_ref());
        let Some(worker) = worker else {
            return;
        };
        let abandoned = Abandoned {
            service: Arc::clone(&self.service),
            caller: self.caller.clone(),
            session: self.session,
            runs: std::mem::take(&mut self.runs),
            since: self.first_time_of_another(),
        };
        worker
            .tasks()
            .spawn("cancel_abandoned_run", abandoned.cancel_after_grace());
    }
}

/// Runs whose client has closed the stream.
struct Abandoned {
    service: Arc<AgUiService>,
    caller: Caller,
    session: SessionNo,
    runs: Vec<RunId>,
    since: Millis,
}

impl Abandoned {
    async fn cancel_after_grace(self) {
        let grace: Duration = self.service.settings.disconnect_grace;
        let shutdown = self.service.creation.shutdown.clone();
        let waited = shutdown.until_draining(tokio::time::sleep(grace)).await;
        if waited.is_none() {
            return;
        }
        if let Err(error) = self.cancel().await {
            warn!(error = %Chain(&error), "cannot cancel a run after a disconnect");
        }
    }

    async fn cancel(&self) -> Result<()> {
        let store = &self.service.store;
        if store.followed_since(self.session, self.since).await? {
            return Ok(());
        }
        for run in &self.runs {
            let row = self.service.runs.row(&self.caller, run.as_str()).await?;
            let waits = matches!(
                row.status,
                RunStatus::WaitingTool | RunStatus::WaitingApproval
            );
            if row.status.is_terminal() || waits {
                continue;
            }
            info!(run_id = %run, "run cancelled after a disconnect");
            self.service
                .runs
                .cancel_because(&self.caller, run.as_str(), REASON)
                .await?;
        }
        Ok(())
    }
}

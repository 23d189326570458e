//! The stored form of an AG-UI run: enough to send it again from its first event.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use runloom_ports::store::{RunNo, SessionNo, Store};
use runloom_protocol::ag_ui::SnapshotMessage;
use runloom_protocol::id::RunId;
use runloom_protocol::resource::HistoryMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MESSAGES_MAX;
use crate::error::Result;
use crate::history::HistoryReader;
use crate::history::fold::Placed;

/// An AG-UI run. Stored as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AgUiRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_run_id: Option<String>,
    /// A snapshot was sent.
    pub(crate) snapshot: bool,
    /// Number of the newest run when the request came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) newest: Option<i64>,
    /// The runs that were followed, in this order.
    pub(crate) segments: Vec<Segment>,
    /// The request started the last of them.
    pub(crate) starts_run: bool,
    /// Calls that the request answered.
    pub(crate) answers: Vec<String>,
    /// Calls that were answered at that time, by any request.
    pub(crate) answered: Vec<String>,
}

/// A part of the log of a run: all that comes after an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub(crate) run: RunId,
    pub(crate) after: u64,
}

/// The messages of a thread at the time of an AG-UI run.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) session: SessionNo,
    /// Runs after this one are not shown, unless they have a cut.
    pub(crate) newest: Option<RunNo>,
    /// Of these runs, the messages that this event or an earlier one completed.
    pub(crate) cuts: HashMap<RunId, u64>,
    /// Results of these calls are shown although they come later.
    pub(crate) answers: HashSet<String>,
    /// Results that the log may not have yet, each with its run.
    pub(crate) fresh: Vec<HistoryMessage>,
    /// Messages of the request that are not stored.
    pub(crate) sent: Vec<Value>,
}

impl Snapshot {
    /// Reads the messages: those of the request first, then the thread's, at most the last 1000.
    pub(crate) async fn messages(&self, store: &Arc<dyn Store>) -> Result<Vec<SnapshotMessage>> {
        let mut reader = HistoryReader::open(Arc::clone(store), self.session).await?;
        let mut newest_first = Vec::new();
        while newest_first.len() < MESSAGES_MAX
            && let Some(run) = reader.next().await?
        {
            let cut = self.cuts.get(&run.request.run).copied();
            if cut.is_none() && self.newest.is_none_or(|newest| run.no > newest) {
                continue;
            }
            let mut messages = reader.fold(&run).await?.into_messages();
            let through = cut.unwrap_or(u64::MAX);
            messages.retain(|placed| placed.seq <= through || self.is_answer(placed));
            let mut messages: Vec<_> = messages.into_iter().map(|it| it.message).collect();
            let known: HashSet<String> = messages.iter().map(|it| it.id.clone()).collect();
            let fresh = self.fresh.iter();
            let fresh = fresh.filter(|it| it.metadata.run_id == run.request.run);
            messages.extend(fresh.filter(|it| !known.contains(&it.id)).cloned());
            newest_first.extend(messages.into_iter().rev());
        }
        newest_first.truncate(MESSAGES_MAX);
        let stored = newest_first.into_iter().rev().map(SnapshotMessage::Stored);
        let sent = self.sent.iter().cloned().map(SnapshotMessage::Sent);
        Ok(sent.chain(stored).collect())
    }

    fn is_answer(&self, placed: &Placed) -> bool {
        let call = placed.message.tool_call_id.as_ref();
        call.is_some_and(|call| self.answers.contains(call))
    }
}

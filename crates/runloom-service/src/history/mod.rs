//! The history of a session: a fold of the logs of its runs, however they ended. Runs are read newest first.

pub(crate) mod fold;

use std::collections::VecDeque;
use std::sync::Arc;

use runloom_engine::planner::ThreadRequest;
use runloom_ports::store::{HistoryRun, Millis, RunNo, SessionNo, Store};
use runloom_protocol::event::{parse_frame, split_frames};
use runloom_protocol::resource::{HistoryMessage, SessionHistory};
use runloom_protocol::spec::PromptMessage;
use serde::Deserialize;

use crate::auth::Caller;
use crate::entry_point::THREAD;
use crate::error::{Error, Result};
use crate::paging::PAGE_BYTES;
use crate::sessions::SessionService;
use fold::{RunFold, RunRequest, ToolMessageIds, run_of_message};

/// Runs that are read at once.
const RUNS_AT_ONCE: usize = 20;

/// How much of a log is read at once.
const READ_BYTES: usize = 1024 * 1024;

/// Which part of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRequest {
    /// At most this many messages.
    pub limit: usize,
    /// Only those before the message with this id.
    pub before: Option<String>,
}

impl SessionService {
    /// A page of a session's history, oldest first.
    ///
    /// # Errors
    /// When the workspace has no such session, or the session no message with the id `before`.
    pub async fn history(
        &self,
        caller: &Caller,
        id: &str,
        request: HistoryRequest,
    ) -> Result<SessionHistory> {
        let row = self.row(caller, id).await?;
        let reader = HistoryReader::open(Arc::clone(&self.store), row.no).await?;
        let page = read_page(reader, request).await?;
        Ok(SessionHistory {
            session_id: row.id,
            thread_id: row.metadata.get(THREAD).cloned(),
            messages: page.messages,
            next_before: page.next_before,
        })
    }
}

/// A page of a history.
struct HistoryPage {
    messages: Vec<HistoryMessage>,
    next_before: Option<String>,
}

async fn read_page(mut reader: HistoryReader, request: HistoryRequest) -> Result<HistoryPage> {
    let HistoryRequest { limit, mut before } = request;
    let mut newest_first: Vec<HistoryMessage> = Vec::new();
    let mut bytes = 0;
    let mut has_older = false;
    'runs: while let Some(run) = reader.next().await? {
        if let Some(wanted) = &before
            && !reader.may_contain(&run, wanted)
        {
            continue;
        }
        let mut messages = reader.fold(&run).await?.into_messages();
        if let Some(wanted) = &before {
            let place = messages
                .iter()
                .position(|placed| placed.message.id == *wanted);
            let Some(place) = place else { continue };
            messages.truncate(place);
            before = None;
        }
        for placed in messages.into_iter().rev() {
            bytes += size(&placed.message);
            let is_full = newest_first.len() >= limit || bytes > PAGE_BYTES;
            if is_full && !newest_first.is_empty() {
                has_older = true;
                break 'runs;
            }
            newest_first.push(placed.message);
        }
    }
    if before.is_some() {
        let message =
            "is not the id of a message of this session: use nextBefore of an earlier page";
        return Err(Error::invalid("before", message));
    }
    let oldest = newest_first.last().filter(|_| has_older);
    let next_before = oldest.map(|message| message.id.clone());
    newest_first.reverse();
    Ok(HistoryPage {
        messages: newest_first,
        next_before,
    })
}

/// Roughly the bytes of a message in a response.
fn size(message: &HistoryMessage) -> usize {
    let text = message.content.as_ref().map_or(0, String::len);
    let calls = message.tool_calls.iter();
    let calls: usize = calls.map(|call| call.function.arguments.len()).sum();
    // Tool metadata repeats the text.
    let metadata = if message.metadata.tool.is_empty() {
        0
    } else {
        2 * text
    };
    text + calls + metadata
}

/// A run of a session, with its request.
pub(crate) struct SessionRun {
    pub(crate) no: RunNo,
    pub(crate) ended: bool,
    pub(crate) request: RunRequest,
}

/// The part of a stored run that the history needs.
#[derive(Deserialize)]
struct StoredRequest {
    messages: Vec<PromptMessage>,
    #[serde(default)]
    thread: Option<ThreadRequest>,
}

/// Reads the runs of a session, newest first.
pub(crate) struct HistoryReader {
    store: Arc<dyn Store>,
    session: SessionNo,
    tool_message_ids: ToolMessageIds,
    found: VecDeque<HistoryRun>,
    before: Option<RunNo>,
    is_last_page: bool,
}

impl HistoryReader {
    pub(crate) async fn open(store: Arc<dyn Store>, session: SessionNo) -> Result<Self> {
        let ids = store.tool_messages(session).await?;
        let ids = ids.into_iter().map(|id| (id.tool_use_id, id.message_id));
        Ok(Self {
            tool_message_ids: Arc::new(ids.collect()),
            store,
            session,
            found: VecDeque::new(),
            before: None,
            is_last_page: false,
        })
    }

    /// The ids that clients gave to the results of calls.
    pub(crate) fn tool_message_ids(&self) -> &ToolMessageIds {
        &self.tool_message_ids
    }

    /// The next older run.
    pub(crate) async fn next(&mut self) -> Result<Option<SessionRun>> {
        if self.found.is_empty() && !self.is_last_page {
            let runs = self
                .store
                .history_runs(self.session, self.before, RUNS_AT_ONCE)
                .await?;
            self.is_last_page = runs.len() < RUNS_AT_ONCE;
            self.before = runs.last().map(|run| run.no);
            self.found = runs.into();
        }
        let Some(run) = self.found.pop_front() else {
            return Ok(None);
        };
        let stored: StoredRequest = serde_json::from_str(&run.spec).map_err(Error::internal)?;
        let thread = stored.thread;
        Ok(Some(SessionRun {
            no: run.no,
            ended: run.ended,
            request: RunRequest {
                run: run.id,
                created_at: run.created_at,
                messages: stored.messages,
                message_ids: thread.map_or_else(Vec::new, |thread| thread.message_ids),
            },
        }))
    }

    /// Folds the log of a run as far as it is written.
    pub(crate) async fn fold(&self, run: &SessionRun) -> Result<RunFold> {
        let mut fold = RunFold::new(&run.request, Arc::clone(&self.tool_message_ids));
        let mut cursor = 0;
        loop {
            let chunks = self.store.read_log(run.no, cursor, READ_BYTES).await?;
            let Some(last) = chunks.last() else {
                return Ok(fold);
            };
            let times = self.store.log_times(run.no, cursor, chunks.len()).await?;
            cursor = last.last_seq;
            for (index, chunk) in chunks.iter().enumerate() {
                let at = times
                    .get(index)
                    .map_or(run.request.created_at, |time| time.at);
                apply_frames(&mut fold, at, &chunk.frames);
            }
        }
    }

    /// Whether a run can have the message of this id: the ids of tool messages do not tell.
    fn may_contain(&self, run: &SessionRun, id: &str) -> bool {
        let is_tools = || self.tool_message_ids.values().any(|known| known == id);
        let is_own = || run.request.message_ids.iter().any(|known| known == id);
        run_of_message(id).is_some_and(|of| of == run.request.run) || is_own() || is_tools()
    }
}

/// Events of newer versions are passed over.
fn apply_frames(fold: &mut RunFold, at: Millis, frames: &[u8]) {
    for frame in split_frames(frames) {
        if let Some(Ok(read)) = parse_frame(frame) {
            fold.apply(read.seq, at, read.event);
        }
    }
}

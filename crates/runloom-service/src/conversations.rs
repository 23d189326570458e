//! Cache of conversations: the next message of a session reads only new messages from the store.
//!
//! Messages are only appended, so a cached conversation is always a correct beginning, and the store has the rest.
//! When the last run of a session ended in this process, the store is not read at all. The cache is bounded; an
//! eviction costs a read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use runloom_protocol::id::{RunId, SessionId};
use runloom_protocol::spec::PromptMessage;

use runloom_engine::driver::RunTail;
use runloom_engine::retained_history;
use runloom_engine::worker::Driving;
use runloom_ports::conversation::Conversation;
use runloom_ports::store::WorkspaceNo;

/// Most bytes that are remembered, roughly: texts, and the same texts as an API has written them.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Memory of a session beside its messages.
const SESSION_BYTES: usize = 256;

/// Time for which a cached session is assumed to exist: less than any retention of sessions.
const SURE_FOR: Duration = Duration::from_secs(3600);

/// The beginning of a conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct Remembered {
    /// As the model reads it.
    pub(super) messages: Conversation,
    /// How many messages of the session that are.
    pub(super) count: u64,
    /// Workspace and stored spec of the session.
    of: Option<(WorkspaceNo, Arc<str>)>,
    /// The model that the session stays on since a run fell back.
    pub(super) active_model: Option<Arc<str>>,
    rest: Rest,
}

/// The messages that may follow the cached ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Rest {
    /// Unknown.
    #[default]
    Unknown,
    /// Those of this run at its end, and perhaps others.
    Awaited(RunId),
    /// None since this time.
    Nothing(Instant),
}

impl Remembered {
    /// The same with newer messages.
    pub(super) fn followed_by(mut self, since: &[PromptMessage]) -> Self {
        self.count += since.len() as u64;
        self.messages.compact();
        self.messages = retained_history::continued(std::mem::take(&mut self.messages), since);
        self
    }

    /// The same with the workspace and the stored spec.
    pub(super) fn of(mut self, workspace: WorkspaceNo, spec: Arc<str>) -> Self {
        self.of = Some((workspace, spec));
        self
    }

    /// The same with the model that the session stays on.
    pub(super) fn staying_on(mut self, model: Option<String>) -> Self {
        self.active_model = model.map(Arc::from).or(self.active_model);
        self
    }

    /// The same while a run continues it.
    pub(super) fn awaiting(mut self, run: RunId) -> Self {
        self.rest = Rest::Awaited(run);
        self
    }

    /// The stored spec, if all messages of the session are cached and it cannot have been deleted meanwhile.
    pub(super) fn settled(&self, now: Instant) -> Option<Arc<str>> {
        let (_, spec) = self.of.as_ref()?;
        match self.rest {
            Rest::Nothing(since) if now.duration_since(since) < SURE_FOR => Some(Arc::clone(spec)),
            _ => None,
        }
    }

    fn is_of(&self, workspace: WorkspaceNo) -> bool {
        self.of.as_ref().is_none_or(|(of, _)| *of == workspace)
    }

    fn bytes(&self) -> usize {
        let spec = self.of.as_ref().map_or(0, |(_, spec)| spec.len());
        SESSION_BYTES + spec + self.messages.memory()
    }
}

/// The conversations of this process in two generations: when the younger is full it becomes the older, and the
/// previous older one is dropped.
#[derive(Debug)]
pub(super) struct Conversations {
    generations: Mutex<Generations>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<SessionId, Kept>,
    young_bytes: usize,
    old: HashMap<SessionId, Kept>,
}

/// A conversation and its memory when it was cached.
#[derive(Debug)]
struct Kept {
    conversation: Remembered,
    bytes: usize,
}

impl Default for Conversations {
    fn default() -> Self {
        Self::with_room(MAX_BYTES)
    }
}

impl Conversations {
    fn with_room(max_bytes: usize) -> Self {
        Self {
            generations: Mutex::default(),
            max_bytes,
        }
    }

    /// Takes the cached conversation of a session of this workspace. The caller puts it back with newer messages, so
    /// that nothing is copied.
    pub(super) fn take(&self, session: &SessionId, workspace: WorkspaceNo) -> Remembered {
        let mut generations = self.lock();
        let kept = generations.get(session);
        if kept.is_none_or(|kept| !kept.conversation.is_of(workspace)) {
            return Remembered::default();
        }
        generations.remove(session).unwrap_or_default()
    }

    /// Caches a conversation, unless it alone would take most of the memory.
    pub(super) fn put(&self, session: SessionId, conversation: Remembered) {
        let kept = Kept::of(conversation);
        self.lock().insert(session, kept, self.max_bytes / 2);
    }

    /// The same drive, which adds the run's messages to the cache at its end.
    pub(super) fn hear(
        self: Arc<Self>,
        session: SessionId,
        run: RunId,
        driving: Driving,
    ) -> Driving {
        Box::pin(async move {
            let last_word = driving.await;
            if let Some(said) = &last_word {
                self.ended(session, &run, said);
            }
            last_word
        })
    }

    /// The run has ended, and no other waits behind it.
    fn ended(&self, session: SessionId, run: &RunId, said: &RunTail) {
        let mut generations = self.lock();
        // Otherwise a later message has read the store and cached a newer state.
        if generations.awaits(&session, run) {
            let before = generations.remove(&session).unwrap_or_default();
            let mut settled = before.followed_by(&said.messages);
            settled = settled.staying_on(said.active_model.clone());
            settled.rest = Rest::Nothing(Instant::now());
            generations.insert(session, Kept::of(settled), self.max_bytes / 2);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn get(&self, session: &SessionId) -> Option<&Kept> {
        self.young.get(session).or_else(|| self.old.get(session))
    }

    fn awaits(&self, session: &SessionId, run: &RunId) -> bool {
        let rest = self.get(session).map(|kept| &kept.conversation.rest);
        matches!(rest, Some(Rest::Awaited(awaited)) if awaited == run)
    }

    fn remove(&mut self, session: &SessionId) -> Option<Remembered> {
        let young = self.young.remove(session);
        if let Some(found) = &young {
            self.young_bytes = self.young_bytes.saturating_sub(found.bytes);
        }
        let old = self.old.remove(session);
        young.or(old).map(|kept| kept.conversation)
    }

    fn insert(&mut self, session: SessionId, kept: Kept, room: usize) {
        self.remove(&session);
        if kept.bytes > room {
            return;
        }
        if self.young_bytes + kept.bytes > room {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += kept.bytes;
        self.young.insert(session, kept);
    }
}

impl Kept {
    fn of(conversation: Remembered) -> Self {
        let bytes = conversation.bytes();
        Self {
            conversation,
            bytes,
        }
    }
}

#[cfg(test)]
#[path = "conversations_tests.rs"]
mod tests;

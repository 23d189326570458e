//! The attempts of `fail CODE N`, the only thing the demo model remembers.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

/// How many conversations are remembered; the oldest is forgotten first.
const MAX_CONVERSATIONS: usize = 1_024;

/// Attempts by conversation and prompt. Of the process and not of one model, because a driver may open the model anew for
/// every attempt.
static ATTEMPTS: LazyLock<Mutex<VecDeque<(u64, u32)>>> = LazyLock::new(Mutex::default);

/// Counts one more attempt; true while the count is within `limit`.
pub(super) fn attempt(conversation: &str, prompt: (usize, &str), limit: u32) -> bool {
    let mut hasher = DefaultHasher::new();
    (conversation, prompt).hash(&mut hasher);
    let key = hasher.finish();
    let mut attempts = ATTEMPTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, count)) = attempts.iter_mut().find(|(known, _)| *known == key) {
        *count = count.saturating_add(1);
        return *count <= limit;
    }
    if attempts.len() >= MAX_CONVERSATIONS {
        attempts.pop_front();
    }
    attempts.push_back((key, 1));
    limit >= 1
}

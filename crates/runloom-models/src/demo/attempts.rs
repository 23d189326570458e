//! Counts the attempts of `fail CODE N`, the only state of the demo model.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::turn::Prompt;

/// Most prompts that are counted; the oldest is dropped first.
const MAX_PROMPTS: usize = 1_024;

/// The attempts of one prompt.
struct Attempts {
    /// Hash of the conversation and the prompt.
    key: u64,
    count: u32,
}

/// Of the process and not of one model, because a driver may open the model again for every attempt.
static ATTEMPTS: LazyLock<Mutex<VecDeque<Attempts>>> = LazyLock::new(Mutex::default);

/// Counts one more attempt. Returns whether the count is within `limit`.
pub(super) fn count(conversation: &str, prompt: &Prompt<'_>, limit: u32) -> bool {
    let mut hasher = DefaultHasher::new();
    (conversation, prompt.position, prompt.text).hash(&mut hasher);
    let key = hasher.finish();
    let mut attempts = ATTEMPTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = attempts.iter_mut().find(|known| known.key == key) {
        known.count = known.count.saturating_add(1);
        return known.count <= limit;
    }
    if attempts.len() >= MAX_PROMPTS {
        attempts.pop_front();
    }
    attempts.push_back(Attempts { key, count: 1 });
    limit >= 1
}

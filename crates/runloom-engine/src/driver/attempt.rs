//! One attempt at a turn: what came of it, and whether and when it is worth another.

use std::time::Duration;

use runloom_protocol::backoff::{Backoff, Jitter};
use runloom_protocol::outcome::{ErrorClass, Tokens, finish_reason};

use super::turn::TurnInterrupt;
use crate::run::Spent;
use runloom_ports::model::{CallRequest, Done, ModelError};

/// Longest pause, also for a provider's own hint: past it the run fails and says when to come back.
pub(super) const BACKOFF_LONGEST: Duration = Duration::from_secs(60);

const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: BACKOFF_LONGEST,
    jitter: Jitter::Full,
};

/// What has come of a turn so far.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) text: String,
    pub(super) calls: Vec<CallRequest>,
    pub(super) tokens: Tokens,
    pub(super) shown: bool,
    /// The provider has begun to answer, or may have: it may bill.
    pub(super) accepted: bool,
}

impl Progress {
    /// Of a turn whose tokens are recorded.
    pub(super) fn spent(self) -> Spent {
        Spent {
            tokens: Tokens::default(),
            turns: 1,
            partial_text: Some(self.text),
        }
    }
}

/// What one attempt at a turn came to.
pub(super) enum Attempt {
    Done(Progress, Done),
    Broken(Progress, ModelError),
    Interrupted(Progress, TurnInterrupt),
}

impl Attempt {
    /// Whether it was completed or interrupted, or the class of its error.
    pub(super) fn outcome(&self) -> Result<bool, ErrorClass> {
        match self {
            Self::Done(..) => Ok(true),
            Self::Interrupted(..) => Ok(false),
            Self::Broken(_, error) => Err(error.class),
        }
    }
}

/// A call that the provider could not parse is a complete turn, whichever way the provider reports it: the machine gives it back
/// to the model once.
pub(super) fn given_back(attempt: Attempt) -> Attempt {
    match attempt {
        Attempt::Broken(mut progress, error)
            if error.finish_reason.as_deref() == Some(finish_reason::MALFORMED_FUNCTION_CALL) =>
        {
            progress.calls.clear();
            let finish_reason = finish_reason::MALFORMED_FUNCTION_CALL.to_owned();
            Attempt::Done(
                progress,
                Done {
                    finish_reason,
                    ..Done::default()
                },
            )
        }
        other => other,
    }
}

/// A call that was refused costs nothing. One that nobody heard of again may have been answered all the same.
pub(super) fn may_bill(error: &ModelError) -> bool {
    let unheard = matches!(
        error.class,
        ErrorClass::Timeout | ErrorClass::UpstreamDeadline
    );
    unheard && error.api_status.is_none()
}

/// How often a call is tried again while a fallback waits. One that nobody answers has cost a minute already, and where money is
/// limited perhaps all that it was given: that belongs to the model that answers.
pub(super) fn retries_before_fallback(error: &ModelError, money_is_limited: bool) -> u32 {
    match error.class {
        ErrorClass::Timeout | ErrorClass::UpstreamDeadline => {
            u32::from(!(money_is_limited && may_bill(error)))
        }
        _ => u32::MAX,
    }
}

/// Exponential with full jitter, or what the provider asked for.
pub(super) fn backoff(retries: u32, hint: Option<Duration>) -> Duration {
    if let Some(hint) = hint {
        return hint;
    }
    BACKOFF.delay(retries.saturating_add(1))
}

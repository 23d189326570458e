//! One call to the model for a turn: its outcome, and when it is retried.

use std::time::{Duration, Instant};

use runloom_protocol::backoff::{Backoff, Jitter};
use runloom_protocol::outcome::{ErrorClass, Tokens, finish_reason};

use super::interrupt::TurnInterrupt;
use super::money::Billing;
use crate::metrics::CallOutcome;
use crate::run::{Bid, Spent};
use runloom_ports::model::{CallRequest, Done, ModelError};

/// Longest pause before a retry. When the provider asks for a longer one, the run fails and says when to come back.
pub(super) const BACKOFF_LONGEST: Duration = Duration::from_secs(60);

const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(500),
    longest: BACKOFF_LONGEST,
    jitter: Jitter::Full,
};

/// When a turn began, and how often the model was called for it.
pub(super) struct TurnClock {
    pub(super) began: Instant,
    pub(super) attempts: u32,
}

/// What a call has returned so far.
pub(super) struct Progress {
    began: Instant,
    /// Time to the first text, thinking or tool call.
    pub(super) first_token: Option<Duration>,
    pub(super) text: String,
    pub(super) calls: Vec<CallRequest>,
    pub(super) tokens: Tokens,
    pub(super) shown: bool,
    pub(super) billing: Billing,
}

impl Progress {
    /// Of a call that begins now.
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            first_token: None,
            text: String::new(),
            calls: Vec::new(),
            tokens: Tokens::default(),
            shown: false,
            billing: Billing::default(),
        }
    }

    /// The model has sent a part of its answer.
    pub(super) fn answered(&mut self) {
        if self.first_token.is_none() {
            self.first_token = Some(self.began.elapsed());
        }
    }

    /// The tokens and text that the turn adds to the totals, when its tokens are recorded already.
    pub(super) fn spent(self) -> Spent {
        Spent {
            tokens: Tokens::default(),
            turns: 1,
            partial_text: Some(self.text),
        }
    }
}

/// Outcome of one call.
pub(super) enum Attempt {
    Done(Progress, Done),
    Broken(Progress, ModelError),
    Interrupted(Progress, TurnInterrupt),
}

impl Attempt {
    /// The outcome for the metrics.
    pub(super) fn outcome(&self) -> CallOutcome {
        match self {
            Self::Done(..) => CallOutcome::Completed,
            Self::Interrupted(..) => CallOutcome::Interrupted,
            Self::Broken(_, error) => CallOutcome::Failed(error.class),
        }
    }
}

/// Turns a malformed tool call, however the provider reports it, into a complete turn: the machine returns it to the
/// model once.
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

/// The possible cost of a failed call. A refused call costs nothing; one without a response may have been answered.
pub(super) fn billing_after(error: &ModelError) -> Billing {
    let timed_out = matches!(
        error.class,
        ErrorClass::Timeout | ErrorClass::UpstreamDeadline
    );
    if timed_out && error.api_status.is_none() {
        Billing::Possible
    } else {
        Billing::Reported
    }
}

/// Retries of a call while a fallback is available. A timeout is retried once, or not at all when it may have used up
/// the reserved money.
pub(super) fn retries_before_fallback(error: &ModelError, bid: Option<&Bid>) -> u32 {
    match error.class {
        ErrorClass::Timeout | ErrorClass::UpstreamDeadline => {
            u32::from(bid.is_none() || billing_after(error) == Billing::Reported)
        }
        _ => u32::MAX,
    }
}

/// The pause before the next retry: the provider's own, or exponential with full jitter.
pub(super) fn backoff(retries: u32, hint: Option<Duration>) -> Duration {
    if let Some(hint) = hint {
        return hint;
    }
    BACKOFF.delay(retries.saturating_add(1))
}

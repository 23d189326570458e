//! One call to the model for a turn: its outcome, and when it is retried.

use std::time::Duration;

use runloom_protocol::backoff::{Backoff, Jitter};
use runloom_protocol::outcome::{ErrorClass, Tokens, finish_reason};

use super::money::Billing;
use super::turn::TurnInterrupt;
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

/// What a call has returned so far.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) text: String,
    pub(super) calls: Vec<CallRequest>,
    pub(super) tokens: Tokens,
    pub(super) shown: bool,
    pub(super) billing: Billing,
}

impl Progress {
    /// What the turn adds to the totals, when its tokens are recorded already.
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

/// What a failed call may cost. A refused call costs nothing; one without a response may have been answered.
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

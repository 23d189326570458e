//! Requests that are sent again with their `Idempotency-Key`.

use super::auth::Caller;
use crate::error::{Error, Result};
use crate::service::Service;
use runloom_ports::store::{Earlier, Idempotency};

impl Service {
    /// The outcome of a request that creates something; when it was refused, what the first request with its key created. Creating
    /// looks at the key itself, but a repetition may not get that far: its session may have ended since. Looked
    /// up only then, so that it costs who succeeds nothing.
    pub(super) async fn or_first_answer<T>(
        &self,
        caller: &Caller,
        key: Option<&Idempotency>,
        outcome: Result<T>,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let (Err(refusal), Some(key)) = (&outcome, key) else {
            return outcome;
        };
        // Who may not send a request is not told what became of it. And what has no room or no store at the moment is asked again later: it
        // must not be made busier by being refused.
        if matches!(
            refusal,
            Error::IdempotencyKeyReused
                | Error::Forbidden { .. }
                | Error::PlanLacks { .. }
                | Error::Unavailable { .. }
                | Error::Internal(_)
        ) {
            return outcome;
        }
        match self.parts.store.earlier(caller.workspace.no, key).await {
            Ok(Earlier::Same(answer)) => read(&answer).map_or(outcome, Ok),
            Ok(Earlier::OtherBody(_)) => Err(Error::IdempotencyKeyReused),
            // When the store fails, the refusal says so already or is the better answer.
            Ok(Earlier::None) | Err(_) => outcome,
        }
    }
}

//! Repeated requests with an idempotency key.

use super::auth::Caller;
use crate::error::{Error, Result};
use runloom_ports::store::{Earlier, Idempotency, Store};

/// The outcome of a request that creates something. When it was refused, the result of the first request with its key:
/// the insert checks the key as well, but a repetition may be refused before that, for example because its session has
/// ended. Looked up only after a refusal, so the success path pays nothing.
pub(super) async fn or_first_result<T>(
    store: &dyn Store,
    caller: &Caller,
    key: Option<&Idempotency>,
    outcome: Result<T>,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T> {
    let (Err(refusal), Some(key)) = (&outcome, key) else {
        return outcome;
    };
    // A caller without permission must not learn the result, and an overloaded store must not get more queries.
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
    match store.earlier(caller.workspace.no, key).await {
        Ok(Earlier::Same(first)) => read(&first).map_or(outcome, Ok),
        Ok(Earlier::OtherBody(_)) => Err(Error::IdempotencyKeyReused),
        // When the store fails, the refusal is the better response.
        Ok(Earlier::None) | Err(_) => outcome,
    }
}

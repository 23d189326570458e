//! Runs and sessions that are private to their owner: other personal owners do not find them.

use runloom_ports::store::Store;
use runloom_protocol::id::{RunId, SessionId};

use crate::auth::Caller;
use crate::error::{Error, Result};

/// Lets a caller through to a run that is not private to another owner.
///
/// # Errors
/// [`Error::NotFound`].
pub(crate) async fn check_run_visible(
    store: &dyn Store,
    caller: &Caller,
    run: &RunId,
) -> Result<()> {
    let Some(owner) = caller.sees_only() else {
        return Ok(());
    };
    let private = store.private_owner_of_run(caller.workspace.no, run).await?;
    match private.is_none_or(|private| private == owner) {
        true => Ok(()),
        false => Err(Error::NotFound { what: "run" }),
    }
}

/// Lets a caller through to a session that is not private to another owner.
///
/// # Errors
/// [`Error::NotFound`].
pub(crate) async fn check_session_visible(
    store: &dyn Store,
    caller: &Caller,
    session: &SessionId,
) -> Result<()> {
    let Some(owner) = caller.sees_only() else {
        return Ok(());
    };
    let private = store
        .private_owner_of_session(caller.workspace.no, session)
        .await?;
    match private.is_none_or(|private| private == owner) {
        true => Ok(()),
        false => Err(Error::NotFound { what: "session" }),
    }
}

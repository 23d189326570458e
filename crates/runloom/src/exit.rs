//! Exit codes, and failures with their exit code.

use std::io;
use std::process::ExitCode;

use runloom_client::Error as ClientError;

use crate::config::Invalid;

/// The outcome of the program. The numbers are documented in `runloom --help` and `docs/cli.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Success.
    Ok = 0,
    /// Failure.
    Failure = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The configuration is invalid.
    Config = 3,
    /// The server cannot be reached.
    Unreachable = 4,
    /// The run failed.
    RunFailed = 5,
    /// Interrupted, or the run was cancelled.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// The message; `None` when standard output was closed.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: Some(message.into()),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failure, format!("{error:#}"))
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        Self::new(Exit::Config, invalid.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let exit = match &error {
            ClientError::Setup(_) => Exit::Usage,
            error if error.is_unreachable() => Exit::Unreachable,
            _ => Exit::Failure,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // The reader closed the pipe, as in `runloom runs list | head -1`.
            return Self {
                exit: Exit::Ok,
                message: None,
            };
        }
        Self::new(Exit::Failure, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_pipe_is_not_a_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit, failure.message), (Exit::Ok, None));
        let failure = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(failure.exit, Exit::Failure);
    }

    #[test]
    fn unreachable_server_has_its_own_exit_code() {
        let failure = Failure::from(ClientError::Network("refused".to_owned(), None));
        assert_eq!(failure.exit, Exit::Unreachable);
    }
}

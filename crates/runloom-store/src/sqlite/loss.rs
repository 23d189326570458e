//! Acknowledged writes that are lost: refused, or accepted by an administrator.

use crate::{DataLoss, OpenError};

/// What happens when acknowledged writes are lost, and what was lost already.
#[derive(Debug)]
pub(super) struct Losses {
    policy: DataLoss,
    accepted: Vec<String>,
}

impl Losses {
    pub(super) fn new(policy: DataLoss) -> Self {
        Self {
            policy,
            accepted: Vec::new(),
        }
    }

    /// Returns the loss as an error, or notes it when losses are accepted.
    pub(super) fn report(&mut self, loss: OpenError) -> Result<(), OpenError> {
        match (self.policy, &loss) {
            (
                DataLoss::Accept,
                OpenError::DataLoss {
                    file,
                    problem,
                    lost,
                },
            ) => {
                let text = format!("{} {problem}: {lost}", file.display());
                tracing::warn!(loss = text, "data loss accepted");
                self.accepted.push(text);
                Ok(())
            }
            _ => Err(loss),
        }
    }

    /// One line for each accepted loss.
    pub(super) fn into_accepted(self) -> Vec<String> {
        self.accepted
    }
}

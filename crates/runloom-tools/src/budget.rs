//! What the tools that peers list may add up to in one run: they are kept with the run and told to the model on every turn.

use std::sync::{Mutex, PoisonError};

/// The most tools and bytes of them, over all refs of a run.
const MAX_TOOLS: usize = 2048;
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// What is left for the refs of one run.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<Left>);

#[derive(Debug)]
struct Left {
    tools: usize,
    bytes: usize,
}

impl Budget {
    /// Everything is left.
    pub(crate) fn whole() -> Self {
        Self(Mutex::new(Left {
            tools: MAX_TOOLS,
            bytes: MAX_BYTES,
        }))
    }

    /// Takes all of it or nothing.
    ///
    /// # Errors
    /// In words for a model, when so much is not left.
    pub(crate) fn take(&self, tools: usize, bytes: usize) -> Result<(), String> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tools > left.tools || bytes > left.bytes {
            return Err(format!(
                "its tools do not fit beside the others of this run, which may have {MAX_TOOLS} tools of MCP servers and {} MiB of their descriptions and schemas",
                MAX_BYTES / (1024 * 1024)
            ));
        }
        left.tools -= tools;
        left.bytes -= bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_takes_nothing() {
        let budget = Budget::whole();
        budget.take(1, MAX_BYTES - 10).unwrap();
        assert!(budget.take(1, 11).is_err());
        budget.take(MAX_TOOLS - 1, 10).unwrap();
        assert!(budget.take(1, 0).is_err());
    }
}

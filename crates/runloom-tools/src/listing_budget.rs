//! Limit on the tools that the MCP servers of one run list together. They are stored with the run and sent to the model
//! on every turn.

use parking_lot::Mutex;

/// Maximum tools, and bytes of their descriptions and schemas, over all refs of a run.
const MAX_TOOLS: usize = 2048;
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The remaining tools and bytes of one run.
#[derive(Debug)]
pub(crate) struct ListingBudget(Mutex<Remaining>);

#[derive(Debug)]
struct Remaining {
    tools: usize,
    bytes: usize,
}

impl ListingBudget {
    /// The budget of a new run.
    pub(crate) fn full() -> Self {
        Self(Mutex::new(Remaining {
            tools: MAX_TOOLS,
            bytes: MAX_BYTES,
        }))
    }

    /// Takes all of it or nothing.
    ///
    /// # Errors
    /// A message for the model when the budget is too small.
    pub(crate) fn take(&self, tools: usize, bytes: usize) -> Result<(), String> {
        let mut remaining = self.0.lock();
        if tools > remaining.tools || bytes > remaining.bytes {
            return Err(format!(
                "its tools exceed the limit of a run: {MAX_TOOLS} tools of MCP servers and {} MiB of descriptions and schemas",
                MAX_BYTES / (1024 * 1024)
            ));
        }
        remaining.tools -= tools;
        remaining.bytes -= bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_beyond_the_budget_takes_nothing() {
        let budget = ListingBudget::full();
        budget.take(1, MAX_BYTES - 10).unwrap();
        assert!(budget.take(1, 11).is_err());
        budget.take(MAX_TOOLS - 1, 10).unwrap();
        assert!(budget.take(1, 0).is_err());
    }
}

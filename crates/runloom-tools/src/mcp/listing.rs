//! Tool lists of MCP servers, limited in size because the server determines their length.

use std::io;

use rmcp::model::Tool;
use serde::Serialize;

/// Maximum pages, tools and bytes of one listing. One page may have all the bytes.
pub(super) const MAX_PAGES: usize = 32;
const MAX_TOOLS: usize = 512;
pub(super) const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The tools of a server, in its order.
#[derive(Debug, Default)]
pub(super) struct ToolListing {
    pub(super) tools: Vec<Tool>,
    /// Size of all tools as JSON.
    pub(super) bytes: usize,
    /// Whether the server has more tools than the limits allow.
    pub(super) is_truncated: bool,
}

impl ToolListing {
    /// Adds the tools of a page, up to the limits.
    pub(super) fn add(&mut self, page: Vec<Tool>) {
        for tool in page {
            let bytes = json_size(&tool);
            let is_full = self.tools.len() >= MAX_TOOLS || self.bytes + bytes > MAX_BYTES;
            if self.is_truncated || is_full {
                self.is_truncated = true;
                return;
            }
            self.bytes += bytes;
            self.tools.push(tool);
        }
    }

    /// Whether further pages would be dropped.
    pub(super) fn is_full(&self) -> bool {
        self.is_truncated || self.tools.len() >= MAX_TOOLS
    }
}

/// Size of a value as JSON, without building the JSON.
pub(super) fn json_size(value: &impl Serialize) -> usize {
    let mut counter = ByteCounter(0);
    // The value was parsed from JSON, so serializing it cannot fail.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! What a server lists, up to a size: whoever runs the server decides how long its list is.

use std::io;

use rmcp::model::Tool;
use serde::Serialize;

/// Pages, tools and bytes of one listing; a single page may have as many bytes.
pub(super) const MAX_PAGES: usize = 32;
const MAX_TOOLS: usize = 512;
pub(super) const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The tools of a server, in its order.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<Tool>,
    /// As JSON, of all together.
    pub(super) bytes: usize,
    /// There are more, which nobody has asked for or kept.
    pub(super) is_cut: bool,
}

impl Listing {
    /// Adds what there is room for.
    pub(super) fn add(&mut self, page: Vec<Tool>) {
        for tool in page {
            let bytes = size(&tool);
            if self.is_cut || self.tools.len() >= MAX_TOOLS || self.bytes + bytes > MAX_BYTES {
                self.is_cut = true;
                return;
            }
            self.bytes += bytes;
            self.tools.push(tool);
        }
    }

    /// Whether another page could add something.
    pub(super) fn is_full(&self) -> bool {
        self.is_cut || self.tools.len() >= MAX_TOOLS
    }
}

/// Bytes of the value as JSON, which is not made for it.
pub(super) fn size(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    // What cannot be written as JSON came from none.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! Size limit of one server-sent event, so that an endless line or event does not fill the memory.

use crate::outbound::OutboundError;

/// Maximum bytes of one event.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Counts the bytes of the current event.
#[derive(Debug)]
pub(super) struct EventSizeLimit {
    limit: usize,
    event_bytes: usize,
    /// Whether the last byte ended a line, so that another line end ends the event.
    at_line_start: bool,
}

impl Default for EventSizeLimit {
    fn default() -> Self {
        Self::new(MAX_EVENT_BYTES)
    }
}

impl EventSizeLimit {
    /// A limit of `limit` bytes, at most [`MAX_EVENT_BYTES`].
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.min(MAX_EVENT_BYTES),
            event_bytes: 0,
            at_line_start: false,
        }
    }

    /// Counts a chunk; fails when the current event exceeds the limit.
    pub(super) fn count(&mut self, chunk: &[u8]) -> Result<(), OutboundError> {
        for byte in chunk {
            match byte {
                b'\n' if self.at_line_start => self.event_bytes = 0,
                b'\n' => self.at_line_start = true,
                b'\r' => {}
                _ => self.at_line_start = false,
            }
            self.event_bytes += 1;
        }
        if self.event_bytes > self.limit {
            return Err(OutboundError::TooLarge {
                what: "an event of the stream",
                limit: self.limit,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_each_event_and_not_the_stream() {
        let mut limit = EventSizeLimit::default();
        let small = b"data: x\r\n\r\n".repeat(100_000);
        for _ in 0..40 {
            limit.count(&small).unwrap();
        }
        let mut endless = EventSizeLimit::default();
        let line = vec![b'x'; 1024 * 1024];
        let refused = (0..20).any(|_| endless.count(&line).is_err());
        assert!(refused);
    }
}

//! The cap on one server-sent event: a line or an event that never ends must not fill the memory.

use crate::outbound::OutboundError;

/// The most bytes of one event.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Counts the bytes of the event under way.
#[derive(Debug)]
pub(super) struct EventCap {
    most: usize,
    event: usize,
    /// The last line end was followed by nothing yet, so that another one ends the event.
    at_line_start: bool,
}

impl Default for EventCap {
    fn default() -> Self {
        Self::of(MAX_EVENT_BYTES)
    }
}

impl EventCap {
    /// A cap of so many bytes, [`MAX_EVENT_BYTES`] at most.
    pub(super) fn of(most: usize) -> Self {
        Self {
            most: most.min(MAX_EVENT_BYTES),
            event: 0,
            at_line_start: false,
        }
    }

    /// Takes note of a chunk.
    pub(super) fn admit(&mut self, chunk: &[u8]) -> Result<(), OutboundError> {
        for byte in chunk {
            match byte {
                b'\n' if self.at_line_start => self.event = 0,
                b'\n' => self.at_line_start = true,
                b'\r' => {}
                _ => self.at_line_start = false,
            }
            self.event += 1;
        }
        if self.event > self.most {
            return Err(OutboundError::TooLarge {
                what: "an event of the stream",
                limit: self.most,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_does_not_end_is_refused_and_many_small_ones_are_not() {
        let mut cap = EventCap::default();
        let small = b"data: x\r\n\r\n".repeat(100_000);
        for _ in 0..40 {
            cap.admit(&small).unwrap();
        }
        let mut endless = EventCap::default();
        let line = vec![b'x'; 1024 * 1024];
        let refused = (0..20).any(|_| endless.admit(&line).is_err());
        assert!(refused);
    }
}
